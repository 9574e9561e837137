//! Progress of resumable work: the units (for example messages) that are done, may be done, or may
//! have been done twice.

use serde::{Deserialize, Serialize};

/// Progress of a request whose work consists of ordered units, such as the messages to put. The
/// idempotency record stores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Number of units (for example messages), counted from the first, that are known to be done.
    pub done: u64,
    /// Maximum number of units after the first `done` that may have been done. If it is unknown, as
    /// after a crash, the value is `u64::MAX / 2` or more, and [`Tally::of`] decodes it.
    pub in_doubt: u64,
    /// Maximum number of units that may have been done more than once. If it is unknown, the value
    /// is `u64::MAX / 2` or more, and [`Tally::of`] decodes it.
    pub repeated: u64,
}

/// Number of units of work (for example messages), decoded from a [`Progress`]. It is incomplete if
/// an attempt ended without a report, for example by a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Number of units that attempts reported. The real number may be higher if `is_complete` is
    /// false.
    pub counted: u64,
    /// False if there may be further units that no attempt counted.
    pub is_complete: bool,
}

impl Tally {
    /// Offset that marks a number of units as incomplete: it is added to the counted units if an
    /// unknown number of further units was not counted. An attempt that ends without a report has
    /// `u64::MAX` units in doubt.
    const UNCOUNTED: u64 = u64::MAX / 2;

    /// Decodes the `in_doubt` or `repeated` number of a [`Progress`].
    #[must_use]
    pub fn of(number: u64) -> Self {
        let on_top = number.checked_sub(Self::UNCOUNTED);
        let counted =
            on_top.map_or(number, |counted| if counted < Self::UNCOUNTED / 2 { counted } else { 0 });
        Self { counted, is_complete: on_top.is_none() }
    }

    fn and(self, number: u64) -> Self {
        let Self { counted, is_complete } = Self::of(number);
        Self { counted: self.counted.saturating_add(counted), is_complete: self.is_complete && is_complete }
    }

    const fn number(self) -> u64 {
        let uncounted = if self.is_complete { 0 } else { Self::UNCOUNTED };
        self.counted.saturating_add(uncounted)
    }
}

impl Progress {
    /// Returns the number of units that are in doubt or possibly repeated.
    #[must_use]
    pub fn in_doubt_or_repeated(self) -> Tally {
        Tally::of(self.in_doubt).and(self.repeated)
    }

    /// Returns the progress after an attempt did the first `done` units, and may have done
    /// `in_doubt` units after them. Units that were in doubt before and are done now count as
    /// possibly repeated.
    #[must_use]
    pub fn advanced(self, done: u64, in_doubt: u64) -> Self {
        let newly_done = done.saturating_sub(self.done);
        Self {
            done: self.done.max(done),
            in_doubt: self.in_doubt.saturating_sub(newly_done).saturating_add(in_doubt),
            repeated: self.repeated.saturating_add(self.in_doubt.min(newly_done)),
        }
    }

    /// Returns the progress after an attempt searched for the `count` units of the request and
    /// found the first `done` of them done, each exactly once.
    #[must_use]
    pub fn found(self, done: u64, count: u64) -> Self {
        let done = done.max(self.done);
        Self {
            done,
            in_doubt: self.in_doubt.saturating_sub(done - self.done),
            repeated: self.repeated.min(count.saturating_sub(done)),
        }
    }

    /// Returns the progress with `count` more possibly repeated units.
    #[must_use]
    pub const fn repeating(self, count: u64) -> Self {
        Self { repeated: self.repeated.saturating_add(count), ..self }
    }

    /// Returns the progress of an attempt that does all units again: those that were done or in
    /// doubt count as possibly repeated.
    #[must_use]
    pub(crate) fn begun_again(self) -> Self {
        Self { done: 0, in_doubt: 0, repeated: self.in_doubt_or_repeated().and(self.done).number() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_in_doubt_and_is_done_now_may_be_there_twice() {
        let before = Progress { done: 10, in_doubt: 5, repeated: 2 };
        assert_eq!(before.advanced(13, 0), Progress { done: 13, in_doubt: 2, repeated: 5 });
        assert_eq!(before.advanced(100, 3), Progress { done: 100, in_doubt: 3, repeated: 7 });
        assert_eq!(before.advanced(10, 0), before);
    }

    #[test]
    fn what_was_in_doubt_and_is_found_is_there_once() {
        let before = Progress { done: 10, in_doubt: 5, repeated: 0 };
        assert_eq!(before.found(13, 20), Progress { done: 13, in_doubt: 2, repeated: 0 });
        assert_eq!(before.found(10, 20), before);
        assert_eq!(before.found(9, 20), before);
        // Units that are done now were in doubt as well.
        assert_eq!(before.found(13, 20).advanced(20, 0), Progress { done: 20, in_doubt: 0, repeated: 2 });
        // After an attempt whose place was not noted.
        let begun_again = Progress { in_doubt: u64::MAX, ..Progress::default() }.begun_again();
        assert_eq!(begun_again.found(13, 20), Progress { done: 13, in_doubt: 0, repeated: 7 });
    }

    #[test]
    fn what_is_counted_beside_what_nobody_counted_is_not_lost() {
        let uncounted = |counted| Tally { counted, is_complete: false };
        // Progress of an earlier version, of an attempt that ended without a report, and of one
        // that was moved once more.
        for begun in [
            Progress { repeated: u64::MAX, ..Progress::default() },
            Progress { in_doubt: u64::MAX, ..Progress::default() },
            Progress { in_doubt: u64::MAX - 90, ..Progress::default() }.begun_again(),
        ] {
            let again = begun.begun_again();
            assert_eq!(again.in_doubt_or_repeated(), uncounted(0), "{begun:?}");
            let failed = again.repeating(2).advanced(5, 1);
            assert_eq!(failed.in_doubt_or_repeated(), uncounted(3));
            assert_eq!(failed.begun_again().in_doubt_or_repeated(), uncounted(8));
        }
        let counted = Progress { done: 4, in_doubt: 3, repeated: 2 };
        assert_eq!(counted.in_doubt_or_repeated(), Tally { counted: 5, is_complete: true });
        assert_eq!(counted.begun_again(), Progress { done: 0, in_doubt: 0, repeated: 9 });
    }

    #[test]
    fn after_an_end_without_a_word_everything_is_in_doubt() {
        let before = Progress { done: 10, in_doubt: u64::MAX, repeated: 0 };
        assert_eq!(before.advanced(100, 0), Progress { done: 100, in_doubt: u64::MAX - 90, repeated: 90 });
    }
}
