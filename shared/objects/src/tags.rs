//! Which objects may be let go: the bucket's lifecycle expires those with the tag `state=final`, and no other.

use aws_sdk_s3::types::{Tag, Tagging};

use crate::{ObjectError, Objects};

impl Objects {
    /// Tags the objects of a batch that is final, which lets the bucket's lifecycle expire them.
    /// Repeated harmlessly; an object that is gone needs no tag.
    ///
    /// # Errors
    /// The first one, after all were tried: an object without the tag is only kept longer.
    pub async fn tag_final(&self, uris: Vec<String>) -> Result<(), ObjectError> {
        let tagged = self.each(uris, async |objects, uri| objects.tag(&uri).await).await;
        tagged.into_iter().collect()
    }

    /// Takes the tag away again, so that nothing expires of a batch that goes on. Repeated harmlessly; an
    /// object that is gone stays gone.
    ///
    /// # Errors
    /// The first one, after all were tried: then it is not known which are kept.
    pub async fn keep(&self, uris: Vec<String>) -> Result<(), ObjectError> {
        let kept = self.each(uris, async |objects, uri| objects.untag(&uri).await).await;
        kept.into_iter().collect()
    }

    async fn tag(&self, uri: &str) -> Result<(), ObjectError> {
        let key = self.key_of(uri)?;
        let tag = Tag::builder().key("state").value("final").build();
        let tagging = tag.and_then(|tag| Tagging::builder().tag_set(tag).build());
        let tagging = tagging.map_err(|error| ObjectError::broken(key, error))?;
        let request = self.client.put_object_tagging().bucket(&self.bucket).key(key).tagging(tagging);
        unless_gone(request.send().await.map(drop).map_err(|error| ObjectError::of(key, error)))
    }

    async fn untag(&self, uri: &str) -> Result<(), ObjectError> {
        let key = self.key_of(uri)?;
        let request = self.client.delete_object_tagging().bucket(&self.bucket).key(key);
        unless_gone(request.send().await.map(drop).map_err(|error| ObjectError::of(key, error)))
    }

    fn key_of<'a>(&self, uri: &'a str) -> Result<&'a str, ObjectError> {
        self.key(uri).ok_or_else(|| ObjectError::Elsewhere { uri: uri.to_owned() })
    }
}

fn unless_gone(tagged: Result<(), ObjectError>) -> Result<(), ObjectError> {
    match tagged {
        Err(ObjectError::Missing { .. }) => Ok(()),
        tagged => tagged,
    }
}
