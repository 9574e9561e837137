//! Work of load tests, which their state machine asks for: to prepare a run, to work as one worker
//! for one minute of a run, and to close a run. The closing of the last run stores the report.
//!
//! An invocation knows only its event and the stored records. It may come late or twice, and may be
//! cut off anywhere; a later attempt then continues from the present time.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod close;
mod counting;
mod error;
mod event;
mod leftovers;
mod options;
mod prepare;
mod report;
mod runs;
#[cfg(test)]
mod samples;
mod step;
mod store;
mod test_clock;
mod test_target;

pub use error::LoadStepError;
pub use event::{Answer, CloseEvent, Closed, Event, LaneStart, Lanes, StepEvent, StepResponse};

use std::time::{Duration, SystemTime};

use broker::Deadline;
use broker_access::Brokers;
use load_test::store::{TestRecord, TestRun, TestStore};
use tracing::Instrument as _;
use usage::UsageTable;

use crate::close::ClosedBy;
use crate::store::insist;

/// Time at the end of an invocation in which no further work is begun: 14 seconds. The state
/// machine waits 110 s for a response, 10 s less than the function's time limit.
const RESERVE: Duration = Duration::from_secs(14);

/// Time limit for ending the connections that the connection pool does not keep, before the
/// invocation responds.
const TO_CLOSE: Duration = Duration::from_secs(1);

/// State of the function `load-step` that its invocations share: the stores, and the connections to
/// brokers.
#[derive(Debug)]
pub struct LoadStep {
    store: TestStore,
    usage: UsageTable,
    brokers: Brokers,
    /// Memory of the Lambda function in MB, from which the cost of a load test is estimated.
    memory_mb: u32,
}

impl LoadStep {
    /// Maximum number of connections to brokers that an invocation has open: 1 of its worker, 3
    /// that measure queues, and 1 that was lost and has not ended yet. With a lower maximum, the
    /// measurements would wait for each other.
    pub const CONNECTIONS: usize = 5;

    #[must_use]
    pub const fn new(store: TestStore, usage: UsageTable, brokers: Brokers, memory_mb: u32) -> Self {
        Self { store, usage, brokers, memory_mb }
    }

    /// Does the action of an event, and returns the response: prepares a run, works as one worker
    /// for a minute, or closes a run. The Lambda service cuts the invocation off at `ends_at`.
    ///
    /// # Errors
    /// If the store of load tests fails until there is no time left for a retry, or if the event
    /// names a run or a minute of the run that does not exist.
    pub async fn handle(&self, event: Event, ends_at: SystemTime) -> Result<Answer, LoadStepError> {
        self.brokers.end_stale();
        let deadline = Deadline::of_invocation(ends_at, RESERVE);
        let TestRun { tenant, test_id, run } = event.run();
        let span = tracing::error_span!(
            "load_test",
            action = event.action(),
            tenant,
            %test_id,
            run,
            correlation_id = tracing::field::Empty,
            lane = tracing::field::Empty,
            window = tracing::field::Empty,
        );
        // Boxed: the futures of brokers are large.
        let answer = Box::pin(self.answer(&event, deadline)).instrument(span.clone()).await;
        self.brokers.settle(Deadline::after(TO_CLOSE)).instrument(span).await;
        answer
    }

    async fn answer(&self, event: &Event, deadline: Deadline) -> Result<Answer, LoadStepError> {
        match event {
            Event::Prepare(of) => Box::pin(self.prepare(of, deadline)).await.map(Answer::Prepared),
            Event::Step(step) => Box::pin(self.step(step, deadline)).await.map(Answer::Done),
            Event::Close(event) => {
                let closed_by =
                    if event.only_closes { ClosedBy::ClosingExecution } else { ClosedBy::TestExecution };
                Box::pin(self.close(&event.of, closed_by, deadline)).await.map(Answer::Closed)
            }
        }
    }

    /// Reads the record of a load test; `None` if the test was deleted.
    async fn record(&self, of: &TestRun, deadline: Deadline) -> Result<Option<TestRecord>, LoadStepError> {
        let record = insist(deadline, async || self.store.get(&of.tenant, of.test_id).await).await?;
        if let Some(record) = &record {
            tracing::Span::current().record("correlation_id", &record.trace_id);
        }
        Ok(record)
    }
}
