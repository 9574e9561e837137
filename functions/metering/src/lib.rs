//! Counts each tenant's usage from the stream of the idempotency table.
//!
//! A schedule starts a run each minute:
//!
//! 1. it reads each shard of the stream from its mark to its tip, and counts the changes;
//! 2. once a night, or if changes were lost, it counts the records themselves again, and adds what
//!    the counters lack;
//! 3. it publishes the totals of the hours that have ended;
//! 4. every five minutes, it computes what tenants with a budget have spent.
//!
//! The function reads the stream itself. Lambda's event source mapping names no shard in its
//! events, so no mark could tell a repeated change from a new one; nor does it say when everything
//! is read, or what it gave up.
//!
//! A step that fails does not stop the others, but the invocation fails in the end, for the alarm.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod budgets;
mod earlier;
mod event;
mod hours;
mod ingest;
mod ledger;
mod reader;
mod records;
mod spending;
mod stream;

pub use budgets::BudgetError;
pub use earlier::EarlierDays;
pub use hours::HoursError;
pub use ingest::Ingest;
pub use reader::{Places, ReadError, Reading};
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

/// Time at the end of the invocation that is kept free for the response: no work begins in it.
const RESERVE: Duration = Duration::from_secs(3);

/// Maximum time for which a run reads the stream. The rest of the invocation is for recounts,
/// events and budgets.
const READING: Duration = Duration::from_secs(25);

/// Minutes between two checks of the budgets.
const BUDGET_MINUTES: i64 = 5;

/// State of the function `metering`, which stays in memory between invocations.
#[derive(Debug)]
pub struct Metering {
    pub stream: TableStream,
    pub places: Places,
    pub usage: UsageTable,
    pub records: Records,
    pub access: AccessStore,
    /// Client of the ingest; `None` if the deployment has no ingest.
    pub ingest: Option<Ingest>,
    pub earlier: EarlierDays,
    pub publisher: Publisher,
}

/// Reason why an invocation failed. Changes that it counted before the failure stay counted.
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
    /// Runs once: reads the stream, recounts and publishes hours, and checks budgets. `ends_at` is
    /// the end of the invocation.
    ///
    /// # Errors
    /// If the event is not the schedule's, or a step failed. Returns the error of the first failed
    /// step.
    pub async fn handle(&self, event: &Value, ends_at: SystemTime) -> Result<(), MeteringError> {
        schedule::check(event).map_err(MeteringError::Event)?;
        let deadline = Deadline::of_invocation(ends_at, RESERVE);
        let began = Timestamp::now();
        let until = deadline.min(READING);
        let reading = reader::read(&self.stream, &self.usage, &self.places, began, until).await;
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

    /// Returns the age of the time up to which every change in the stream is counted.
    async fn lag(&self) -> Result<Duration, UsageError> {
        let state = self.usage.state().await?;
        let now = Timestamp::now();
        let until = state.read_until.or(state.counted_from).unwrap_or(now);
        Ok(Duration::try_from(now.duration_since(until)).unwrap_or_default())
    }

    async fn recount(&self, now: Timestamp, deadline: Deadline) -> Result<(), HoursError> {
        let Self { usage, records, publisher, .. } = self;
        let recounting = hours::recount(usage, records, publisher, now, deadline).await?;
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
        let mut told = 0;
        let settled = budgets::settle(&sources, access, publisher, now, deadline, &mut told).await;
        if told > 0 {
            measure(&[(metrics::BUDGETS_REACHED, told)]);
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
