//! Preparation of a run of a load test. Before any worker begins, it finds what would keep the run
//! from working.

use std::time::Duration;

use broker::Deadline;
use jiff::Timestamp;
use load_test::store::{TestRecord, TestRun, TestStoreError};
use load_test::{Next, Plan, Search};
use mq::RateLimit;

use crate::event::Lanes;
use crate::runs::{BegunRun, probes_before};
use crate::store::{fail, insist};
use crate::test_target::TestTarget;
use crate::{LoadStep, LoadStepError};

/// Seconds from the preparation of a run to its start, for cold starts, handshakes, and starting
/// the lanes (the workers' series of invocations). One second is added for each [`LANES_A_SECOND`]
/// lanes, because the state machine starts lanes one after another.
const TO_START: usize = 10;
const LANES_A_SECOND: usize = 100;

/// Time limit for measuring the load test's queues, and for emptying them in a search, before a run
/// begins.
const TO_LOOK: Duration = Duration::from_secs(40);

/// Decision whether to begin the run of a load test that an event asks to prepare.
enum Wanted {
    /// The run begins. The value is the rate in messages a second of a search's run; `None` for the
    /// single run of any other test.
    Run(Option<RateLimit>),
    Nothing,
}

impl LoadStep {
    /// Begins a run of a load test, and returns its lanes (the series of invocations that do the
    /// workers' work). The list is empty if the test was stopped, has failed, has ended or cannot
    /// run. A repeated call keeps the run's start.
    pub(crate) async fn prepare(&self, of: &TestRun, deadline: Deadline) -> Result<Lanes, LoadStepError> {
        let Some(record) = self.record(of, deadline).await? else { return Ok(Lanes::none(of)) };
        if record.control().is_over() {
            return Ok(Lanes::none(of));
        }
        let rate = match wanted(&record, of.run) {
            Wanted::Run(rate) => rate,
            Wanted::Nothing => return Ok(Lanes::none(of)),
        };
        if BegunRun::of(&record, of.run).is_err()
            && let Err(obstacle) = self.look(&record, of, deadline.min(TO_LOOK)).await
        {
            fail(&self.store, of, &obstacle, deadline).await?;
            return Ok(Lanes::none(of));
        }
        let start = start(Timestamp::now(), Plan::of(&record.test.at_rate(rate)).lanes().count());
        let run = match insist(deadline, async || self.store.begin_run(of, rate, start).await).await {
            Ok(run) => run,
            // It was stopped and closed, and perhaps deleted, during the look at its queues.
            Err(TestStoreError::Illegal(_) | TestStoreError::Unknown(_)) => return Ok(Lanes::none(of)),
            Err(error) => return Err(error.into()),
        };
        let lanes = Lanes::of(of, &Plan::of(&record.test.at_rate(run.rate_per_sec)), run.started_at);
        tracing::info!(
            event_type = "load_test.prepared",
            lanes = lanes.lanes.len(),
            starts_at = %run.started_at,
            "run {} of the load test {} starts at {} in {} lanes",
            of.run,
            of.test_id,
            run.started_at,
            lanes.lanes.len()
        );
        Ok(lanes)
    }

    /// Measures the load test's queues before the run `of`, and takes messages that an earlier
    /// probe (run of the same search) left on them.
    ///
    /// # Errors
    /// If the run cannot begin: a queue cannot be used, or it holds messages that the test did not
    /// put and does not accept. The error is the reason, for the caller of the API.
    async fn look(&self, record: &TestRecord, of: &TestRun, deadline: Deadline) -> Result<(), String> {
        let target = TestTarget::of(&self.brokers, record);
        let has_consumers = record.test.consumers.is_some();
        let queues = target.queues().collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        for some in queues.chunks(TestTarget::AT_ONCE) {
            let depths = target.depths(some, deadline).await.map_err(|error| error.to_string())?;
            for (queue, depth) in some.iter().zip(depths) {
                let messages = depth.current_depth;
                if messages == 0 || !has_consumers {
                    continue;
                }
                if of.run > 0 {
                    self.take_leftovers(&target, queue, record, deadline).await?;
                } else if record.test.foreign.is_none() {
                    return Err(not_empty(queue.as_str(), messages));
                }
            }
        }
        Ok(())
    }
}

fn wanted(record: &TestRecord, run: u32) -> Wanted {
    match Search::of(&record.test) {
        Some(search) => match search.next(&probes_before(record, run)) {
            Next::Probe(rate) => Wanted::Run(Some(rate)),
            Next::Over(_) => Wanted::Nothing,
        },
        None if run == 0 => Wanted::Run(None),
        None => Wanted::Nothing,
    }
}

/// Returns the start time of a run with this number of lanes (series of invocations) that is
/// prepared at `now`. It is a whole second, so that each second of the report is a second of the
/// day.
fn start(now: Timestamp, lanes: usize) -> Timestamp {
    let seconds = i64::try_from(TO_START + 1 + lanes / LANES_A_SECOND).unwrap_or(i64::MAX);
    Timestamp::from_second(now.as_second().saturating_add(seconds)).unwrap_or(now)
}

fn not_empty(queue: &str, messages: u64) -> String {
    let them = match messages {
        1 => "1 message that is not the test's; take it away".to_owned(),
        _ => format!("{messages} messages that are not the test's; take them away"),
    };
    format!("the queue `{queue}` holds {them}, or send foreign: take")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_starts_at_a_whole_second_at_least_ten_seconds_from_now() {
        for (now, lanes, expected) in [
            ("2026-11-26T10:00:00Z", 2, "2026-11-26T10:00:11Z"),
            ("2026-11-26T10:00:00.999999Z", 99, "2026-11-26T10:00:11Z"),
            ("2026-11-26T10:00:00Z", 1_000, "2026-11-26T10:00:21Z"),
        ] {
            assert_eq!(start(now.parse().unwrap(), lanes).to_string(), expected);
        }
    }
}
