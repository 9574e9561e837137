use attempt::{Retry, Retryable};

use crate::Record;

/// Decision about a message whose work failed: whether and when it is delivered again. For a Kafka
/// record only `Acknowledge` counts: with any other disposition the record is parked, i.e. moved to
/// an SQS queue that retries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Acknowledge the message, because the job has moved it to another queue or given it up.
    Acknowledge,
    /// Deliver the message again after a pause that grows with each receive.
    RetryLater,
    /// Deliver the message again after the longest pause, because a person must repair something
    /// first.
    RetryAfterRepair,
    /// Deliver the message again soon, so that its receives are used up and it reaches the
    /// dead-letter queue. No retry can help.
    RetrySoon,
    /// Deliver the message again after the queue's own visibility timeout.
    LeaveToQueue,
}

impl Disposition {
    /// Returns the disposition of a message whose failure needs this kind of retry.
    #[must_use]
    pub const fn of(retry: Retry) -> Self {
        match retry {
            Retry::Later | Retry::Contended => Self::RetryLater,
            Retry::AfterRepair => Self::RetryAfterRepair,
            // More receives change nothing. The dead-letter queue's function decides what is next.
            Retry::Never => Self::RetrySoon,
            // There is no time for the call that changes the visibility timeout either.
            Retry::OutOfTime => Self::LeaveToQueue,
        }
    }
}

/// Reason why the work of a message or Kafka record was not done.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum Failure<E> {
    #[error(transparent)]
    Job(E),
    #[error("not enough time left in the invocation")]
    OutOfTime,
}

impl<E: Retryable + 'static> Retryable for Failure<E> {
    fn retry(&self) -> Retry {
        match self {
            Self::Job(error) => error.retry(),
            Self::OutOfTime => Retry::OutOfTime,
        }
    }
}

impl<E: Retryable + 'static> Failure<E> {
    /// Logs the failure of a message. `subject` is the name of its work, such as `chunk`. A
    /// permanent failure is logged as an error at the first delivery only.
    pub(crate) fn log(&self, subject: &str, record: &Record) {
        let error: &dyn std::error::Error = self;
        let is_received_again = record.receipt.as_ref().is_some_and(|receipt| receipt.receives() > 1);
        let is_repeated = is_received_again || record.parked_from.is_some();
        let id = record.id.as_ref().map(ToString::to_string).unwrap_or_default();
        match self.retry() {
            Retry::Later | Retry::Contended | Retry::OutOfTime => {
                let event_type = format!("{subject}.interrupted");
                tracing::warn!(event_type, error, "the {subject} of record {id} will be retried: {error}");
            }
            Retry::AfterRepair => {
                let event_type = format!("{subject}.blocked");
                tracing::error!(
                    event_type,
                    error,
                    "the {subject} of record {id} will be retried, and needs a repair first: {error}"
                );
            }
            Retry::Never => {
                let event_type = format!("{subject}.refused");
                let message =
                    format!("the {subject} of record {id} is left to the dead-letter queue: {error}");
                if is_repeated {
                    tracing::info!(event_type, error, "{message}");
                } else {
                    tracing::error!(event_type, error, "{message}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directive_has_its_disposition() {
        for (retry, disposition) in [
            (Retry::Later, Disposition::RetryLater),
            (Retry::Contended, Disposition::RetryLater),
            (Retry::AfterRepair, Disposition::RetryAfterRepair),
            (Retry::Never, Disposition::RetrySoon),
            (Retry::OutOfTime, Disposition::LeaveToQueue),
        ] {
            assert_eq!(Disposition::of(retry), disposition, "{retry:?}");
        }
    }
}
