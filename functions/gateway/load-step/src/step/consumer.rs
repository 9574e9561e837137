//! The work of a consumer: it takes what comes, until its window closes or nothing comes any more.

use std::time::Duration;

use broker::Deadline;
use broker::load::{Arrival, GetEnd, GetError, GetOptions, LoadConsumer};
use load_test::store::Attendance;
use load_test::{Consumers, Micros, Plan, Role};
use mq::{BrokerError, QueueName};
use tokio::sync::watch::Receiver;

use super::Shift;
use super::board::{Interrupt, Leave};
use super::breath::Breath;
use super::drain::Drain;
use super::pace::Pace;
use super::patience::Patience;
use super::quota::Quota;
use crate::options;
use crate::place::PlaceError;

/// Longest wait for a message before the consumer checks its other conditions.
const TO_WAIT: Micros = Micros::new(250_000);

/// Time limit for measuring the consumer's queue.
const TO_LOOK: Duration = Duration::from_secs(2);

/// Time limit for closing a connection in order, which acknowledges the messages that the consumer
/// holds: at the end of its minute (`TO_END`), and after a stop or a failure (`TO_LEAVE`).
const TO_END: Duration = Duration::from_secs(5);
const TO_LEAVE: Duration = Duration::from_secs(1);

/// Time after the last message is due at which all producers count as ended, even if they did not
/// report it. No attempt of a producer runs longer.
const TO_PRODUCE: Micros = Micros::from_seconds(40);

/// Reason why a consumer takes no more messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    /// The consumer's minute of the test ends, and the worker's other lane (series of invocations)
    /// continues.
    WindowCloses,
    /// The worker has nothing left to do in later minutes of the test.
    Over,
}

/// Consumer of a load test, at work in one minute of the test.
struct Consuming<'a> {
    shift: &'a Shift<'a>,
    queue: &'a QueueName,
    drain: Drain,
    pace: Option<Pace>,
    delay: Micros,
    /// Number of messages that the consumer may still take; `None` if the number is not limited.
    left: Option<u64>,
    attendance: Receiver<Attendance>,
    /// True if a message arrived on the current connection.
    has_received: bool,
}

/// Takes the messages that arrive in this invocation's minute of the test. Returns true if the
/// worker has nothing left to do in later minutes.
pub(super) async fn consume(shift: &Shift<'_>, consumers: &Consumers) -> Result<bool, Interrupt> {
    let number = shift.step.lane.worker.number;
    let queue = shift.place.queue(number).map_err(|error| Interrupt::Failed(error.to_string()))?;
    let mut consuming = Consuming::new(shift, consumers, &queue);
    let (mut patience, mut has_begun) = (Patience::new(), false);
    loop {
        let most = consuming.left.unwrap_or(u64::MAX);
        let options = options::gets(shift.record.test_id, shift.test, consumers, most);
        let options = options.map_err(Interrupt::Failed)?;
        let Some(connection) = connection(shift, &mut patience, &queue, &options).await? else { break };
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
                    patience.worked();
                }
                shift.bear(&mut patience, &PlaceError::from(error)).await?;
            }
        }
    }
    Ok(shift.is_last_window())
}

/// Opens a connection of the consumer; `None` if its minute of the test ends first.
async fn connection<'o>(
    shift: &Shift<'_>,
    patience: &mut Patience,
    queue: &'o QueueName,
    options: &'o GetOptions,
) -> Result<Option<Box<dyn LoadConsumer + 'o>>, Interrupt> {
    let connect = async |deadline| shift.place.consumer(queue, options, deadline).await;
    let closes = Deadline::at(shift.clock.instant(shift.end));
    closes.run(shift.connected(patience, connect)).await.ok().transpose()
}

impl Shift<'_> {
    /// Waits until this invocation's minute of the test begins and, if the test has a backlog,
    /// until the queues hold it or all producers have ended. False if the minute ends first.
    async fn may_begin(&self) -> Result<bool, Interrupt> {
        let (board, opens) = (&self.board, self.clock.instant(self.from));
        board.unless_ended(tokio::time::sleep_until(opens)).await?;
        if self.test.backlog.is_none() {
            return Ok(true);
        }
        let mut attendance = board.attendance.subscribe();
        loop {
            let now = self.clock.now();
            if now >= self.end {
                return Ok(false);
            }
            let may_begin = {
                let known = attendance.borrow_and_update();
                known.is_backlogged() || self.has_produced(&known, now)
            };
            if may_begin {
                return Ok(true);
            }
            let wait = Deadline::at(self.clock.instant(self.end.min(now.plus(TO_WAIT))));
            // Whether something changed or the time passed, the loop looks again.
            let _ = board.unless_ended(wait.run(attendance.changed())).await?;
        }
    }

    /// Waits until the number of messages that the worker took in earlier minutes is final, and
    /// returns the number that it may take in this minute; `None` if the minute ends first.
    async fn left_to_take(&self, quota: Quota) -> Result<Option<u64>, Interrupt> {
        if quota.is_certain() {
            return Ok(Some(quota.count(quota.claimed)));
        }
        let (mut certain, closes) =
            (self.board.handled.subscribe(), Deadline::at(self.clock.instant(self.end)));
        let known = self.board.unless_ended(closes.run(certain.wait_for(Option::is_some))).await?;
        let handled = known.ok().and_then(Result::ok).and_then(|handled| *handled);
        Ok(handled.map(|handled| quota.count(handled)))
    }

    /// True if no producer of the test puts messages any more.
    fn has_produced(&self, known: &Attendance, now: Micros) -> bool {
        let producers = self.plan.workers().filter(|worker| worker.role == Role::Producer);
        known.have_ended(producers, now) || now >= self.plan.until(Role::Producer).plus(TO_PRODUCE)
    }
}

impl<'a> Consuming<'a> {
    fn new(shift: &'a Shift<'a>, consumers: &Consumers, queue: &'a QueueName) -> Self {
        let now = shift.clock.now();
        let pace = consumers.rate_per_sec.map(|rate| Pace::new(rate.get(), consumers.count.get(), now));
        Self {
            shift,
            queue,
            drain: Drain::new(shift.test, now),
            pace,
            delay: Duration::from_millis(consumers.delay_ms.get().into()).into(),
            left: shift.quota.map(|quota| quota.count(quota.claimed)),
            attendance: shift.board.attendance.subscribe(),
            has_received: false,
        }
    }

    /// Waits until the consumer may begin to take messages. False if its minute of the test ends
    /// first.
    async fn begins(&mut self) -> Result<bool, Interrupt> {
        let shift = self.shift;
        if !shift.may_begin().await? {
            return Ok(false);
        }
        if let Some(quota) = shift.quota {
            let Some(left) = shift.left_to_take(quota).await? else { return Ok(false) };
            self.left = Some(left);
        }
        let now = shift.clock.now();
        self.drain = Drain::new(shift.test, now);
        self.pace = self.pace.map(|pace| pace.restarted(now));
        Ok(true)
    }

    /// Takes messages on one connection until the consumer is done. The inner error is that of the
    /// broken connection.
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

    /// Takes messages on one connection until the consumer's window (a minute of the test) closes,
    /// or the consumer has nothing left to take.
    async fn take(&mut self, connection: &mut (dyn LoadConsumer + '_)) -> Result<Done, Leave> {
        let shift = self.shift;
        let mut breath = Breath::new();
        loop {
            let now = shift.clock.now();
            if now >= shift.end {
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
            let until = Deadline::at(shift.clock.instant(shift.end.min(now.plus(TO_WAIT))));
            let (next, has_waited) = shift.board.waiting(connection.next(until)).await?;
            if has_waited {
                breath.waited();
            }
            match next {
                Ok(Some(arrival)) => {
                    self.note(&arrival);
                    self.work().await?;
                    breath.take().await;
                }
                Ok(None) => {}
                Err(GetError::Broker(error)) => return Err(Leave::Broken(error)),
                Err(error @ GetError::Foreign(_)) => {
                    return Err(Interrupt::Failed(error.to_string()).into());
                }
            }
        }
    }

    /// True if no producer of the test puts messages any more. The list of ended workers is read
    /// from the store once a second.
    fn has_produced(&mut self, now: Micros) -> bool {
        self.shift.has_produced(&self.attendance.borrow_and_update(), now)
    }

    /// Measures the number of messages on the consumer's queue.
    async fn look(&mut self) -> Result<(), Interrupt> {
        let shift = self.shift;
        let depth = shift.place.depth(self.queue, Deadline::after(TO_LOOK));
        let depth = shift.board.unless_ended(depth).await?;
        let messages = depth.ok().map(|depth| depth.current_depth);
        self.drain.looked(shift.clock.now(), messages);
        Ok(())
    }

    /// Counts a message that the consumer received.
    fn note(&mut self, arrival: &Arrival) {
        let clock = &self.shift.clock;
        let at = clock.at(arrival.at);
        self.has_received = true;
        self.drain.received(at);
        self.left = self.left.map(|left| left.saturating_sub(1));
        // One that was due before the start is of an earlier probe of the same test.
        let own = arrival.stamp.and_then(|stamp| Some((stamp.sequence, clock.of_stamp(stamp.sent_at_us)?)));
        self.shift.board.count(|tally| match own {
            Some((sequence, due)) => tally.received(sequence, due, at),
            None => tally.foreign(at),
        });
    }

    /// Waits for the time that a consumer works on a message, and for the time at which its rate
    /// allows the next one.
    async fn work(&mut self) -> Result<(), Interrupt> {
        let shift = self.shift;
        let now = shift.clock.now();
        let paced = self.pace.as_mut().map_or(now, |pace| pace.next(now));
        let until = now.plus(self.delay).max(paced).min(shift.end);
        if until <= now {
            return Ok(());
        }
        shift.board.unless_ended(tokio::time::sleep_until(shift.clock.instant(until))).await
    }

    /// Closes the connection. The messages that the consumer holds are acknowledged and counted.
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
                self.shift.step.lane.worker
            );
        }
    }
}

// Consumers have time to drain their queues after they count the producers as ended.
const _: () = assert!(TO_PRODUCE.get() < Plan::DRAIN.get());
