//! The number of messages on the queues, which one worker of a test measures beside its load.

use std::time::Duration;

use broker::Deadline;
use jiff::Timestamp;
use load_test::{LoadTest, Role, Worker};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::Shift;
use super::board::{Interrupt, Order};
use crate::place::PlaceError;
use crate::store::{insist, log};

/// Time between two looks.
const EVERY: Duration = Duration::from_secs(2);
/// Time between two looks while consumers wait for a backlog.
const SOON: Duration = Duration::from_millis(500);
/// Longest time of a look.
const TO_LOOK: Duration = Duration::from_secs(5);
/// Longest time to note what was seen.
const TO_NOTE: Duration = Duration::from_secs(20);

/// True for the worker that measures: the first consumer, or the first producer if there are none.
fn measures(test: &LoadTest, worker: Worker) -> bool {
    let role = if test.consumers.is_some() { Role::Consumer } else { Role::Producer };
    worker == Worker { role, number: 0 }
}

/// Measures all queues until the worker has ended, if it is the one that measures.
pub(super) async fn measure(shift: &Shift<'_>) {
    if measures(shift.test, shift.step.lane.worker) {
        // It ends with the order to end.
        let _ = measure_until_end(shift).await;
    }
}

async fn measure_until_end(shift: &Shift<'_>) -> Result<(), Interrupt> {
    let board = &shift.board;
    // Before, the lane of the window before measures.
    board.unless_ended(tokio::time::sleep_until(shift.clock.instant(shift.from))).await?;
    let mut backlog = shift.test.backlog.filter(|_| !board.attendance().borrow().is_backlogged());
    let mut was_seen = true;
    let mut ticks = ticks(if backlog.is_some() { SOON } else { EVERY });
    loop {
        board.unless_ended(ticks.tick()).await?;
        let messages = board.unless_ended(shift.place.depth_of_all(Deadline::after(TO_LOOK))).await?;
        let at = shift.clock.now();
        if at >= shift.end {
            return Ok(());
        }
        let messages = match messages {
            Ok(messages) => messages,
            Err(error) => {
                if was_seen {
                    log_unseen(&error);
                }
                was_seen = false;
                continue;
            }
        };
        was_seen = true;
        board.count(|tally| tally.retained(at, messages));
        if messages > shift.test.limits.retained {
            shift.fail(&too_many(messages, shift.test.limits.retained)).await;
            board.order(Order::Stop);
        } else if backlog.is_some_and(|backlog| messages >= backlog.get()) {
            shift.note_backlog().await;
            backlog = None;
            ticks = self::ticks(EVERY);
        }
    }
}

fn ticks(every: Duration) -> Interval {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

fn too_many(messages: u64, most: u64) -> String {
    format!("the queues hold {messages} messages, and those of a test may hold {most}")
}

fn log_unseen(error: &PlaceError) {
    let error: &dyn std::error::Error = error;
    tracing::warn!(
        event_type = "load_step.queues_not_seen",
        error,
        "cannot measure the queues of the load test: {error}"
    );
}

impl Shift<'_> {
    /// Notes that the test cannot go on. Other workers read it within a second.
    async fn fail(&self, detail: &str) {
        let at = Timestamp::now();
        let noted = insist(Deadline::after(TO_NOTE), async || {
            self.store.fail(&self.of.tenant, self.of.test_id, at, detail).await
        });
        if let Err(error) = noted.await {
            log(&error);
        }
    }

    /// Notes that the queues hold the backlog, so that the consumers begin.
    async fn note_backlog(&self) {
        let noted = insist(Deadline::after(TO_NOTE), async || {
            self.store.note_backlog(&self.of.tenant, self.of.test_id, self.of.run).await
        });
        match noted.await {
            Ok(attendance) => self.board.learn(attendance),
            Err(error) => log(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use load_test::{Limits, LoadTestRequest};
    use serde_json::{Value, from_value, json};

    use super::*;

    fn test(members: Value) -> LoadTest {
        let mut body = json!({"targetRef": "t", "durationSeconds": 60, "foreign": null});
        let Value::Object(members) = members else { panic!("members") };
        body.as_object_mut().unwrap().extend(members);
        from_value::<LoadTestRequest>(body).unwrap().into_parts(&Limits::NONE).unwrap().2
    }

    #[test]
    fn one_worker_measures() {
        let measuring = |test: &LoadTest| -> Vec<String> {
            let workers = load_test::Plan::of(test).workers().collect::<Vec<_>>();
            workers.into_iter().filter(|own| measures(test, *own)).map(|own| own.to_string()).collect()
        };
        let both = test(json!({"producers": {"count": 2}, "consumers": {"count": 2}}));
        assert_eq!(measuring(&both), ["c0"]);
        assert_eq!(measuring(&test(json!({"producers": {"count": 2}}))), ["p0"]);
        assert_eq!(measuring(&test(json!({"consumers": {"count": 2}, "foreign": "take"}))), ["c0"]);
    }
}
