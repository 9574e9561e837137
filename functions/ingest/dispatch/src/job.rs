use std::time::Duration;

use attempt::{Retry, Retryable};
use ingestion::payload::PayloadNotice;
use objects::ObjectError;
use transport::{AnnounceError, UnknownNotice, read_payload_notices};
use worker::{Job, Record, Visibility};

use crate::Dispatch;

/// Reason why a notification was not passed on. It stays in its queue and is retried.
#[derive(Debug, thiserror::Error)]
pub enum DispatchError {
    #[error("cannot look up the object's tenant")]
    Object(#[from] ObjectError),
    #[error("cannot pass the notification on")]
    Queue(#[from] AnnounceError),
}

impl Retryable for DispatchError {
    fn retry(&self) -> Retry {
        match self {
            Self::Object(error) => error.retry(),
            Self::Queue(error) => error.retry(),
        }
    }
}

impl Job for Dispatch {
    const SUBJECT: &'static str = "notification";
    const RESERVE: Duration = Duration::from_secs(2);

    /// Object that a notification names, or the reason why the message is malformed.
    type Work = Result<PayloadNotice, UnknownNotice>;
    type Error = DispatchError;

    /// Reads the first object that a message names. S3 names only one in each message, and any
    /// further ones would go to the same queue.
    fn read(&self, record: &Record) -> Result<Vec<Self::Work>, DispatchError> {
        let event = attempt::malformed::from_slice(record.body.as_deref().unwrap_or_default());
        Ok(match event.map_err(UnknownNotice::from).and_then(read_payload_notices) {
            Ok(notices) => notices.into_iter().take(1).map(Ok).collect(),
            Err(unknown) => vec![Err(unknown)],
        })
    }

    /// Passes the message on to the queue for its object. A malformed one goes to the queue of
    /// payloads, which gives it up after a few attempts; this function's own queue would keep it
    /// for about a week, as it does messages that wait for unavailable stores.
    async fn run(&self, notice: Self::Work, record: &Record) -> Result<(), DispatchError> {
        let body = record.body.as_deref().unwrap_or_default();
        match notice {
            Ok(notice) => {
                tracing::Span::current().record("object", &notice.key);
                self.pass_on(body, &notice).await
            }
            Err(unknown) => {
                let error: &dyn std::error::Error = &unknown;
                tracing::warn!(
                    event_type = "notification.unknown",
                    error,
                    "a message is no notification of S3, and goes to the unhandled queue by way of the \
                     queue of payloads: {error}"
                );
                Ok(self.payloads.pass_on(body, None).await?)
            }
        }
    }

    fn visibility(&self, _: &Record) -> Option<&Visibility> {
        Some(&self.visibility)
    }
}
