use std::time::Duration;

use attempt::{Retry, Retryable as _};
use ingestion::payload::batch_of_payload;
use runtime::metrics;
use serde_json::Map;
use transport::record_chunk;
use worker::{Disposition, Failure, Job, Record, Visibility};

use crate::message::{self, Work};
use crate::{DeadLetter, DeadLetterError, SERVICE};

impl Job for DeadLetter {
    const SUBJECT: &'static str = "message";
    /// Time at the end of an invocation that is kept free for forwarding messages whose work
    /// failed, or for changing their visibility timeouts.
    const RESERVE: Duration = Duration::from_secs(5);

    type Work = Work;
    type Error = DeadLetterError;

    fn read(&self, record: &Record) -> Result<Vec<Work>, DeadLetterError> {
        let body = record.body.as_deref().unwrap_or_default();
        let is_about_payloads = record.source.as_deref().is_some_and(|arn| self.payloads.is_of(arn));
        if is_about_payloads { message::read_notice(body) } else { message::read(body) }
    }

    async fn run(&self, work: Work, _: &Record) -> Result<(), DeadLetterError> {
        let done = match work {
            Work::Chunk(event) => {
                record_chunk(&event);
                self.give_up_chunk(event.data()).await
            }
            Work::Payload(notice) => {
                let span = tracing::Span::current();
                span.record("object", &notice.key);
                span.record("batch_id", batch_of_payload(&notice.key).map(tracing::field::display));
                self.give_up_payload(&notice).await
            }
        };
        self.database.publish_committed(&self.publisher).await;
        done
    }

    fn visibility(&self, record: &Record) -> Option<&Visibility> {
        let arn = record.source.as_deref()?;
        [&self.payloads, &self.chunks].into_iter().find(|source| source.is_of(arn))
    }

    /// Keeps a message in its queue if a later attempt may record it, also if this attempt ran out
    /// of time. Any other message is forwarded to the unhandled queue. A message that can be
    /// recorded only after a repair is kept too, because no other function reads it after this one.
    /// [`RESERVE`](Job::RESERVE) is long enough for the call that changes a kept message's
    /// visibility timeout.
    async fn dispose(&self, failure: &Failure<DeadLetterError>, record: &Record) -> Disposition {
        match failure.retry() {
            Retry::Later | Retry::Contended | Retry::OutOfTime | Retry::AfterRepair => {
                let error: &dyn std::error::Error = failure;
                tracing::warn!(
                    event_type = "message.kept",
                    error,
                    "message {} will be retried: {error}",
                    id(record)
                );
                Disposition::RetryLater
            }
            Retry::Never => self.forward(record, failure).await,
        }
    }
}

impl DeadLetter {
    /// Forwards a message that can never be recorded to the unhandled queue. If that fails, the
    /// message stays.
    async fn forward(&self, record: &Record, why: &Failure<DeadLetterError>) -> Disposition {
        let reason = reason(why);
        match Box::pin(self.unhandled.forward(record, &reason)).await {
            Ok(()) => {
                tracing::error!(
                    event_type = "message.unhandled",
                    reason,
                    "message {} is in the unhandled queue and waits for a person: {reason}",
                    id(record)
                );
                metrics::count(SERVICE, &[metrics::MESSAGES_UNHANDLED], Map::new());
                Disposition::Acknowledge
            }
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(
                    event_type = "message.kept",
                    reason,
                    error,
                    "cannot forward message {} to the unhandled queue; it will be retried: {error}",
                    id(record)
                );
                Disposition::RetryLater
            }
        }
    }
}

/// Returns a message's id for log lines; empty if it has none.
fn id(record: &Record) -> String {
    record.id.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// Describes a failure and its direct cause, for the people who read the message in the unhandled
/// queue.
fn reason(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

#[cfg(test)]
mod tests {
    use batch_items::BatchItemError;
    use catalog::{DatabaseError, SecretFault};
    use objects::ObjectError;
    use payloads::PayloadError;
    use uuid::Uuid;

    use super::*;

    fn directive(error: impl Into<DeadLetterError>) -> Retry {
        Failure::Job(error.into()).retry()
    }

    #[test]
    fn a_message_that_may_be_recorded_later_is_not_forwarded() {
        for retry in [
            directive(DatabaseError::TimedOut),
            directive(DatabaseError::Unreadable("a column")),
            directive(DatabaseError::SecretMalformed(SecretFault::Binary)),
            directive(BatchItemError::Unavailable("no answer".into())),
            directive(PayloadError::Object(ObjectError::Storage {
                key: "k".into(),
                source: "no answer".into(),
            })),
            Failure::<DeadLetterError>::OutOfTime.retry(),
        ] {
            assert_ne!(retry, Retry::Never);
        }
        for retry in [
            directive(DatabaseError::UnknownBatch(Uuid::nil())),
            directive(DatabaseError::UnknownChunk { batch_id: Uuid::nil(), index: 1 }),
            directive(BatchItemError::Unreadable("no trace".into())),
            directive(PayloadError::Object(ObjectError::Missing { key: "incoming/1".to_owned() })),
            directive(DeadLetterError::NotAccepted),
        ] {
            assert_eq!(retry, Retry::Never);
        }
    }

    #[test]
    fn a_reason_is_the_failure_and_its_cause() {
        let missing = PayloadError::Object(ObjectError::Missing { key: "incoming/1".to_owned() });
        let failure = Failure::Job(DeadLetterError::from(missing));
        assert_eq!(reason(&failure), "cannot read object: object `incoming/1` does not exist");
    }
}
