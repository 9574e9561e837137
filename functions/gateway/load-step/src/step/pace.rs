//! Times at which a producer puts its messages, and a consumer takes its next message.

use load_test::{LateReason, Micros, MinuteMessages, Paced};

/// Messages that one producer has to put in one window (minute of the test), with its progress.
#[derive(Clone, Debug)]
pub(super) struct Messages {
    /// Schedule of the messages; `None` without a rate, where each message is due when it can be
    /// put.
    schedule: Option<Paced>,
    share: MinuteMessages,
    /// Number of messages that the producer has put in this window (minute of the test).
    put: u64,
    /// Number of messages that may be put in this window (minute of the test). It may be lower than
    /// in `share` while the number that the worker put in the previous window is not final.
    allowed: u64,
    is_certain: bool,
    /// Time since the run's start at which the producer gives up the messages that it has not put.
    until: Micros,
    /// Message that the producer has prepared and not yet put.
    in_hand: Option<Message>,
}

/// Message that a producer is to put: its sequence number, and the time since the run's start at
/// which it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) sequence: u64,
    pub(super) due: Micros,
}

/// Next act of a producer: to put a message, to wait or to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Put this message once it is due.
    Put(Message),
    /// Wait until the number of messages that the producer sent in the previous minute of the test
    /// is final.
    AwaitQuota,
    /// End, because all messages are put, or the remaining ones are given up.
    End,
}

impl Messages {
    /// Time for which a producer continues after its window (minute of the test), to put messages
    /// that were due in it. Messages that a broker does not accept by then are given up.
    pub(super) const OVERTIME: Micros = Micros::from_seconds(10);

    /// Creates the messages of a producer with a rate, for a window (minute of the test) that ends
    /// at `end`. Each message is due at its time by the schedule.
    pub(super) fn paced(schedule: Paced, share: MinuteMessages, end: Micros) -> Self {
        let until = end.plus(Self::OVERTIME);
        Self { schedule: Some(schedule), ..Self::new(share, until) }
    }

    /// Creates the messages of a producer without a rate, for a window (minute of the test) that
    /// ends at `end`. Each message is due when it can be put. At most `allowed` messages of `share`
    /// may be put. Unless `is_certain`, [`Self::allow`] sets the final number later.
    pub(super) fn unthrottled(share: MinuteMessages, allowed: u64, is_certain: bool, end: Micros) -> Self {
        Self { allowed, is_certain, ..Self::new(share, end) }
    }

    fn new(share: MinuteMessages, until: Micros) -> Self {
        let allowed = share.count;
        Self { schedule: None, share, put: 0, allowed, is_certain: true, until, in_hand: None }
    }

    /// Sets the final number of messages that may be put in the window (minute of the test).
    pub(super) fn allow(&mut self, count: u64) {
        (self.allowed, self.is_certain) = (count, true);
    }

    /// Returns the producer's next act at `now`, a time since the run's start.
    pub(super) fn next(&mut self, now: Micros) -> Next {
        if now >= self.until {
            return Next::End;
        }
        match self.message(now) {
            Some(message) => Next::Put(message),
            None if self.is_certain => Next::End,
            None => Next::AwaitQuota,
        }
    }

    /// Returns the message that was prepared and not yet put, or prepares the next one; `None` if
    /// no message may be put. Without a rate, a message is due when it is prepared, so that its
    /// wait for room on the connection is part of its latency.
    fn message(&mut self, now: Micros) -> Option<Message> {
        if self.in_hand.is_none()
            && let Some(sequence) = self.next_sequence()
        {
            let due = match &self.schedule {
                Some(schedule) => schedule.due(sequence)?,
                None => now,
            };
            self.in_hand = Some(Message { sequence, due });
        }
        self.in_hand
    }

    /// Records that the prepared message was put.
    pub(super) fn was_put(&mut self) {
        self.put = self.put.saturating_add(1);
        self.in_hand = None;
    }

    /// Returns the time at which the producer's next message is due; `None` if no message is left,
    /// or without a rate.
    pub(super) fn next_due(&self) -> Option<Micros> {
        self.schedule.as_ref()?.due(self.next_sequence()?)
    }

    fn next_sequence(&self) -> Option<u64> {
        let next = || self.share.first.saturating_add(self.put.saturating_mul(self.share.step));
        (self.put < self.allowed).then(next)
    }

    /// Returns the time since the run's start at which the producer gives up the messages that it
    /// has not put.
    pub(super) const fn until(&self) -> Micros {
        self.until
    }

    /// True if the producer has no rate, so that each message is due when it can be put.
    pub(super) const fn is_unthrottled(&self) -> bool {
        self.schedule.is_none()
    }

    /// True if the number of messages that may be put in this window (minute of the test) is final.
    pub(super) const fn is_certain(&self) -> bool {
        self.is_certain
    }

    /// Returns the number of messages that the producer has put in this window (minute of the
    /// test).
    pub(super) const fn put_count(&self) -> u64 {
        self.put
    }
}

/// Last time until which a broker held a producer back, because there was no connection or no room
/// for a message. If a message that was due before this time is late, the broker is the reason.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeldBack {
    until: Micros,
}

impl HeldBack {
    /// Records that the broker held the producer back until `at`: there was no connection, or no
    /// room for a message.
    pub(super) fn until(&mut self, at: Micros) {
        self.until = self.until.max(at);
    }

    /// Tells whether the broker or the producer is the reason if a message that was due at `due` is
    /// late now. The broker is the reason if it held the producer back after that time, even if the
    /// producer could continue since: earlier messages had to be put first.
    pub(super) fn late_reason(&self, due: Micros) -> LateReason {
        if due < self.until { LateReason::Broker } else { LateReason::Producer }
    }
}

/// Pace of one consumer of several that share a rate: the times at which it may take messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    consumers: u64,
    per_second: u64,
    since: Micros,
    /// Number of messages that the consumer has taken since the time `since`.
    taken: u64,
}

impl Pace {
    /// Longest delay that a consumer makes up for with a higher rate: 100 ms. Timers are late by a
    /// millisecond, so the rate would be too low if no delay were made up for.
    const SLACK: Micros = Micros::new(100_000);

    /// Creates the pace of one of `consumers` consumers, which take `per_second` messages a second
    /// together from the time `since` on.
    pub(super) fn new(per_second: u32, consumers: u32, since: Micros) -> Self {
        let (consumers, per_second) = (u64::from(consumers.max(1)), u64::from(per_second.max(1)));
        Self { consumers, per_second, since, taken: 0 }
    }

    /// Returns this pace for a consumer that begins anew at `since` and has taken no message.
    pub(super) const fn restarted(self, since: Micros) -> Self {
        Self { since, taken: 0, ..self }
    }

    /// Records that the consumer took a message at `now`, and returns the time from which it may
    /// take the next one.
    pub(super) fn next(&mut self, now: Micros) -> Micros {
        self.taken = self.taken.saturating_add(1);
        let interval = self.consumers.saturating_mul(Micros::A_SECOND);
        let after = u128::from(self.taken) * u128::from(interval) / u128::from(self.per_second);
        let next = self.since.plus(Micros::new(u64::try_from(after).unwrap_or(u64::MAX)));
        if next.plus(Self::SLACK) < now {
            (self.since, self.taken) = (now, 0);
            return now;
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use load_test::Schedule;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::samples::test;

    const END: Micros = Micros::from_seconds(60);
    const SHARE: MinuteMessages = MinuteMessages { first: 7, step: 10, count: 3 };

    fn micros(milliseconds: u64) -> Micros {
        Micros::new(milliseconds * 1_000)
    }

    fn schedule(per_second: u32) -> Paced {
        match test(json!({"producers": {"ratePerSec": per_second}})).schedule() {
            Some(Schedule::Paced(schedule)) => schedule,
            other => panic!("{other:?}"),
        }
    }

    /// Puts all messages that are due up to `now`, and returns their sequence numbers.
    fn put(messages: &mut Messages, now: Micros) -> Vec<u64> {
        let mut put = Vec::new();
        while let Next::Put(message) = messages.next(now) {
            if message.due > now {
                break;
            }
            messages.was_put();
            put.push(message.sequence);
        }
        put
    }

    #[test]
    fn messages_come_in_their_order_each_when_it_is_due() {
        let schedule = schedule(2);
        let share = schedule.share(0, Micros::ZERO, END);
        let mut messages = Messages::paced(schedule, share, END);
        assert_eq!(messages.next_due(), Some(Micros::ZERO));
        assert_eq!(put(&mut messages, Micros::ZERO), [0]);
        assert_eq!(messages.next_due(), Some(micros(500)));
        assert_eq!(messages.next(micros(100)), Next::Put(Message { sequence: 1, due: micros(500) }));
        assert_eq!(put(&mut messages, micros(1_700)), [1, 2, 3]);
        assert_eq!(put(&mut messages, END).len(), 116);
        assert_eq!((messages.next(END), messages.next_due()), (Next::End, None));
        assert_eq!(messages.put_count(), 120);
    }

    #[test]
    fn what_is_late_is_put_for_a_while_after_the_window_and_then_given_up() {
        let schedule = schedule(1);
        let share = schedule.share(0, Micros::ZERO, END);
        let mut messages = Messages::paced(schedule, share, END);
        assert_eq!(put(&mut messages, micros(3_000)), [0, 1, 2, 3]);
        assert!(matches!(messages.next(END.plus(micros(9_999))), Next::Put(Message { sequence: 4, .. })));
        assert_eq!(messages.next(END.plus(Messages::OVERTIME)), Next::End);
        assert_eq!(messages.put_count(), 4);
    }

    #[test]
    fn without_a_rate_a_message_is_due_when_it_is_in_hand() {
        let mut messages = Messages::unthrottled(SHARE, 3, true, END);
        let first = Message { sequence: 7, due: micros(10) };
        assert_eq!(messages.next(micros(10)), Next::Put(first));
        assert_eq!(messages.next(micros(50)), Next::Put(first), "it waits for room");
        messages.was_put();
        assert_eq!(messages.next(micros(50)), Next::Put(Message { sequence: 17, due: micros(50) }));
        assert_eq!(messages.next_due(), None);
        assert_eq!(messages.next(END), Next::End, "without overtime");
    }

    #[test]
    fn a_quota_that_is_not_known_is_awaited_and_one_that_is_ends_the_work() {
        let mut messages = Messages::unthrottled(SHARE, 1, false, END);
        assert_eq!(put(&mut messages, micros(1)), [7]);
        assert_eq!(messages.next(micros(2)), Next::AwaitQuota);
        messages.allow(2);
        assert_eq!(put(&mut messages, micros(3)), [17]);
        assert_eq!((messages.next(micros(4)), messages.is_certain()), (Next::End, true));
        messages.allow(0);
        assert_eq!(messages.next(micros(5)), Next::End, "the window before sent more than was thought");
    }

    #[test]
    fn a_message_that_fell_due_while_the_broker_held_the_producer_back_is_late_for_that_reason() {
        let mut held_back = HeldBack::default();
        assert_eq!(held_back.late_reason(Micros::ZERO), LateReason::Producer);
        held_back.until(micros(500));
        held_back.until(micros(400));
        assert_eq!(held_back.late_reason(micros(499)), LateReason::Broker);
        assert_eq!(held_back.late_reason(micros(500)), LateReason::Producer);
    }

    proptest! {
        #[test]
        fn consumers_together_take_the_rate(per_second in 1_u32..10_000, consumers in 1_u32..20) {
            let mut pace = Pace::new(per_second, consumers, micros(5));
            let mut now = micros(5);
            let seconds = 10 * u64::from(consumers);
            let mut taken = 0;
            while now < micros(5).plus(Micros::from_seconds(seconds)) {
                taken += 1;
                // A timer is late by up to a millisecond.
                now = now.max(pace.next(now).plus(Micros::new(taken % 1_000)));
            }
            let expected = 10 * u64::from(per_second);
            prop_assert!(taken.abs_diff(expected) <= 1 + expected / 1_000, "{taken} for {expected}");
        }
    }

    #[test]
    fn a_consumer_that_had_nothing_to_take_does_not_make_up_for_it() {
        let mut pace = Pace::new(10, 1, Micros::ZERO);
        assert_eq!(pace.next(Micros::ZERO), micros(100));
        assert_eq!(pace.next(micros(5_000)), micros(5_000));
        assert_eq!(pace.next(micros(5_000)), micros(5_100));
        assert_eq!(pace.next(micros(5_150)), micros(5_200));
    }
}
