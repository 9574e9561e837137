//! Which objects may be let go: the bucket's lifecycle expires those with the tag `state=final`, and no other.

use aws_sdk_s3::types::{Tag, Tagging};
use tokio::task::{JoinError, JoinSet};

use crate::{ObjectError, Objects};

/// Objects that are worked on at once.
const AT_ONCE: usize = 8;

impl Objects {
    /// Tags the objects of a batch that is final, which lets the bucket's lifecycle expire them. Repeated harmlessly.
    ///
    /// # Errors
    /// The first one, after all were tried: an object without the tag is only kept longer.
    pub async fn tag_final(&self, uris: Vec<String>) -> Result<(), ObjectError> {
        let tagged = self.each(uris, async |objects, uri| objects.tag(&uri).await).await;
        tagged.into_iter().collect()
    }

    /// Takes the tag away again, so that nothing expires of a batch that goes on, and tells which objects are gone already. Repeated harmlessly.
    ///
    /// # Errors
    /// The first one, after all were tried: then it is not known which are kept.
    pub async fn keep(&self, uris: Vec<String>) -> Result<Vec<String>, ObjectError> {
        let kept = self.each(uris, async |objects, uri| objects.untag(uri).await).await;
        let gone = kept.into_iter().collect::<Result<Vec<Option<String>>, _>>()?;
        Ok(gone.into_iter().flatten().collect())
    }

    /// Does the same to each object, and gives all results once all are there.
    async fn each<T, F>(
        &self,
        uris: Vec<String>,
        work: impl Fn(Self, String) -> F,
    ) -> Vec<Result<T, ObjectError>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ObjectError>> + Send + 'static,
    {
        let mut results = Vec::with_capacity(uris.len());
        let mut working = JoinSet::new();
        for uri in uris {
            if working.len() >= AT_ONCE {
                results.extend(working.join_next().await.map(flat));
            }
            working.spawn(work(self.clone(), uri));
        }
        while let Some(result) = working.join_next().await {
            results.push(flat(result));
        }
        results
    }

    async fn tag(&self, uri: &str) -> Result<(), ObjectError> {
        let key = self.key_of(uri)?;
        let tag = Tag::builder().key("state").value("final").build();
        let tagging = tag.and_then(|tag| Tagging::builder().tag_set(tag).build());
        let tagging = tagging.map_err(|error| ObjectError::broken(key, error))?;
        let request = self.client.put_object_tagging().bucket(&self.bucket).key(key).tagging(tagging);
        request.send().await.map(drop).map_err(|error| ObjectError::of(key, error))
    }

    /// Gives the address back where there is no object.
    async fn untag(&self, uri: String) -> Result<Option<String>, ObjectError> {
        let key = self.key_of(&uri)?;
        let request = self.client.delete_object_tagging().bucket(&self.bucket).key(key);
        let untagged = request.send().await.map(drop).map_err(|error| ObjectError::of(key, error));
        // Asked only then, so that nothing expires in between.
        let found = match untagged {
            Ok(()) => self.head(key).await.map(drop),
            error => error,
        };
        match found {
            Ok(()) => Ok(None),
            Err(ObjectError::Missing { .. }) => Ok(Some(uri)),
            Err(error) => Err(error),
        }
    }

    fn key_of<'a>(&self, uri: &'a str) -> Result<&'a str, ObjectError> {
        self.key(uri).ok_or_else(|| ObjectError::Elsewhere { uri: uri.to_owned() })
    }
}

fn flat<T>(result: Result<Result<T, ObjectError>, JoinError>) -> Result<T, ObjectError> {
    result.unwrap_or_else(|error| Err(ObjectError::broken("", error)))
}
