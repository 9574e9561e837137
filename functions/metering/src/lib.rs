//! Counts each tenant's usage from the stream of the idempotency table.
//!
//! A schedule invokes the function each minute:
//!
//! 1. it reads each shard of the stream, from the last counted position to its end, and counts the
//!    changes;
//! 2. once a night, or if changes were lost, it counts the records themselves again, and adds what
//!    the counters lack;
//! 3. it publishes the usage of the hours that have ended;
//! 4. every five minutes, it computes what tenants with a budget have spent.
//!
//! The function reads the stream itself, because Lambda's event source mapping does not suffice.
//! Its events name no shard, so a repeated change could not be told from a new one. The mapping
//! also does not say when everything is read, or which changes it gave up.
//!
//! Steps 2 to 4 follow only if step 1 has read every shard to its end. A failure of one of them
//! does not stop the others. After any failure the invocation fails in the end, for the alarm.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod budgets;
mod counting_table;
mod earlier;
mod event;
mod hours;
mod ingest;
mod reader;
mod records;
mod spending;
mod stream;

pub use budgets::BudgetError;
pub use earlier::EarlierDays;
pub use hours::HoursError;
pub use ingest::Ingest;
pub use reader::{CachedIterators, ReadError, Reading};
pub use records::Records;
pub use stream::{StreamError, TableStream};

use std::time::{Duration, SystemTime};

use access::AccessStore;
use attempt::Deadline;
use events::Publisher;
use jiff::Timestamp;
use runtime::{metrics, schedule};
use serde_json::{Map, Value};
use usage::{UsageError, UsageTable};

use crate::spending::Sources;

/// Name of this function in the dimension `service` of its metrics.
const SERVICE: &str = "metering";

/// Time at the end of the invocation that is kept free for the response. No work begins in it.
const RESERVE: Duration = Duration::from_secs(3);

/// Maximum time in which an invocation reads the stream. The rest of the invocation is for
/// recounts, events and budgets.
const READING: Duration = Duration::from_secs(25);

/// Minutes between two checks of the budgets.
const BUDGET_MINUTES: i64 = 5;

/// State of the function `metering`, which stays in memory between invocations.
#[derive(Debug)]
pub struct Metering {
    pub stream: TableStream,
    pub iterators: CachedIterators,
    pub usage: UsageTable,
    pub records: Records,
    pub access: AccessStore,
    /// Client of the function `batches`, for the ingest's usage; `None` if the deployment has no
    /// ingest.
    pub ingest: Option<Ingest>,
    pub earlier: EarlierDays,
    pub publisher: Publisher,
}

/// Reason why an invocation of `metering` failed. Changes that it counted before stay counted.
#[derive(Debug, thiserror::Error)]
pub enum MeteringError {
    #[error("the event is not the schedule's")]
    Event(#[source] schedule::UnknownEvent),
    #[error("the stream was not read")]
    Read(#[source] ReadError),
    #[error("the state of the reader cannot be read")]
    State(#[source] UsageError),
    #[error("the hours that have ended were not recounted or published")]
    Hours(#[source] HoursError),
    #[error("the budgets were not settled")]
    Budgets(#[source] BudgetError),
}

impl Metering {
    /// Handles one event of the schedule: reads the stream; then, if the stream was read to its
    /// end, recounts and publishes hours, and checks budgets. `ends_at` is the end of the
    /// invocation.
    ///
    /// # Errors
    /// If the event is not the schedule's, or a step failed. Returns the error of the first failed
    /// step.
    pub async fn handle(&self, event: &Value, ends_at: SystemTime) -> Result<(), MeteringError> {
        schedule::check(event).map_err(MeteringError::Event)?;
        let deadline = Deadline::of_invocation(ends_at, RESERVE);
        let began = Timestamp::now();
        let until = deadline.min(READING);
        let reading = reader::read(&self.stream, &self.usage, &self.iterators, began, until).await;
        let gaps = reading.as_ref().map_or(0, |reading| reading.gaps);
        let lag = self.lag().await;
        if gaps > 0 {
            measure(&[(metrics::USAGE_GAPS, gaps)]);
        }
        if let Ok(lag) = &lag {
            measure(&[(metrics::USAGE_LAG, metrics::milliseconds(*lag))]);
        }
        let reading = reading.map_err(MeteringError::Read)?;
        lag.map_err(MeteringError::State)?;
        // Whether an hour is counted is known only if all shards were read to their tips.
        let Some(now) = reading.read_until else { return Ok(()) };
        let recounted = self.recount(now, deadline).await;
        let published = hours::publish(&self.usage, &self.publisher, now, deadline).await;
        let settled = self.settle_budgets(now, deadline).await;
        recounted.and(published).map_err(MeteringError::Hours)?;
        settled.map_err(MeteringError::Budgets)
    }

    /// Returns how far counting is behind: the time since the moment up to which every change of
    /// the stream is counted.
    async fn lag(&self) -> Result<Duration, UsageError> {
        let state = self.usage.state().await?;
        let now = Timestamp::now();
        let until = state.read_until.or(state.counted_from).unwrap_or(now);
        Ok(Duration::try_from(now.duration_since(until)).unwrap_or_default())
    }

    async fn recount(&self, now: Timestamp, deadline: Deadline) -> Result<(), HoursError> {
        let Self { usage, records, publisher, .. } = self;
        let publishes = publisher.has_destinations();
        let recounting = hours::recount(usage, records, publishes, now, deadline).await?;
        if let Some(requests) = recounting.filter(|requests| *requests > 0) {
            measure(&[(metrics::USAGE_CORRECTED, requests)]);
        }
        Ok(())
    }

    async fn settle_budgets(&self, now: Timestamp, deadline: Deadline) -> Result<(), BudgetError> {
        if now.as_second().div_euclid(60).rem_euclid(BUDGET_MINUTES) != 0 {
            return Ok(());
        }
        let Self { usage, ingest, access, earlier, publisher, .. } = self;
        let sources = Sources { usage, ingest: ingest.as_ref(), earlier };
        let mut published = 0;
        let settled = budgets::settle(&sources, access, publisher, now, deadline, &mut published).await;
        if published > 0 {
            measure(&[(metrics::BUDGETS_REACHED, published)]);
        }
        settled
    }
}

fn measure(measures: &[(metrics::Metric, u64)]) {
    metrics::measure(SERVICE, measures, Map::new());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_event_is_the_schedule_s() {
        let event = include_str!("../../../events/metering/scheduled.json");
        assert!(schedule::check(&serde_json::from_str(event).unwrap()).is_ok());
    }
}
