//! Work of a load test's consumer: it takes the messages that arrive, until its minute of the test
//! ends or no more messages come.

use std::time::Duration;

use broker::Deadline;
use broker::load::{Arrival, GetEnd, GetError, GetOptions, LoadConsumer};
use load_test::store::WorkerStates;
use load_test::{Consumers, Micros, Plan, Role};
use mq::{BrokerError, QueueName};
use tokio::sync::watch::Receiver;

use super::WorkerMinute;
use super::drain_watch::DrainWatch;
use super::pace::Pace;
use super::quota::Quota;
use super::state::{Interrupt, Leave};
use super::target_failures::TargetFailures;
use super::yield_timer::YieldTimer;
use crate::options;
use crate::test_target::TestTargetError;

/// Longest wait for a message before the consumer checks again whether it has to end.
const TO_WAIT: Micros = Micros::new(250_000);

/// Time limit for measuring the number of messages on the consumer's queue.
const TO_LOOK: Duration = Duration::from_secs(2);

/// Time limit for closing a connection in order, which acknowledges the messages that the consumer
/// holds: at the end of its minute (`TO_END`), and after a stop or a failure (`TO_LEAVE`).
const TO_END: Duration = Duration::from_secs(5);
const TO_LEAVE: Duration = Duration::from_secs(1);

/// Time after the last message is due at which all producers count as ended, even if they did not
/// report it. No attempt of a producer runs longer.
const PRODUCERS_ENDED_AFTER: Micros = Micros::from_seconds(40);

/// Reason why a consumer takes no more messages in its minute of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    /// The consumer's minute of the test ends, and the worker's other lane (series of invocations)
    /// continues.
    WindowCloses,
    /// The worker has nothing left to do in later minutes of the test.
    Over,
}

/// Consumer of a load test while it works in one minute of the test.
struct Consuming<'a> {
    minute: &'a WorkerMinute<'a>,
    queue: &'a QueueName,
    drain: DrainWatch,
    pace: Option<Pace>,
    delay: Micros,
    /// Number of messages that the consumer may still take; `None` if the number is not limited.
    left: Option<u64>,
    worker_states: Receiver<WorkerStates>,
    /// True if a message arrived on the current connection.
    has_received: bool,
}

/// Takes the messages that arrive in this invocation's minute of the test. Returns true if the
/// worker has nothing left to do in later minutes.
pub(super) async fn consume(minute: &WorkerMinute<'_>, consumers: &Consumers) -> Result<bool, Interrupt> {
    let number = minute.step.lane.worker.number;
    let queue = minute.target.queue(number).map_err(|error| Interrupt::Failed(error.to_string()))?;
    let mut consuming = Consuming::new(minute, consumers, &queue);
    let (mut failures, mut has_begun) = (TargetFailures::new(), false);
    loop {
        let most = consuming.left.unwrap_or(u64::MAX);
        let options = options::gets(minute.record.test_id, minute.test, consumers, most);
        let options = options.map_err(Interrupt::Failed)?;
        let Some(connection) = connection(minute, &mut failures, &queue, &options).await? else { break };
        // It is connected before its window opens, and takes nothing until it may begin.
        if !has_begun && !consuming.begins().await? {
            consuming.end(connection, TO_END).await;
            break;
        }
        has_begun = true;
        match consuming.take_all(connection).await? {
            Ok(Done::Over) => return Ok(true),
            Ok(Done::WindowCloses) => break,
            Err(error) => {
                if std::mem::take(&mut consuming.has_received) {
                    failures.worked();
                }
                minute.wait_to_retry(&mut failures, &TestTargetError::from(error)).await?;
            }
        }
    }
    Ok(minute.is_last_window())
}

/// Opens a connection on which the consumer takes messages; `None` if its minute of the test ends
/// first.
async fn connection<'o>(
    minute: &WorkerMinute<'_>,
    failures: &mut TargetFailures,
    queue: &'o QueueName,
    options: &'o GetOptions,
) -> Result<Option<Box<dyn LoadConsumer + 'o>>, Interrupt> {
    let connect = async |deadline| minute.target.consumer(queue, options, deadline).await;
    let closes = Deadline::at(minute.clock.instant(minute.end));
    closes.run(minute.connected(failures, connect)).await.ok().transpose()
}

impl WorkerMinute<'_> {
    /// Waits until this invocation's minute of the test begins. If the test has a backlog, also
    /// waits until the queues hold it or all producers have ended. False if the minute ends first.
    async fn may_begin(&self) -> Result<bool, Interrupt> {
        let (state, opens) = (&self.state, self.clock.instant(self.from));
        state.unless_ended(tokio::time::sleep_until(opens)).await?;
        if self.test.backlog.is_none() {
            return Ok(true);
        }
        let mut states = state.worker_states.subscribe();
        loop {
            let now = self.clock.now();
            if now >= self.end {
                return Ok(false);
            }
            let may_begin = {
                let known = states.borrow_and_update();
                known.is_backlogged() || self.has_produced(&known, now)
            };
            if may_begin {
                return Ok(true);
            }
            let wait = Deadline::at(self.clock.instant(self.end.min(now.plus(TO_WAIT))));
            // Whether something changed or the time passed, the loop looks again.
            let _ = state.unless_ended(wait.run(states.changed())).await?;
        }
    }

    /// Waits until the number of messages that the worker took in earlier minutes is final. Returns
    /// the number that it may take in this minute; `None` if the minute ends first.
    async fn left_to_take(&self, quota: Quota) -> Result<Option<u64>, Interrupt> {
        if quota.is_certain() {
            return Ok(Some(quota.count(quota.claimed)));
        }
        let (mut certain, closes) =
            (self.state.final_handled.subscribe(), Deadline::at(self.clock.instant(self.end)));
        let known = self.state.unless_ended(closes.run(certain.wait_for(Option::is_some))).await?;
        let handled = known.ok().and_then(Result::ok).and_then(|handled| *handled);
        Ok(handled.map(|handled| quota.count(handled)))
    }

    /// True if no producer of the test puts messages any more at `now`, a time since the run's
    /// start. `known` says which workers have ended.
    fn has_produced(&self, known: &WorkerStates, now: Micros) -> bool {
        let producers = self.plan.workers().filter(|worker| worker.role == Role::Producer);
        known.have_ended(producers, now) || now >= self.plan.until(Role::Producer).plus(PRODUCERS_ENDED_AFTER)
    }
}

impl<'a> Consuming<'a> {
    fn new(minute: &'a WorkerMinute<'a>, consumers: &Consumers, queue: &'a QueueName) -> Self {
        let now = minute.clock.now();
        let pace = consumers.rate_per_sec.map(|rate| Pace::new(rate.get(), consumers.count.get(), now));
        Self {
            minute,
            queue,
            drain: DrainWatch::new(minute.test, now),
            pace,
            delay: Duration::from_millis(consumers.delay_ms.get().into()).into(),
            left: minute.quota.map(|quota| quota.count(quota.claimed)),
            worker_states: minute.state.worker_states.subscribe(),
            has_received: false,
        }
    }

    /// Waits until the consumer may begin to take messages. False if its minute of the test ends
    /// first.
    async fn begins(&mut self) -> Result<bool, Interrupt> {
        let minute = self.minute;
        if !minute.may_begin().await? {
            return Ok(false);
        }
        if let Some(quota) = minute.quota {
            let Some(left) = minute.left_to_take(quota).await? else { return Ok(false) };
            self.left = Some(left);
        }
        let now = minute.clock.now();
        self.drain = DrainWatch::new(minute.test, now);
        self.pace = self.pace.map(|pace| pace.restarted(now));
        Ok(true)
    }

    /// Takes messages on one connection until the consumer is done, and closes the connection.
    /// Returns why the consumer is done. The inner error is that of a broken connection, after
    /// which the consumer connects again.
    async fn take_all(
        &mut self,
        mut connection: Box<dyn LoadConsumer + '_>,
    ) -> Result<Result<Done, BrokerError>, Interrupt> {
        match self.take(&mut *connection).await {
            Ok(done) => {
                self.end(connection, TO_END).await;
                Ok(Ok(done))
            }
            // What is in hand goes back: nothing of it could be stored.
            Err(Leave::Interrupt(Interrupt::Superseded)) => Err(Interrupt::Superseded),
            Err(Leave::Interrupt(interrupt)) => {
                self.end(connection, TO_LEAVE).await;
                Err(interrupt)
            }
            Err(Leave::Broken(error)) => {
                self.end(connection, TO_LEAVE).await;
                Ok(Err(error))
            }
        }
    }

    /// Takes messages on one connection until the consumer's minute of the test ends, or the
    /// consumer has nothing left to take. Returns which of the two is the case.
    async fn take(&mut self, connection: &mut (dyn LoadConsumer + '_)) -> Result<Done, Leave> {
        let minute = self.minute;
        let mut yield_timer = YieldTimer::new();
        loop {
            let now = minute.clock.now();
            if now >= minute.end {
                return Ok(Done::WindowCloses);
            }
            if self.left == Some(0) {
                return Ok(Done::Over);
            }
            let produced = self.has_produced(now);
            if self.drain.wants_look(now, produced) {
                self.look().await?;
            }
            if self.drain.is_done(now, produced) {
                return Ok(Done::Over);
            }
            let until = Deadline::at(minute.clock.instant(minute.end.min(now.plus(TO_WAIT))));
            let (next, has_waited) = minute.state.waiting(connection.next(until)).await?;
            if has_waited {
                yield_timer.waited();
            }
            match next {
                Ok(Some(arrival)) => {
                    self.note(&arrival);
                    self.work().await?;
                    yield_timer.yield_if_due().await;
                }
                Ok(None) => {}
                Err(GetError::Broker(error)) => return Err(Leave::Broken(error)),
                Err(error @ GetError::Foreign(_)) => {
                    return Err(Interrupt::Failed(error.to_string()).into());
                }
            }
        }
    }

    /// True if no producer of the test puts messages any more at `now`. The workers that have ended
    /// are read from the store once a second.
    fn has_produced(&mut self, now: Micros) -> bool {
        self.minute.has_produced(&self.worker_states.borrow_and_update(), now)
    }

    /// Measures the number of messages on the consumer's queue, and records it. The consumer may
    /// end once its queue is empty.
    async fn look(&mut self) -> Result<(), Interrupt> {
        let minute = self.minute;
        let depth = minute.target.depth(self.queue, Deadline::after(TO_LOOK));
        let depth = minute.state.unless_ended(depth).await?;
        let messages = depth.ok().map(|depth| depth.current_depth);
        self.drain.looked(minute.clock.now(), messages);
        Ok(())
    }

    /// Counts a message that the consumer received.
    fn note(&mut self, arrival: &Arrival) {
        let clock = &self.minute.clock;
        let at = clock.at(arrival.at);
        self.has_received = true;
        self.drain.received(at);
        self.left = self.left.map(|left| left.saturating_sub(1));
        // One that was due before the start is of an earlier probe of the same test.
        let own = arrival.stamp.and_then(|stamp| Some((stamp.sequence, clock.of_stamp(stamp.sent_at_us)?)));
        self.minute.state.count(|tally| match own {
            Some((sequence, due)) => tally.received(sequence, due, at),
            None => tally.foreign(at),
        });
    }

    /// Waits for the time that a consumer spends on each message, and until its rate allows the
    /// next message.
    async fn work(&mut self) -> Result<(), Interrupt> {
        let minute = self.minute;
        let now = minute.clock.now();
        let paced = self.pace.as_mut().map_or(now, |pace| pace.next(now));
        let until = now.plus(self.delay).max(paced).min(minute.end);
        if until <= now {
            return Ok(());
        }
        minute.state.unless_ended(tokio::time::sleep_until(minute.clock.instant(until))).await
    }

    /// Closes the connection within `time`. The messages that were delivered to the consumer are
    /// acknowledged and counted.
    async fn end(&mut self, connection: Box<dyn LoadConsumer + '_>, time: Duration) {
        let GetEnd { rest, unsettled, error } = connection.finish(Deadline::after(time)).await;
        for arrival in &rest {
            self.note(arrival);
        }
        if let Some(error) = &error {
            let cause: &dyn std::error::Error = error;
            tracing::warn!(
                event_type = "load_step.consumer_ended",
                error = cause,
                unsettled = unsettled.len(),
                "the consumer {} ended: {cause}",
                self.minute.step.lane.worker
            );
        }
    }
}

// Consumers have time to drain their queues after they count the producers as ended.
const _: () = assert!(PRODUCERS_ENDED_AFTER.get() < Plan::DRAIN.get());
