//! Versions of S3 objects that other programs put, and copies of them.

use std::collections::BTreeMap;

use aws_sdk_s3::types::{MetadataDirective, TaggingDirective};
use jiff::Timestamp;

use crate::list::timestamp;
use crate::{ObjectError, Objects};

/// Version of an object in a bucket to which other programs write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// S3 version id; `None` if versioning is off in the bucket, or was off when the object was
    /// put.
    pub id: Option<String>,
    /// ETag of the object, which changes with its content.
    pub etag: String,
    /// Length of the object in bytes, as it is stored.
    pub length: u64,
    /// Time at which the object was put, in whole seconds.
    pub modified_at: Timestamp,
}

/// Properties of a copy of an S3 object, except its bytes. The copy has no tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOf<'a> {
    /// Bucket of the source object.
    pub bucket: &'a str,
    /// Key of the source object, percent-encoded.
    pub encoded_key: &'a str,
    /// Version of the source object. If the object has another ETag now, the copy fails.
    pub version: &'a Version,
    /// Key of the copy, in the bucket of the client that makes it.
    pub key: &'a str,
    /// Media type of the copy.
    pub content_type: &'a str,
    /// User metadata of the copy, by name without the prefix `x-amz-meta-`.
    pub metadata: BTreeMap<String, String>,
}

impl Objects {
    /// Reads the properties of an object's latest version, or of its version `id`.
    ///
    /// # Errors
    /// If the object or the version does not exist, or if S3 does not respond.
    pub async fn version(&self, key: &str, id: Option<&str>) -> Result<Version, ObjectError> {
        let request = self.client.head_object().bucket(&self.bucket).key(key);
        let request = request.set_version_id(id.map(str::to_owned));
        let head = request.send().await.map_err(|error| ObjectError::of(key, error))?;
        let modified_at = head.last_modified.and_then(timestamp);
        Ok(Version {
            // A bucket that does not keep versions yet names the only one "null".
            id: head.version_id.filter(|id| id != "null"),
            etag: head.e_tag.unwrap_or_default(),
            length: head.content_length.and_then(|length| length.try_into().ok()).unwrap_or_default(),
            modified_at: modified_at.ok_or_else(|| ObjectError::broken(key, "the object has no time"))?,
        })
    }

    /// Returns the ETag of an object, which [`put_over`](Self::put_over) expects; `None` if the
    /// object does not exist.
    ///
    /// # Errors
    /// If S3 does not respond.
    pub async fn etag(&self, key: &str) -> Result<Option<String>, ObjectError> {
        match self.version(key, None).await {
            Ok(version) => Ok(Some(version.etag)),
            Err(ObjectError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Copies an object into this bucket inside S3. A repeated call creates the same copy.
    ///
    /// # Errors
    /// [`ObjectError::Replaced`] if the source object has another ETag now. Other errors if it was
    /// deleted or has more than 5 GB, or if S3 does not respond in time; the copy may then exist.
    pub async fn copy(&self, copy: CopyOf<'_>) -> Result<(), ObjectError> {
        let CopyOf { bucket, encoded_key, version, key, content_type, metadata } = copy;
        let of_version = version.id.as_ref().map(|id| format!("?versionId={id}")).unwrap_or_default();
        let request = self
            .client
            .copy_object()
            .bucket(&self.bucket)
            .key(key)
            .copy_source(format!("{bucket}/{encoded_key}{of_version}"))
            .copy_source_if_match(&version.etag)
            .metadata_directive(MetadataDirective::Replace)
            .tagging_directive(TaggingDirective::Replace)
            .content_type(content_type)
            .set_metadata(Some(metadata.into_iter().collect()));
        request.send().await.map(drop).map_err(|error| ObjectError::of(encoded_key, error))
    }
}
