use std::error::Error;

use attempt::{Retry, Retryable};
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::SdkError;

/// Reason why an S3 object was not read, written or tagged.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum ObjectError {
    #[error("object `{key}` does not exist")]
    Missing { key: String },
    /// Access is denied, or the object does not exist: S3 answers 404 only to callers that may list
    /// the bucket.
    #[error("access to object `{key}` is denied")]
    Denied {
        key: String,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The object has another ETag than the request expects, because it was replaced, or it exists
    /// although the request may only create it.
    #[error("object `{key}` was replaced or created meanwhile")]
    Replaced { key: String },
    #[error("object `{key}` is larger than {limit} bytes")]
    TooLarge { key: String, limit: usize },
    #[error("{uri} is not in this bucket")]
    Elsewhere { uri: String },
    #[error("S3 request failed for object `{key}`")]
    Storage {
        key: String,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

impl Retryable for ObjectError {
    fn retry(&self) -> Retry {
        match self {
            // A replaced object is read from its beginning by the next attempt.
            // A right may be granted meanwhile.
            Self::Replaced { .. } | Self::Denied { .. } | Self::Storage { .. } => Retry::Later,
            Self::Missing { .. } | Self::TooLarge { .. } | Self::Elsewhere { .. } => Retry::Never,
        }
    }
}

impl ObjectError {
    pub(crate) fn of<E>(key: &str, error: SdkError<E, HttpResponse>) -> Self
    where
        E: Error + Send + Sync + 'static,
    {
        match error.raw_response().map(|response| response.status().as_u16()) {
            Some(404) => Self::Missing { key: key.to_owned() },
            Some(403) => Self::Denied { key: key.to_owned(), source: error.into() },
            Some(412) => Self::Replaced { key: key.to_owned() },
            _ => Self::broken(key, error),
        }
    }

    pub(crate) fn broken(key: &str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Storage { key: key.to_owned(), source: source.into() }
    }
}
