//! Works for load tests, as their state machine asks: prepares a run, works as one worker for one
//! window of a minute, and closes a run, the last one with the report.
//!
//! An invocation knows nothing but its event and what is stored. It may come late or twice, and may
//! be cut off anywhere; a later attempt goes on from the present.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod close;
mod counting;
mod error;
mod event;
mod leftovers;
mod options;
mod place;
mod prepare;
mod report;
mod runs;
#[cfg(test)]
mod samples;
mod step;
mod store;
mod test_clock;

pub use error::LoadStepError;
pub use event::{Answer, Closed, Closing, Event, LaneStart, Lanes, NextTurn, Turn};

use std::time::{Duration, SystemTime};

use broker::Deadline;
use broker_access::Brokers;
use load_test::store::{TestRecord, TestRun, TestStore};
use tracing::Instrument as _;
use usage::UsageTable;

use crate::close::Occasion;
use crate::store::insist;

/// Time at the end of an invocation in which no further work is begun: 14 seconds. The state
/// machine waits 110 s for an answer, 10 s less than the function's time limit.
const RESERVE: Duration = Duration::from_secs(14);

/// Time limit for ending the connections that the pool does not keep, before the invocation
/// answers.
const TO_CLOSE: Duration = Duration::from_secs(1);

/// State of the function that invocations share: the stores, and the connections to brokers.
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
    /// that measure queues, and 1 that was lost and has not ended yet. With fewer, the measurements
    /// would wait for each other.
    pub const CONNECTIONS: usize = 5;

    #[must_use]
    pub const fn new(store: TestStore, usage: UsageTable, brokers: Brokers, memory_mb: u32) -> Self {
        Self { store, usage, brokers, memory_mb }
    }

    /// Executes the action of an event: prepares a run, works as one worker for a minute, or closes
    /// a run. The invocation is cut off at `ends_at`.
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
            Event::Step(turn) => Box::pin(self.step(turn, deadline)).await.map(Answer::Done),
            Event::Close(closing) => {
                let occasion = if closing.close { Occasion::CutOff } else { Occasion::LanesOver };
                Box::pin(self.close(&closing.of, occasion, deadline)).await.map(Answer::Closed)
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
