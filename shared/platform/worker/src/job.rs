use std::time::Duration;

use attempt::Retryable;

use crate::{Disposition, Failure, Record, Visibility};

/// Reason why a record of Kafka was not parked.
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

/// Work that the records of a queue or of a Kafka topic ask for.
pub trait Job {
    /// Name of a unit of work in log messages, and the first word of their `event_type`.
    const SUBJECT: &'static str;

    /// Part of an invocation's time that is kept free for visibility timeouts, for parking records
    /// of Kafka and for the response.
    const RESERVE: Duration;

    /// Unit of work that a record asks for.
    type Work;

    /// Reason why a record cannot be read or its work fails. The error decides whether a retry
    /// helps.
    type Error: Retryable + 'static;

    /// Reads a record's units of work; none if the record asks for nothing.
    ///
    /// # Errors
    /// If the record cannot be understood.
    fn read(&self, record: &Record) -> Result<Vec<Self::Work>, Self::Error>;

    /// Does a unit of work. It may be cut off anywhere, and runs at least once, so it has to be
    /// idempotent.
    fn run(&self, work: Self::Work, record: &Record) -> impl Future<Output = Result<(), Self::Error>>;

    /// Returns the queue in which a record's visibility timeout is changed.
    fn visibility(&self, record: &Record) -> Option<&Visibility>;

    /// Logs a failure and decides about its record: by default as the error's
    /// [`retry`](Retryable::retry) demands.
    fn dispose(&self, failure: &Failure<Self::Error>, record: &Record) -> impl Future<Output = Disposition> {
        failure.log(Self::SUBJECT, record);
        std::future::ready(Disposition::of(failure.retry()))
    }

    /// Moves a record of Kafka whose work failed to a queue, which counts attempts and lets other
    /// records pass. Until the future is done, the record counts as neither done nor moved; it may
    /// be moved twice. By default there is no such queue.
    fn park(
        &self,
        _failure: &Failure<Self::Error>,
        _record: &Record,
    ) -> impl Future<Output = Result<(), ParkError>> {
        std::future::ready(Err(ParkError::NoQueue))
    }
}
