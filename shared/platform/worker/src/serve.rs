use std::time::SystemTime;

use attempt::Deadline;
use aws_lambda_events::sqs::SqsBatchResponse;
use futures_util::future::join_all;
use serde_json::Value;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::partitions::{self, ServeError};
use crate::record::is_from_kafka;
use crate::{Disposition, Failure, Job, Record, lanes};

/// Handles the records of an invocation, which is cut off at `ends_at`, and returns the messages
/// that must be delivered again. Messages of SQS are handled side by side. Records of Kafka that
/// fail are parked, and never named in the response: see [`ServeError::Unsettled`].
///
/// # Errors
/// If the event as a whole cannot be read, or a record of Kafka was neither done nor parked.
pub async fn serve<J: Job>(
    job: &J,
    event: Value,
    ends_at: SystemTime,
) -> Result<SqsBatchResponse, ServeError> {
    if is_from_kafka(&event) {
        partitions::serve(job, lanes(event)?, ends_at).await?;
        return Ok(SqsBatchResponse::default());
    }
    let deadline = Deadline::of_invocation(ends_at, J::RESERVE);
    let messages: Vec<Record> = lanes(event)?.into_iter().flatten().collect();
    let handled = join_all(messages.iter().map(|message| handle(job, message, deadline))).await;
    let failed = messages.iter().zip(handled).filter(|(_, handled)| handled.is_err());
    let names = failed.filter_map(|(message, _)| message.id.as_ref()).map(ToString::to_string);
    let mut response = SqsBatchResponse::default();
    response.set_failures(names);
    Ok(response)
}

/// Handles an event that is itself the record, because its sender invoked the function.
///
/// # Errors
/// If the work failed: then the invocation as a whole has to be repeated.
pub async fn serve_directly<J: Job>(
    job: &J,
    event: &Value,
    ends_at: SystemTime,
) -> Result<(), Failure<J::Error>> {
    let deadline = Deadline::of_invocation(ends_at, J::RESERVE);
    handle(job, &Record::of_invocation(event), deadline).await
}

/// Does all of a message's work, up to the first failure. An error returns the message to its
/// queue.
async fn handle<J: Job>(job: &J, record: &Record, deadline: Deadline) -> Result<(), Failure<J::Error>> {
    match work(job, record, deadline).await {
        Ok(()) => Ok(()),
        Err((failure, span)) => settle(job, record, failure).instrument(span).await,
    }
}

/// Does all of a record's work, up to the first failure, which comes with its span.
pub(crate) async fn work<J: Job>(
    job: &J,
    record: &Record,
    deadline: Deadline,
) -> Result<(), (Failure<J::Error>, Span)> {
    let works = job.read(record).map_err(|error| (Failure::Job(error), span(record)))?;
    for work in works {
        let span = span(record);
        if let Err(failure) = run(job, work, record, deadline).instrument(span.clone()).await {
            return Err((failure, span));
        }
    }
    Ok(())
}

/// Builds a record's span. Its job records the other fields.
fn span(record: &Record) -> Span {
    tracing::error_span!(
        "record",
        message_id = record.id.as_ref().map(tracing::field::display),
        object = Empty,
        correlation_id = Empty,
        tenant = Empty,
        idempotency_key = Empty,
        batch_id = Empty,
        chunk_id = Empty,
        cnpj = Empty
    )
}

async fn run<J: Job>(
    job: &J,
    work: J::Work,
    record: &Record,
    deadline: Deadline,
) -> Result<(), Failure<J::Error>> {
    if deadline.has_passed() {
        return Err(Failure::OutOfTime);
    }
    // Boxed: the futures of stores are large, and nest deeply.
    match deadline.run(Box::pin(job.run(work, record))).await {
        Ok(done) => done.map_err(Failure::Job),
        Err(_) => Err(Failure::OutOfTime),
    }
}

/// Lets the job decide about a failed message, and sets its visibility timeout accordingly.
async fn settle<J: Job>(
    job: &J,
    record: &Record,
    failure: Failure<J::Error>,
) -> Result<(), Failure<J::Error>> {
    let disposition = Box::pin(job.dispose(&failure, record)).await;
    let delivery = job.visibility(record).zip(record.receipt.as_ref());
    match (disposition, delivery) {
        (Disposition::Acknowledge, _) => return Ok(()),
        (Disposition::RetryLater, Some((queue, receipt))) => Box::pin(queue.extend(receipt)).await,
        (Disposition::RetryAfterRepair, Some((queue, receipt))) => Box::pin(queue.hide(receipt)).await,
        (Disposition::RetrySoon, Some((queue, receipt))) => Box::pin(queue.expire(receipt)).await,
        (Disposition::LeaveToQueue, _) | (_, None) => {}
    }
    Err(failure)
}
