//! End of a consumer that has nothing more to take, although its minute and the test continue.

use load_test::{LoadTest, Micros, StopWhen};

/// Observations of a consumer about its queue, such as the time of the last message. They decide
/// whether the consumer may end.
#[derive(Clone, Copy, Debug)]
pub(super) struct DrainWatch {
    /// True if the consumer ends once its queue is empty and the producers have ended.
    ends_when_empty: bool,
    /// True if the consumer ends once it has received nothing for [`StopWhen::IDLE`] and the
    /// producers have ended.
    ends_when_idle: bool,
    /// Time since the run's start of the last received message, or of the consumer's beginning.
    last: Micros,
    /// True if the queue was empty at the last measurement, and no message was received since.
    is_empty: bool,
    /// Time since the run's start at which the number of messages on the queue was last measured;
    /// `None` before the first measurement.
    looked_at: Option<Micros>,
}

impl DrainWatch {
    /// Time without a received message after which the consumer checks whether its queue is empty.
    const QUIET: Micros = Micros::from_seconds(2);
    /// Interval between two measurements of the queue's depth.
    const BETWEEN_LOOKS: Micros = Micros::new(500_000);

    /// Creates the observations of a consumer that begins at `at`. `test` has the condition on
    /// which the consumer ends.
    pub(super) fn new(test: &LoadTest, at: Micros) -> Self {
        Self {
            ends_when_empty: test
                .stop_when
                .map_or(test.producers.is_some(), |condition| condition == StopWhen::Empty),
            ends_when_idle: test.stop_when == Some(StopWhen::Idle),
            last: at,
            is_empty: false,
            looked_at: None,
        }
    }

    /// Records a message that was received at `at`.
    pub(super) fn received(&mut self, at: Micros) {
        self.last = self.last.max(at);
        self.is_empty = false;
    }

    /// True if the consumer has to measure its queue at `now`. `produced` is true if all producers
    /// have ended.
    pub(super) fn wants_look(&self, now: Micros, produced: bool) -> bool {
        let is_due = self.looked_at.is_none_or(|at| now.since(at) >= Self::BETWEEN_LOOKS);
        produced && self.ends_when_empty && now.since(self.last) >= Self::QUIET && is_due
    }

    /// Records the number of messages on the queue, measured at `at`. After a failed measurement
    /// (`None`), the queue does not count as empty.
    pub(super) fn looked(&mut self, at: Micros, messages: Option<u64>) {
        self.looked_at = Some(at);
        self.is_empty = messages == Some(0);
    }

    /// True if the consumer may end at `now`: its queue is empty, or it has been idle. `produced`
    /// is true if all producers have ended.
    pub(super) fn is_done(&self, now: Micros, produced: bool) -> bool {
        let since = now.since(self.last);
        let is_drained = self.ends_when_empty && self.is_empty && since >= Self::QUIET;
        let is_idle = self.ends_when_idle && since >= StopWhen::IDLE;
        produced && (is_drained || is_idle)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::samples::test;

    fn drain(mut members: Value) -> DrainWatch {
        members["consumers"] = json!({});
        DrainWatch::new(&test(members), at(0))
    }

    const fn at(milliseconds: u64) -> Micros {
        Micros::new(milliseconds * 1_000)
    }

    #[test]
    fn a_queue_is_drained_if_it_is_empty_and_nothing_came_for_a_while_after_the_producers() {
        let mut drain = drain(json!({"producers": {}}));
        drain.received(at(1_000));
        assert!(!drain.wants_look(at(2_900), true), "something came just now");
        assert!(!drain.wants_look(at(3_000), false), "the producers go on");
        assert!(drain.wants_look(at(3_000), true));
        drain.looked(at(3_000), Some(5));
        assert!(!drain.is_done(at(3_000), true));
        assert!(!drain.wants_look(at(3_400), true) && drain.wants_look(at(3_500), true));
        drain.looked(at(3_500), None);
        assert!(!drain.is_done(at(3_500), true), "it could not be seen");
        drain.looked(at(4_000), Some(0));
        assert!(drain.is_done(at(4_000), true) && !drain.is_done(at(4_000), false));
        drain.received(at(4_100));
        assert!(!drain.is_done(at(9_000), true), "it was seen empty before that");
    }

    #[test]
    fn a_consumer_that_may_end_when_it_is_idle_does_not_look() {
        let mut drain = drain(json!({"foreign": "take", "stopWhen": "idle"}));
        drain.received(at(500));
        assert!(!drain.wants_look(at(8_000), true) && !drain.is_done(at(10_400), true));
        assert!(drain.is_done(at(10_500), true));
        let mut beside_producers = self::drain(json!({"producers": {}, "stopWhen": "idle"}));
        beside_producers.looked(at(2_000), Some(0));
        assert!(!beside_producers.wants_look(at(2_000), true) && !beside_producers.is_done(at(2_000), true));
        assert!(beside_producers.is_done(at(10_000), true));
    }

    #[test]
    fn without_producers_and_a_condition_a_consumer_goes_on() {
        let drain = drain(json!({"foreign": "take"}));
        assert!(!drain.wants_look(at(50_000), true) && !drain.is_done(at(50_000), true));
        let empty = self::drain(json!({"foreign": "take", "stopWhen": "empty"}));
        assert!(empty.wants_look(at(2_000), true));
    }
}
