use std::time::Duration;

use attempt::Retryable;

use crate::{Disposition, Failure, Record, Visibility};

/// Reason why a Kafka record was not parked, i.e. not moved to an SQS queue that retries it.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum ParkError {
    #[error("this function takes no records of Kafka")]
    NoQueue,
    #[error("the queue did not take the record")]
    Queue(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the queue did not answer within the invocation's time")]
    OutOfTime,
}

/// Job of a worker function: the work that the messages of an SQS queue or the records of a Kafka
/// topic ask for.
pub trait Job {
    /// Name of the work in log messages, such as `chunk`, with which their `event_type` begins.
    const SUBJECT: &'static str;

    /// Time at the end of an invocation that is kept free for visibility timeouts, for parking
    /// Kafka records, and for the response.
    const RESERVE: Duration;

    /// Piece of work that a message asks for, such as one payload. A message may ask for several.
    type Work;

    /// Error of reading a message or doing its work, which determines whether and how to retry.
    type Error: Retryable + 'static;

    /// Parses the units of work of a message, of which there may be none.
    ///
    /// # Errors
    /// If the message is malformed.
    fn read(&self, record: &Record) -> Result<Vec<Self::Work>, Self::Error>;

    /// Does a unit of work. It must be idempotent, because it may be cancelled at any await, and
    /// may run several times.
    ///
    /// # Errors
    /// If the work fails.
    fn run(&self, work: Self::Work, record: &Record) -> impl Future<Output = Result<(), Self::Error>>;

    /// Returns the queue of a message, whose visibility timeout is set after a failure; `None` if
    /// the timeout is not changed.
    fn visibility(&self, record: &Record) -> Option<&Visibility>;

    /// Logs a failure, and returns the disposition of its message. By default, the error's
    /// [`retry`](Retryable::retry) decides.
    fn dispose(&self, failure: &Failure<Self::Error>, record: &Record) -> impl Future<Output = Disposition> {
        failure.log(Self::SUBJECT, record);
        std::future::ready(Disposition::of(failure.retry()))
    }

    /// Parks a Kafka record whose work failed: moves it to an SQS queue, which counts its attempts
    /// while the later records of the partition proceed. If the future is cancelled, the record may
    /// be parked again later. By default there is no such queue, and parking fails.
    ///
    /// # Errors
    /// If there is no such queue, or if the queue does not accept the record.
    fn park(
        &self,
        _failure: &Failure<Self::Error>,
        _record: &Record,
    ) -> impl Future<Output = Result<(), ParkError>> {
        std::future::ready(Err(ParkError::NoQueue))
    }
}
