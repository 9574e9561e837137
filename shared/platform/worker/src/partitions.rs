//! Handling of Kafka records.
//!
//! Kafka counts no attempts, and a record that is not committed blocks those after it. So a record
//! that fails is parked: its job moves it to a queue, where it is retried and given up like any
//! message. Lambda commits a batch as a whole, unless its mapping reports partial failures, which
//! not every mapping can. So there are two responses: success if every record is done or parked,
//! and an error otherwise, after which Lambda delivers the whole batch again.

use std::time::{Duration, SystemTime};

use attempt::Deadline;
use tracing::Instrument as _;

use crate::serve::work;
use crate::{Disposition, Failure, Job, ParkError, Record, UnknownEvent};

/// Part of [`Job::RESERVE`] that is kept free for the response, even if the queue for parked
/// records does not respond.
const ANSWER: Duration = Duration::from_millis(300);

/// Reason why an invocation failed as a whole, after which Lambda delivers its batch again.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum ServeError {
    #[error(transparent)]
    Event(#[from] UnknownEvent),
    /// A Kafka record failed and could not be parked. When Lambda delivers the batch again, the
    /// records that are done run again; their jobs are idempotent.
    #[error("{record} was neither done nor parked")]
    Unsettled { record: String, source: ParkError },
    #[error("the time ran out before {record} began")]
    OutOfTime { record: String },
}

/// Handles the Kafka records of each partition in order. If a record fails and cannot be parked,
/// the later records of its partition wait for the next delivery; other partitions proceed.
///
/// If the time runs out, the invocation fails, so that the next delivery continues where this one
/// ended. But if a record was parked, all remaining records are parked too: the next delivery
/// begins with the same records, and those that use up the time would do so again.
pub(crate) async fn serve<J: Job>(
    job: &J,
    partitions: Vec<Vec<Record>>,
    ends_at: SystemTime,
) -> Result<(), ServeError> {
    let working = Deadline::of_invocation(ends_at, J::RESERVE);
    let parking = Deadline::of_invocation(ends_at, ANSWER);
    let mut has_parked = false;
    let mut unsettled = None;
    for partition in partitions {
        for record in partition {
            if working.has_passed() && !has_parked {
                unsettled.get_or_insert(ServeError::OutOfTime { record: name(&record) });
                break;
            }
            match settle(job, &record, working, parking).await {
                Ok(Settled::Done) => {}
                Ok(Settled::Parked) => has_parked = true,
                Err(source) => {
                    unsettled.get_or_insert(ServeError::Unsettled { record: name(&record), source });
                    break;
                }
            }
        }
    }
    unsettled.map_or(Ok(()), Err)
}

/// Outcome of one Kafka record, after which the next record of its partition may be handled.
enum Settled {
    Done,
    Parked,
}

async fn settle<J: Job>(
    job: &J,
    record: &Record,
    working: Deadline,
    parking: Deadline,
) -> Result<Settled, ParkError> {
    let Err((failure, span)) = work(job, record, working).await else { return Ok(Settled::Done) };
    park(job, record, failure, parking).instrument(span).await
}

async fn park<J: Job>(
    job: &J,
    record: &Record,
    failure: Failure<J::Error>,
    deadline: Deadline,
) -> Result<Settled, ParkError> {
    let settling = async {
        if job.dispose(&failure, record).await == Disposition::Acknowledge {
            return Ok(Settled::Done);
        }
        job.park(&failure, record).await.map(|()| Settled::Parked)
    };
    let settled = deadline.run(Box::pin(settling)).await.unwrap_or(Err(ParkError::OutOfTime))?;
    if matches!(settled, Settled::Done) {
        return Ok(settled);
    }
    let event_type = format!("{}.parked", J::SUBJECT);
    tracing::info!(event_type, "record {} of Kafka was moved to the queue, which retries it", name(record));
    Ok(settled)
}

/// Formats the position of a Kafka record as `topic-partition@offset`.
fn name(record: &Record) -> String {
    record.id.as_ref().map(ToString::to_string).unwrap_or_default()
}
