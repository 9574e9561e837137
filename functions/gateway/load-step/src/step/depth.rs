//! Measuring of the messages on a load test's queues, which one worker of the test does beside its
//! work.

use std::collections::BTreeMap;
use std::time::Duration;

use broker::Deadline;
use load_test::{LoadTest, Micros, Role, Worker};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::WorkerMinute;
use super::state::{Interrupt, Order};
use crate::store::{fail, insist, log};
use crate::test_target::{TestTarget, TestTargetError};

/// Interval between two rounds of measurements, in which all queues of the test are measured.
const EVERY: Duration = Duration::from_secs(2);
/// Interval between two rounds of measurements while consumers wait for a backlog.
const SOON: Duration = Duration::from_millis(500);
/// Time after which a round of measurements leaves the remaining queues to the next round.
const A_LOOK: Duration = Duration::from_secs(2);
/// Time limit for measuring one queue.
const TO_LOOK: Duration = Duration::from_secs(5);
/// Time without a successful measurement after which a test with producers fails, because the limit
/// on messages on its queues could not be enforced.
const UNSEEN: Micros = Micros::from_seconds(30);
/// Time limit for recording in the store that the test has failed, or that the queues hold the
/// backlog.
const TO_NOTE: Duration = Duration::from_secs(20);

/// Last measured number of messages on each queue of a test. Only [`TestTarget::AT_ONCE`] queues
/// are measured at the same time, so hundreds of queues may take several rounds.
#[derive(Clone, Debug)]
struct Depths {
    count: u32,
    next: u32,
    seen: BTreeMap<u32, u64>,
}

impl Depths {
    const fn of(count: u32) -> Self {
        Self { count, next: 0, seen: BTreeMap::new() }
    }

    /// Returns the number of the queue to measure next, and advances to the following queue.
    fn turn(&mut self) -> u32 {
        let number = self.next;
        self.next = number.saturating_add(1).checked_rem(self.count).unwrap_or(0);
        number
    }

    /// Records the measured number of messages on the queue with this number.
    fn saw(&mut self, number: u32, messages: u64) {
        self.seen.insert(number, messages);
    }

    /// Returns the total number of messages on all queues that were measured so far.
    fn messages(&self) -> u64 {
        self.seen.values().fold(0, |sum, messages| sum.saturating_add(*messages))
    }

    /// True if every queue of the test was measured at least once.
    fn are_whole(&self) -> bool {
        self.seen.len() >= usize::try_from(self.count).unwrap_or(usize::MAX)
    }

    /// Measures each queue once, or as many queues as fit into [`A_LOOK`]. The next call continues
    /// with the queue after the last measured one.
    async fn look(&mut self, target: &TestTarget<'_>) -> Result<(), TestTargetError> {
        let (time, mut left) = (Deadline::after(A_LOOK), self.count);
        while left > 0 {
            let turns: Vec<u32> = (0..left).take(TestTarget::AT_ONCE).map(|_| self.turn()).collect();
            left = left.saturating_sub(u32::try_from(turns.len()).unwrap_or(left));
            let queues = turns.iter().map(|number| target.queue(*number)).collect::<Result<Vec<_>, _>>()?;
            let depths = target.depths(&queues, Deadline::after(TO_LOOK)).await?;
            for (number, depth) in turns.into_iter().zip(depths) {
                self.saw(number, depth.current_depth);
            }
            if time.has_passed() {
                break;
            }
        }
        Ok(())
    }
}

/// True for the one worker of a test that measures the queues: consumer 0, or producer 0 if the
/// test has no consumers.
fn measures(test: &LoadTest, worker: Worker) -> bool {
    let role = if test.consumers.is_some() { Role::Consumer } else { Role::Producer };
    worker == Worker { role, number: 0 }
}

/// Measures all queues of the test repeatedly until the invocation's work ends. Does nothing if
/// this worker is not the one that measures them.
pub(super) async fn measure(minute: &WorkerMinute<'_>) {
    if measures(minute.test, minute.step.lane.worker) {
        // It ends with the order to end.
        let _ = measure_until_end(minute).await;
    }
}

async fn measure_until_end(minute: &WorkerMinute<'_>) -> Result<(), Interrupt> {
    let state = &minute.state;
    // Before, the lane of the window before measures.
    state.unless_ended(tokio::time::sleep_until(minute.clock.instant(minute.from))).await?;
    let mut backlog = minute.test.backlog.filter(|_| !state.worker_states.borrow().is_backlogged());
    let mut depths = Depths::of(minute.target.queue_count());
    let (mut was_seen, mut seen_at) = (true, minute.clock.now());
    let mut ticks = ticks(if backlog.is_some() { SOON } else { EVERY });
    loop {
        state.unless_ended(ticks.tick()).await?;
        let looked = state.unless_ended(depths.look(&minute.target)).await?;
        let at = minute.clock.now();
        if at >= minute.end {
            return Ok(());
        }
        if let Err(error) = looked {
            if was_seen {
                log_unseen(&error);
            }
            was_seen = false;
            if let Some(reason) = why_to_end(minute.test, &error, at.since(seen_at)) {
                minute.fail(&reason).await;
                state.order(Order::Stop);
            }
            continue;
        }
        (was_seen, seen_at) = (true, at);
        let messages = depths.messages();
        if depths.are_whole() {
            state.count(|tally| tally.retained(at, messages));
        }
        // Consumers alone put nothing there.
        if minute.test.producers.is_some() && messages > minute.test.most_retained() {
            minute.fail(&too_many(messages, minute.test.most_retained())).await;
            state.order(Order::Stop);
        } else if backlog.is_some_and(|backlog| messages >= backlog.get()) {
            minute.note_backlog().await;
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

/// Returns the reason why a test fails because a measurement of its queues failed with `error`;
/// `None` if the test may continue. `unseen_for` is the time since the last successful measurement.
fn why_to_end(test: &LoadTest, error: &TestTargetError, unseen_for: Micros) -> Option<String> {
    if error.is_final() {
        return Some(error.to_string());
    }
    let seconds = UNSEEN.whole_seconds();
    let is_too_long = test.producers.is_some() && unseen_for >= UNSEEN;
    is_too_long.then(|| format!("the queues could not be measured for {seconds} s: {error}"))
}

fn too_many(messages: u64, most: u64) -> String {
    format!("the queues hold {messages} messages, and those of a test may hold {most}")
}

fn log_unseen(error: &TestTargetError) {
    let error: &dyn std::error::Error = error;
    tracing::warn!(
        event_type = "load_step.queues_not_seen",
        error,
        "cannot measure the queues of the load test: {error}"
    );
}

impl WorkerMinute<'_> {
    /// Records that the load test has failed, with the reason.
    async fn fail(&self, detail: &str) {
        if let Err(error) = fail(self.store, self.of, detail, Deadline::after(TO_NOTE)).await {
            log(&error);
        }
    }

    /// Records in the store that the queues hold the backlog, so that the consumers begin.
    async fn note_backlog(&self) {
        let noted = insist(Deadline::after(TO_NOTE), async || self.store.note_backlog(self.of).await);
        match noted.await {
            Ok(states) => {
                self.state.worker_states.send_replace(states);
            }
            Err(error) => log(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use mq::BrokerError;
    use serde_json::json;

    use super::*;
    use crate::samples::test;

    #[test]
    fn queues_are_measured_in_turns_and_none_is_forgotten() {
        let mut depths = Depths::of(3);
        for (number, messages, sum, whole) in
            [(0, 5, 5, false), (1, 7, 12, false), (2, 0, 12, true), (0, 1, 8, true), (1, 0, 1, true)]
        {
            assert_eq!(depths.turn(), number);
            depths.saw(number, messages);
            assert_eq!((depths.messages(), depths.are_whole()), (sum, whole));
        }
    }

    #[test]
    fn a_test_that_puts_messages_ends_if_nobody_sees_its_queues() {
        let puts = test(json!({"producers": {}}));
        let takes = test(json!({"consumers": {}, "foreign": "take"}));
        let slow = TestTargetError::Broker(BrokerError::timeout("slow"));
        let why = |test, error, second| why_to_end(test, error, Micros::from_seconds(second));
        assert_eq!([why(&puts, &slow, 29), why(&takes, &slow, 300)], [None, None]);
        assert!(why(&puts, &slow, 30).is_some_and(|reason| reason.ends_with("for 30 s: slow")));
        let gone = TestTargetError::Broker(BrokerError::queue_not_found("Q".to_owned().try_into().unwrap()));
        for test in [&puts, &takes] {
            assert_eq!(why(test, &gone, 0).as_deref(), Some("the queue `Q` does not exist"));
        }
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
