//! Progress of resumable work.

use serde::{Deserialize, Serialize};

/// Counts of units of work in order, such as the messages of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Number of units, from the first, that are known to be done.
    pub done: u64,
    /// Maximum number of units after the done ones that may have been done as well.
    pub in_doubt: u64,
    /// Maximum number of the done units that may have been done more than once.
    pub repeated: u64,
}

/// A count of units, and whether there may be others that were not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Number of units whose outcome was counted.
    pub counted: u64,
    /// True if all units were counted.
    pub is_whole: bool,
}

impl Tally {
    /// Number that stands for units that were not counted. Counted units beside them are added to
    /// it; an attempt that ends without a report has `u64::MAX` in doubt.
    const UNCOUNTED: u64 = u64::MAX / 2;

    /// Reads a number of a [`Progress`].
    #[must_use]
    pub fn of(number: u64) -> Self {
        let on_top = number.checked_sub(Self::UNCOUNTED);
        let counted =
            on_top.map_or(number, |counted| if counted < Self::UNCOUNTED / 2 { counted } else { 0 });
        Self { counted, is_whole: on_top.is_none() }
    }

    fn and(self, number: u64) -> Self {
        let Self { counted, is_whole } = Self::of(number);
        Self { counted: self.counted.saturating_add(counted), is_whole: self.is_whole && is_whole }
    }

    const fn number(self) -> u64 {
        let uncounted = if self.is_whole { 0 } else { Self::UNCOUNTED };
        self.counted.saturating_add(uncounted)
    }
}

impl Progress {
    /// Returns the units that are in doubt, or may have been done more than once.
    #[must_use]
    pub fn in_doubt_or_repeated(self) -> Tally {
        Tally::of(self.in_doubt).and(self.repeated)
    }

    /// Returns the progress of an attempt that began here once the first `done` units are done and
    /// `in_doubt` of the others may be. Units that were in doubt before and are done now may have
    /// been done twice.
    #[must_use]
    pub fn advanced(self, done: u64, in_doubt: u64) -> Self {
        let newly_done = done.saturating_sub(self.done);
        Self {
            done: self.done.max(done),
            in_doubt: self.in_doubt.saturating_sub(newly_done).saturating_add(in_doubt),
            repeated: self.repeated.saturating_add(self.in_doubt.min(newly_done)),
        }
    }

    /// Returns the progress with which an attempt begins if the first `done` of `count` units
    /// turned out to be done, each of them once.
    #[must_use]
    pub fn found(self, done: u64, count: u64) -> Self {
        let done = done.max(self.done);
        Self {
            done,
            in_doubt: self.in_doubt.saturating_sub(done - self.done),
            repeated: self.repeated.min(count.saturating_sub(done)),
        }
    }

    /// Returns this progress, where `count` more of the units that are done may be done twice by
    /// then.
    #[must_use]
    pub const fn repeating(self, count: u64) -> Self {
        Self { repeated: self.repeated.saturating_add(count), ..self }
    }

    /// Returns the progress with which an attempt does all units once more: all that were done or
    /// in doubt may be done twice by then.
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
        let uncounted = |counted| Tally { counted, is_whole: false };
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
        assert_eq!(counted.in_doubt_or_repeated(), Tally { counted: 5, is_whole: true });
        assert_eq!(counted.begun_again(), Progress { done: 0, in_doubt: 0, repeated: 9 });
    }

    #[test]
    fn after_an_end_without_a_word_everything_is_in_doubt() {
        let before = Progress { done: 10, in_doubt: u64::MAX, repeated: 0 };
        assert_eq!(before.advanced(100, 0), Progress { done: 100, in_doubt: u64::MAX - 90, repeated: 90 });
    }
}
