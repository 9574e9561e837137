//! Tags of S3 objects: `state=final`, by which the bucket's lifecycle expires an object, and all
//! tags of objects that other programs put.

use std::collections::BTreeMap;

use aws_sdk_s3::types::{Tag, Tagging};
use futures_util::FutureExt as _;

use crate::each::each;
use crate::{ObjectError, Objects};

impl Objects {
    /// Tags objects with `state=final`, so that the bucket's lifecycle expires them. Objects that
    /// do not exist are skipped; a repeated call has no further effect.
    ///
    /// # Errors
    /// If an object could not be tagged: the first error, after all objects were tried. An object
    /// without the tag is only kept longer.
    pub async fn tag_final(&self, uris: Vec<String>) -> Result<(), ObjectError> {
        let tagged = uris.into_iter().map(|uri| async move { self.tag(&uri).await }.boxed());
        each(tagged).await.into_iter().collect()
    }

    /// Removes the tag `state=final`, so that the bucket's lifecycle does not expire the objects.
    /// Objects that do not exist are skipped; a repeated call has no further effect.
    ///
    /// # Errors
    /// If the tag of an object could not be removed: the first error, after all objects were tried.
    /// It is then unknown which objects will expire.
    pub async fn untag_final(&self, uris: Vec<String>) -> Result<(), ObjectError> {
        let untagged = uris.into_iter().map(|uri| async move { self.untag(&uri).await }.boxed());
        each(untagged).await.into_iter().collect()
    }

    /// Replaces all tags of a version of an object, or of its latest version if `version_id` is
    /// `None`.
    ///
    /// # Errors
    /// If the object or the version does not exist, or if S3 does not respond.
    pub async fn tag_as(
        &self,
        key: &str,
        version_id: Option<&str>,
        tags: &[(&str, String)],
    ) -> Result<(), ObjectError> {
        let tags = tags.iter().map(|(name, value)| Tag::builder().key(*name).value(value).build());
        let tags = tags.collect::<Result<Vec<_>, _>>();
        let tagging = tags.and_then(|tags| Tagging::builder().set_tag_set(Some(tags)).build());
        let tagging = tagging.map_err(|error| ObjectError::broken(key, error))?;
        let request = self.client.put_object_tagging().bucket(&self.bucket).key(key).tagging(tagging);
        let tagged = request.set_version_id(version_id.map(str::to_owned)).send().await;
        tagged.map(drop).map_err(|error| ObjectError::of(key, error))
    }

    /// Returns the tags of an S3 object's latest version.
    ///
    /// # Errors
    /// If the object does not exist, or if S3 does not respond.
    pub async fn tags(&self, key: &str) -> Result<BTreeMap<String, String>, ObjectError> {
        let request = self.client.get_object_tagging().bucket(&self.bucket).key(key);
        let found = request.send().await.map_err(|error| ObjectError::of(key, error))?;
        Ok(found.tag_set.into_iter().map(|tag| (tag.key, tag.value)).collect())
    }

    async fn tag(&self, uri: &str) -> Result<(), ObjectError> {
        let key = self.key_of(uri)?;
        unless_gone(self.tag_as(key, None, &[("state", "final".to_owned())]).await)
    }

    async fn untag(&self, uri: &str) -> Result<(), ObjectError> {
        let key = self.key_of(uri)?;
        let request = self.client.delete_object_tagging().bucket(&self.bucket).key(key);
        unless_gone(request.send().await.map(drop).map_err(|error| ObjectError::of(key, error)))
    }
}

fn unless_gone(tagged: Result<(), ObjectError>) -> Result<(), ObjectError> {
    match tagged {
        Err(ObjectError::Missing { .. }) => Ok(()),
        tagged => tagged,
    }
}
