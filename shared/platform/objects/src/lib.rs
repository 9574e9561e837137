//! Objects in S3: the ingest's payloads and the chunks cut from them, and the bodies of messages
//! that clients upload.

mod body;
mod copy;
mod create;
mod download;
mod each;
mod error;
mod list;
mod parts;
mod tags;
mod uri;

pub use body::ObjectBody;
pub use copy::{CopyOf, Version};
pub use create::{NewObject, SignedPut};
pub use error::ObjectError;
pub use list::{Listed, Page};
pub use parts::{ObjectInParts, PART};
pub use uri::uri_of;

use std::collections::{BTreeMap, HashSet};

use aws_sdk_s3::Client;
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::primitives::ByteStream;
use futures_util::FutureExt as _;

use crate::each::each;

/// Client of one S3 bucket.
#[derive(Clone, Debug)]
pub struct Objects {
    client: Client,
    bucket: String,
}

/// Metadata of an S3 object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// User metadata of the object, by name without the prefix `x-amz-meta-`.
    pub metadata: BTreeMap<String, String>,
    /// ETag of the object, which changes with its content.
    pub etag: String,
    /// Length of the object in bytes, as it is stored.
    pub length: u64,
}

impl Objects {
    /// Creates a client of the bucket with this name.
    #[must_use]
    pub const fn new(client: Client, bucket: String) -> Self {
        Self { client, bucket }
    }

    /// Returns a client of the bucket with the name `bucket`, with the same SDK client.
    #[must_use]
    pub fn in_bucket(&self, bucket: &str) -> Self {
        Self { client: self.client.clone(), bucket: bucket.to_owned() }
    }

    /// Returns the name of the S3 bucket.
    #[must_use]
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// Returns the `s3://bucket/key` URI of an object, as batches and events name it.
    #[must_use]
    pub fn uri(&self, key: &str) -> String {
        uri_of(&self.bucket, key)
    }

    /// Returns the key in an `s3://bucket/key` URI; `None` if the URI names another bucket.
    #[must_use]
    pub fn key<'a>(&self, uri: &'a str) -> Option<&'a str> {
        uri::key_in(&self.bucket, uri)
    }

    /// Returns the key in an `s3://bucket/key` URI.
    ///
    /// # Errors
    /// [`ObjectError::Elsewhere`] if the URI names another bucket.
    pub fn key_of<'a>(&self, uri: &'a str) -> Result<&'a str, ObjectError> {
        self.key(uri).ok_or_else(|| ObjectError::Elsewhere { uri: uri.to_owned() })
    }

    /// Checks that the bucket exists and responds.
    ///
    /// # Errors
    /// If the bucket does not exist, or if S3 does not respond.
    pub async fn probe(&self) -> Result<(), ObjectError> {
        let answer = self.client.head_bucket().bucket(&self.bucket).send().await;
        answer.map(drop).map_err(|error| ObjectError::of("", error))
    }

    /// Reads the metadata of an S3 object.
    ///
    /// # Errors
    /// If the object does not exist, or if S3 does not respond.
    pub async fn head(&self, key: &str) -> Result<Head, ObjectError> {
        let request = self.client.head_object().bucket(&self.bucket).key(key);
        let head = request.send().await.map_err(|error| ObjectError::of(key, error))?;
        Ok(Head {
            metadata: head.metadata.unwrap_or_default().into_iter().collect(),
            etag: head.e_tag.unwrap_or_default(),
            length: head.content_length.and_then(|length| length.try_into().ok()).unwrap_or_default(),
        })
    }

    /// Returns those of `keys` for which an object exists.
    ///
    /// # Errors
    /// If S3 does not respond.
    pub async fn there(&self, keys: Vec<String>) -> Result<HashSet<String>, ObjectError> {
        let asked = keys.into_iter().map(|key| {
            async move {
                match self.head(&key).await {
                    Ok(_) => Ok(Some(key)),
                    Err(ObjectError::Missing { .. }) => Ok(None),
                    Err(error) => Err(error),
                }
            }
            .boxed()
        });
        each(asked).await.into_iter().filter_map(Result::transpose).collect()
    }

    /// Returns an object's bytes as a stream. No request is made before the first call of
    /// [`next`](ObjectBody::next).
    #[must_use]
    pub fn body(&self, key: &str, head: &Head) -> ObjectBody {
        ObjectBody::new(self.clone(), key, head)
    }

    /// Reads a whole object of at most `limit` bytes.
    ///
    /// # Errors
    /// If the object does not exist or is larger, or if the response breaks off.
    pub async fn get(&self, key: &str, limit: usize) -> Result<Vec<u8>, ObjectError> {
        self.get_to_replace(key, limit).await.map(|(bytes, _)| bytes)
    }

    /// Reads a whole object of at most `limit` bytes, and its ETag. With the ETag,
    /// [`put_over`](Self::put_over) replaces the object only if it is unchanged.
    ///
    /// # Errors
    /// If the object does not exist or is larger, or if the response breaks off.
    pub async fn get_to_replace(&self, key: &str, limit: usize) -> Result<(Vec<u8>, String), ObjectError> {
        let request = self.client.get_object().bucket(&self.bucket).key(key);
        let mut object = request.send().await.map_err(|error| ObjectError::of(key, error))?;
        let bytes = whole(&mut object, key, limit).await?;
        Ok((bytes, object.e_tag.unwrap_or_default()))
    }

    /// Reads a version of an object, or its latest version if `version` is `None`. Also returns the
    /// version id, or the ETag if the object has no version id.
    ///
    /// # Errors
    /// If the version does not exist or has more than `limit` bytes, or if the response breaks off.
    pub async fn get_version(
        &self,
        key: &str,
        version: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<u8>, String), ObjectError> {
        let request = self.client.get_object().bucket(&self.bucket).key(key);
        let request = request.set_version_id(version.map(str::to_owned));
        let mut object = request.send().await.map_err(|error| ObjectError::of(key, error))?;
        let bytes = whole(&mut object, key, limit).await?;
        // Objects that were written before the bucket kept versions all have this one.
        let version = object.version_id.filter(|version| version != "null");
        Ok((bytes, version.or(object.e_tag).unwrap_or_default()))
    }

    /// Writes an object of the media type `content_type`. A repeated call with the same bytes has
    /// no further effect.
    ///
    /// # Errors
    /// If S3 does not accept the object.
    pub async fn put_as(&self, key: &str, content_type: &str, bytes: Vec<u8>) -> Result<(), ObjectError> {
        let body = ByteStream::from(bytes);
        let request = self.client.put_object().bucket(&self.bucket).key(key).content_type(content_type);
        request.body(body).send().await.map(drop).map_err(|error| ObjectError::of(key, error))
    }

    /// Writes an object without a media type. A repeated call with the same bytes has no further
    /// effect.
    ///
    /// # Errors
    /// If S3 does not accept the object.
    pub async fn put(&self, key: &str, bytes: Vec<u8>) -> Result<(), ObjectError> {
        let body = ByteStream::from(bytes);
        let request = self.client.put_object().bucket(&self.bucket).key(key).body(body);
        request.send().await.map(drop).map_err(|error| ObjectError::of(key, error))
    }
}

/// Reads the body of a response to `GetObject`.
///
/// # Errors
/// If the body has more than `limit` bytes, or if the response breaks off.
async fn whole(object: &mut GetObjectOutput, key: &str, limit: usize) -> Result<Vec<u8>, ObjectError> {
    let too_large = || ObjectError::TooLarge { key: key.to_owned(), limit };
    let length = object.content_length.and_then(|length| usize::try_from(length).ok()).unwrap_or_default();
    if length > limit {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(length);
    while let Some(frame) = object.body.next().await {
        let frame = frame.map_err(|error| ObjectError::broken(key, error))?;
        if bytes.len().saturating_add(frame.len()) > limit {
            return Err(too_large());
        }
        bytes.extend_from_slice(&frame);
    }
    Ok(bytes)
}
