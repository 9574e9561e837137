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

/// Handles the records of an invocation, which Lambda ends at `ends_at`. SQS messages are handled
/// concurrently; the response names those that must be delivered again. Kafka partitions are
/// handled record by record; failed records are parked, and the response names none of them.
///
/// # Errors
/// If the event is not a valid event of SQS or Kafka. For Kafka also if a record failed and could
/// not be parked, or if the time ran out.
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

/// Handles a direct invocation, whose event is itself the record.
///
/// # Errors
/// If the work failed. The invocation must then be repeated.
pub async fn serve_directly<J: Job>(
    job: &J,
    event: &Value,
    ends_at: SystemTime,
) -> Result<(), Failure<J::Error>> {
    let deadline = Deadline::of_invocation(ends_at, J::RESERVE);
    handle(job, &Record::of_invocation(event), deadline).await
}

/// Does the work of an SQS message. If it fails, the job decides whether and when the message is
/// delivered again.
///
/// # Errors
/// If the message must be delivered again.
async fn handle<J: Job>(job: &J, record: &Record, deadline: Deadline) -> Result<(), Failure<J::Error>> {
    match work(job, record, deadline).await {
        Ok(()) => Ok(()),
        Err((failure, span)) => settle(job, record, failure).instrument(span).await,
    }
}

/// Does the units of work of a record, up to the first failure.
///
/// # Errors
/// If a unit of work fails: the failure, and the tracing span in which to log it.
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

/// Builds the tracing span of a record, with empty fields that its job may fill.
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
///
/// # Errors
/// If the message is not acknowledged: its failure.
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
