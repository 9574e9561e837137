//! Reads IBM MQ key repositories that are S3 objects, and caches them like secrets.

use std::sync::Arc;

use attempt::Remembered;
use broker::Deadline;
use mq::ObjectRef;
use objects::{ObjectError, Objects};

use crate::secrets::{REMEMBERED, Secret, SecretError, Value};

/// Maximum size in bytes of a key repository in S3. A repository with the certificates of all
/// public authorities takes a third of it.
const LARGEST: usize = 1024 * 1024;
/// Maximum number of bytes of memory for cached key repositories, enough for hundreds of
/// repositories of usual size. Beyond it, a repository is read from S3 each time.
pub(crate) const MEMORY: usize = 8 * (LARGEST + OVERHEAD);
/// Bytes of memory that a cached key repository takes besides its content: for its names, and for
/// the entry in the cache.
const OVERHEAD: usize = 4096;

/// Reader of IBM MQ key repositories in S3, with a cache.
#[derive(Debug)]
pub(crate) struct KeyObjects {
    s3: aws_sdk_s3::Client,
    remembered: Remembered<ObjectRef, Secret>,
}

/// Reason why an S3 object cannot be used as a key repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyObjectError {
    #[error("does not exist")]
    Missing,
    /// The object does not exist, or this function may not read it. S3 reports both in the same way
    /// to a caller that may not list the bucket.
    #[error("does not exist, or the function may not read it (parameter KeyRepositoryObjects)")]
    Denied,
    #[error("is larger than 1 MiB, the most that a key repository may have")]
    TooLarge,
    #[error("cannot be read from S3 now, or its bucket is in another region")]
    Unavailable,
}

impl KeyObjectError {
    fn of(error: &ObjectError) -> Self {
        match error {
            ObjectError::Missing { .. } => Self::Missing,
            ObjectError::Denied { .. } => Self::Denied,
            ObjectError::TooLarge { .. } => Self::TooLarge,
            ObjectError::Replaced { .. } | ObjectError::Elsewhere { .. } | ObjectError::Storage { .. } => {
                Self::Unavailable
            }
        }
    }
}

impl KeyObjects {
    pub(crate) fn new(s3: aws_sdk_s3::Client) -> Self {
        Self { s3, remembered: Remembered::new(REMEMBERED, MEMORY) }
    }

    /// Returns the bytes of a key repository in S3 and their version id, from the cache if they are
    /// there.
    pub(crate) async fn read(&self, object: &ObjectRef, deadline: Deadline) -> Result<Secret, SecretError> {
        if let Some(known) = self.remembered.get(object) {
            return Ok(known);
        }
        let bucket = Objects::new(self.s3.clone(), object.bucket().to_owned());
        // Boxed, as the reading of a secret.
        let read = Box::pin(bucket.get_version(object.key(), object.version(), LARGEST));
        let read = deadline.run(read).await;
        let read = read.unwrap_or_else(|elapsed| {
            Err(ObjectError::Storage { key: object.key().to_owned(), source: elapsed.into() })
        });
        let (bytes, version) = read.map_err(|error| {
            let why = KeyObjectError::of(&error);
            let error: &(dyn std::error::Error + 'static) = &error;
            tracing::error!(
                event_type = "key_repository.unreadable",
                %object,
                error,
                "cannot read object `{object}`: {error}"
            );
            SecretError::Object { object: object.clone(), why }
        })?;
        let weight = bytes.len() + OVERHEAD;
        let secret = Secret { value: Value::Bytes(Arc::new(bytes.into())), version };
        self.remembered.put_weighing(weight, object.clone(), secret.clone());
        Ok(secret)
    }

    pub(crate) fn has(&self, object: &ObjectRef) -> bool {
        self.remembered.get(object).is_some()
    }

    pub(crate) fn forget(&self, object: &ObjectRef) {
        self.remembered.forget(object);
    }
}
