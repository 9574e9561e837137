use std::error::Error;

use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::SdkError;

/// Why an object cannot be had or put.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    #[error("there is no object {key}")]
    Missing { key: String },
    /// Another object lies there now than the one whose beginning was read.
    #[error("the object {key} was replaced while it was read")]
    Replaced { key: String },
    #[error("the object {key} has more than {limit} bytes")]
    TooLarge { key: String, limit: usize },
    #[error("{uri} is not an object of this bucket")]
    Elsewhere { uri: String },
    #[error("storage did not do its work on the object {key}")]
    Storage {
        key: String,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

impl ObjectError {
    pub(crate) fn of<E>(key: &str, error: SdkError<E, HttpResponse>) -> Self
    where
        E: Error + Send + Sync + 'static,
    {
        match error.raw_response().map(|response| response.status().as_u16()) {
            Some(404) => Self::Missing { key: key.to_owned() },
            Some(412) => Self::Replaced { key: key.to_owned() },
            _ => Self::broken(key, error),
        }
    }

    pub(crate) fn broken(key: &str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Storage { key: key.to_owned(), source: source.into() }
    }
}
