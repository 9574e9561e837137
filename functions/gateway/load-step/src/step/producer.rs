//! Work of a load test's producer: it puts each of its messages when the message is due.

use std::collections::HashMap;
use std::time::Duration;

use broker::Deadline;
use broker::load::{Confirmation, LoadProducer, Outcome, PutEnd, PutOptions};
use load_test::store::Handled;
use load_test::{Micros, MinuteMessages, Producers, Schedule};
use mq::BrokerError;
use tokio::sync::watch::Receiver;

use super::WorkerMinute;
use super::pace::{HeldBack, Message, Messages, Next};
use super::quota::Quota;
use super::state::{Interrupt, Leave};
use super::target_failures::TargetFailures;
use super::yield_timer::YieldTimer;
use crate::options;
use crate::test_target::TestTargetError;

/// Interval at which the producer checks for confirms of the broker while no message is due.
const BETWEEN_LOOKS: Micros = Micros::new(100_000);

/// Longest time to wait for missing confirms after the last message of the minute was put. It is
/// shorter than the longest latency that reports distinguish, because an invocation does not last
/// as long.
const TO_SETTLE: Micros = Micros::from_seconds(20);

/// Time limit for closing a connection in order, which commits an open unit of work: after the last
/// message (`TO_END`), and after a stop or a failure (`TO_LEAVE`).
const TO_END: Duration = Duration::from_secs(5);
const TO_LEAVE: Duration = Duration::from_secs(1);

/// Producer of a load test while it works in one minute of the test.
struct Producing<'a> {
    minute: &'a WorkerMinute<'a>,
    options: &'a PutOptions,
    messages: Messages,
    held_back: HeldBack,
    /// Number of messages that the worker put before this step (its attempt at one minute of the
    /// test): at first the number that was known when the step was claimed, later the final number
    /// from `certain`.
    handled_before: Handled,
    certain: Receiver<Option<Handled>>,
    /// Messages that the broker has neither confirmed nor refused: the time since the run's start
    /// at which each was due, by its sequence number. There are at most as many as the test allows
    /// to be unconfirmed.
    in_flight: HashMap<u64, Micros>,
    /// True if the broker confirmed a message on the current connection.
    has_confirmed: bool,
}

/// Puts the producer's messages of this invocation's minute of the test. Returns true if the worker
/// has nothing left to do in later minutes.
pub(super) async fn produce(minute: &WorkerMinute<'_>, producers: &Producers) -> Result<bool, Interrupt> {
    let number = minute.step.lane.worker.number;
    let queue = minute.target.queue(number).map_err(|error| Interrupt::Failed(error.to_string()))?;
    let options = options::puts(minute.record, producers, minute.of.run, minute.start);
    let options = options.map_err(Interrupt::Failed)?;
    let mut producing = Producing {
        minute,
        options: &options,
        messages: messages(minute),
        held_back: HeldBack::default(),
        handled_before: minute.quota.map(|quota| quota.claimed).unwrap_or_default(),
        certain: minute.state.final_handled.subscribe(),
        in_flight: HashMap::new(),
        has_confirmed: false,
    };
    minute.state.next_due.set(producing.messages.next_due());
    let mut failures = TargetFailures::new();
    loop {
        let connect = async |deadline| minute.target.producer(&queue, &options, deadline).await;
        let connection = minute.connected(&mut failures, connect).await?;
        let Err(error) = producing.put_all(connection).await? else { break };
        if std::mem::take(&mut producing.has_confirmed) {
            failures.worked();
        }
        minute.wait_to_retry(&mut failures, &TestTargetError::from(error)).await?;
    }
    Ok(producing.has_used_up_its_quota() || minute.is_last_window())
}

/// Returns the messages that the producer has to put in this invocation's minute of the test.
fn messages(minute: &WorkerMinute<'_>) -> Messages {
    if let Some(quota) = &minute.quota {
        let (share, allowed) = (quota.share(), quota.certain_count());
        return Messages::unthrottled(share, allowed, quota.is_certain(), minute.end);
    }
    match minute.test.schedule() {
        Some(Schedule::Paced(schedule)) => {
            let share = schedule.share(minute.step.lane.worker.number, minute.from, minute.end);
            Messages::paced(schedule, share, minute.end)
        }
        // A producer without a rate has a quota, and a test with producers has a schedule.
        Some(Schedule::Unthrottled(_)) | None => {
            let none = MinuteMessages { first: 0, step: 1, count: 0 };
            Messages::unthrottled(none, 0, true, minute.end)
        }
    }
}

impl Producing<'_> {
    /// Puts messages on one connection until the producer's minute of the test is over, and closes
    /// the connection. The inner error is that of a broken connection, after which the producer
    /// connects again.
    async fn put_all(
        &mut self,
        mut connection: Box<dyn LoadProducer + '_>,
    ) -> Result<Result<(), BrokerError>, Interrupt> {
        self.held_back.until(self.minute.clock.now());
        match self.put_due(&mut *connection).await {
            Ok(()) => {}
            // What is in flight stays in doubt. Nothing of it could be stored.
            Err(Leave::Interrupt(Interrupt::Superseded)) => return Err(Interrupt::Superseded),
            Err(Leave::Interrupt(interrupt)) => {
                self.end(connection, TO_LEAVE).await;
                return Err(interrupt);
            }
            Err(Leave::Broken(error)) => {
                let known = self.end(connection, TO_LEAVE).await;
                // The end often knows more about the reason, but not more than that the queue is
                // gone: RabbitMQ sends its messages back.
                let is_gone = matches!(error, BrokerError::QueueNotFound { .. });
                return Ok(Err(known.filter(|_| !is_gone).unwrap_or(error)));
            }
        }
        if self.messages.is_unthrottled() {
            self.minute.state.store_now.notify_one();
        }
        match self.settle(&mut *connection).await {
            Ok(()) => {
                self.end(connection, TO_END).await;
                Ok(Ok(()))
            }
            Err(Interrupt::Superseded) => Err(Interrupt::Superseded),
            Err(interrupt) => {
                self.end(connection, TO_LEAVE).await;
                Err(interrupt)
            }
        }
    }

    /// Puts each message when it is due, until none is left or the remaining ones are given up.
    async fn put_due(&mut self, connection: &mut (dyn LoadProducer + '_)) -> Result<(), Leave> {
        let minute = self.minute;
        // It connects before its window opens, while the clock may stand at zero and another lane
        // may put messages, and puts nothing until then.
        self.idle(connection, minute.from).await?;
        let mut yield_timer = YieldTimer::new();
        loop {
            self.note_answers(connection);
            self.note_quota();
            let now = minute.clock.now();
            let has_waited = match self.messages.next(now) {
                Next::End => return Ok(()),
                Next::AwaitQuota => self.idle(connection, now.plus(BETWEEN_LOOKS)).await?,
                Next::Put(message) if message.due > now => {
                    let until = if self.in_flight.is_empty() {
                        message.due
                    } else {
                        message.due.min(now.plus(BETWEEN_LOOKS))
                    };
                    self.idle(connection, until).await?
                }
                Next::Put(message) => {
                    self.put(connection, message).await?;
                    false
                }
            };
            if has_waited {
                yield_timer.waited();
            }
            yield_timer.yield_if_due().await;
        }
    }

    /// Puts a message, and counts it as sent once the broker's client has accepted it.
    ///
    /// Counting it earlier would be wrong: a put that waits for room may be given up, and the
    /// message would count as in doubt although it was never sent. If the process is lost between
    /// the put and the count, nothing is miscounted: the stored counts cover only the time before
    /// this message was due (see
    /// [`InvocationState::snapshot`](super::state::InvocationState::snapshot)).
    async fn put(&mut self, connection: &mut (dyn LoadProducer + '_), message: Message) -> Result<(), Leave> {
        let Message { sequence, due } = message;
        let minute = self.minute;
        let Some(outgoing) = self.options.outgoing.generated(sequence) else {
            return Err(Interrupt::Failed("the messages cannot be made".to_owned()).into());
        };
        let give_up = Deadline::at(minute.clock.instant(self.messages.until()));
        let put = connection.put(outgoing, minute.clock.stamp(due), give_up);
        let (answer, has_waited) = minute.state.waiting(put).await?;
        let at = minute.clock.now();
        if has_waited {
            self.held_back.until(at);
        }
        match answer {
            Ok(()) => {}
            // There was no room until it was given up.
            Err(BrokerError::Timeout { .. }) => return Ok(()),
            Err(error) => return Err(Leave::Broken(error)),
        }
        let late_reason = self.held_back.late_reason(due);
        minute.state.count(|tally| tally.sent(sequence, due, at, late_reason));
        self.in_flight.insert(sequence, due);
        self.messages.was_put();
        minute.state.next_due.set(self.messages.next_due());
        Ok(())
    }

    /// Waits, up to [`TO_SETTLE`], until the broker has confirmed or refused all messages except
    /// those of an open unit of work.
    async fn settle(&mut self, connection: &mut (dyn LoadProducer + '_)) -> Result<(), Interrupt> {
        let until = self.minute.clock.now().plus(TO_SETTLE);
        loop {
            self.note_answers(connection);
            let now = self.minute.clock.now();
            // An open unit of work is answered when the producer ends.
            if self.in_flight.len() < self.options.transaction.get() || now >= until {
                return Ok(());
            }
            self.idle(connection, now.plus(BETWEEN_LOOKS)).await?;
        }
    }

    /// Waits until `until`, a time since the run's start, while the broker's client works. Returns
    /// true if other tasks could run meanwhile; false if `until` had passed already.
    async fn idle(&self, connection: &mut (dyn LoadProducer + '_), until: Micros) -> Result<bool, Interrupt> {
        let until = self.minute.clock.instant(until);
        let ((), has_waited) = self.minute.state.waiting(connection.idle_until(until)).await?;
        Ok(has_waited)
    }

    /// Closes the connection within `time`, and records the broker's answers that arrive meanwhile.
    /// If messages remain unconfirmed, returns the reason.
    async fn end(&mut self, connection: Box<dyn LoadProducer + '_>, time: Duration) -> Option<BrokerError> {
        let PutEnd { confirmations, error } = connection.finish(Deadline::after(time)).await;
        for confirmation in confirmations {
            self.note(confirmation);
        }
        // Those in doubt have got no answer, and will get none.
        self.in_flight.clear();
        if let Some(error) = &error {
            let cause: &dyn std::error::Error = error;
            tracing::warn!(
                event_type = "load_step.unconfirmed",
                error = cause,
                "messages of worker {} were not confirmed: {cause}",
                self.minute.step.lane.worker
            );
        }
        error
    }

    fn note_answers(&mut self, connection: &mut (dyn LoadProducer + '_)) {
        for confirmation in connection.confirmations() {
            self.note(confirmation);
        }
    }

    fn note(&mut self, confirmation: Confirmation) {
        let Confirmation { sequence, at, outcome, .. } = confirmation;
        let Some(due) = self.in_flight.remove(&sequence) else { return };
        let at = self.minute.clock.at(at);
        match outcome {
            Outcome::Confirmed => {
                self.has_confirmed = true;
                self.minute.state.count(|tally| tally.confirmed(sequence, due, at));
            }
            // The message is nowhere, which is certain.
            Outcome::Refused | Outcome::Returned | Outcome::NotPut => {
                self.minute.state.count(|tally| tally.refused(sequence));
            }
            // A message that was sent and has no answer is in doubt.
            Outcome::InDoubt => {}
        }
    }

    /// Adjusts the number of messages that may be put in this minute, once the number that the
    /// worker put before this step (its attempt at the minute) is final.
    fn note_quota(&mut self) {
        let Some(quota) = self.minute.quota.filter(|_| self.certain.has_changed().unwrap_or(false)) else {
            return;
        };
        if let Some(handled) = *self.certain.borrow_and_update() {
            self.handled_before = handled;
            self.messages.allow(quota.count(handled));
        }
    }

    fn has_used_up_its_quota(&self) -> bool {
        let is_used_up = |quota: Quota| quota.is_used_up(self.handled_before, self.messages.put_count());
        self.messages.is_certain() && self.minute.quota.is_some_and(is_used_up)
    }
}
