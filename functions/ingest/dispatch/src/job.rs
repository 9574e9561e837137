use std::time::Duration;

use attempt::{Retry, Retryable};
use objects::ObjectError;
use transport::{AnnounceError, PayloadNotice, UnknownNotice, read_payload_notices};
use worker::{Job, Record, Visibility};

use crate::Dispatch;

/// Reason why a message was not passed on. It stays in its queue.
#[derive(Debug, thiserror::Error)]
pub enum DispatchError {
    #[error("cannot read the notification")]
    Notice(#[from] UnknownNotice),
    #[error("cannot look up the object's tenant")]
    Object(#[from] ObjectError),
    #[error("cannot pass the notification on")]
    Queue(#[from] AnnounceError),
}

impl Retryable for DispatchError {
    fn retry(&self) -> Retry {
        match self {
            Self::Notice(error) => error.retry(),
            Self::Object(error) => error.retry(),
            Self::Queue(error) => error.retry(),
        }
    }
}

impl Job for Dispatch {
    const SUBJECT: &'static str = "notification";
    const RESERVE: Duration = Duration::from_secs(2);

    type Work = PayloadNotice;
    type Error = DispatchError;

    /// Returns the first object. S3 names one in each message; further ones would go where the
    /// first one goes.
    fn read(&self, record: &Record) -> Result<Vec<PayloadNotice>, DispatchError> {
        let event = attempt::malformed::from_slice(record.body.as_deref().unwrap_or_default());
        let mut notices = read_payload_notices(event.map_err(UnknownNotice::from)?)?;
        notices.truncate(1);
        Ok(notices)
    }

    async fn run(&self, notice: PayloadNotice, record: &Record) -> Result<(), DispatchError> {
        tracing::Span::current().record("object", &notice.key);
        self.pass_on(record.body.as_deref().unwrap_or_default(), &notice).await
    }

    fn visibility(&self, _: &Record) -> Option<&Visibility> {
        Some(&self.visibility)
    }
}
