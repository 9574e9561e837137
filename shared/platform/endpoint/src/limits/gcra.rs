//! Arithmetic of rate limits' buckets, and the conditional writes that take units (for example
//! requests) from a bucket.
//!
//! The generic cell rate algorithm keeps one number: the time at which the bucket will be full
//! again, the theoretical arrival time (`tat`), in nanoseconds since 1970. A unit takes `1 / rate`
//! seconds of the bucket; the bucket holds `burst / rate` seconds. A write may take `n` units if
//! `tat + n / rate` is at most `now + burst / rate`.
//!
//! DynamoDB has no maximum of two numbers, so a write has two [forms](Form). For a bucket that is
//! not full, it adds to `tat`. For a full bucket, it sets `tat`, beginning at `now`.

use access::Rate;

/// Number of nanoseconds in a second.
pub(crate) const SECOND: i64 = 1_000_000_000;
/// Length in nanoseconds of the windows in which environments are counted. After the same time, an
/// environment exchanges the unused units that it took from a bucket for new ones.
pub(crate) const WINDOW: i64 = 10 * SECOND;
/// Maximum time in nanoseconds by which a debt (cost beyond the available units) may delay a
/// bucket, in addition to the time in which the bucket fills.
const LONGEST_DEBT: i64 = 3_600 * SECOND;
/// Maximum difference in nanoseconds between the clocks of two execution environments.
const SKEW: i64 = 60 * SECOND;
/// Seconds for which the item of a bucket is kept after the bucket is full again.
const KEPT: i64 = 86_400;
/// Fraction of the units that a limit admits in ten seconds (its burst, and ten seconds of its
/// rate). All environments together may hold this fraction unused.
const HELD: f64 = 0.1;
/// Maximum number of chunks that an environment holds unused. A chunk is the number of units that
/// it takes from the bucket at once; it takes a new chunk when half of one is left.
const CHUNKS_HELD: f64 = 1.5;
/// Maximum time in nanoseconds in which a bucket regains the units of a cost: some 32 years, so
/// that sums of times do not overflow.
const LONGEST: f64 = 1e18;

/// Rate and burst of a rate limit's bucket, with the arithmetic of the generic cell rate algorithm
/// (GCRA).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace(pub(crate) Rate);

/// Conditional write to a bucket's item that takes units (for example requests) from the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) now: i64,
    /// Maximum `tat` (time at which the bucket is full again) of a valid bucket. A bucket with a
    /// later `tat` is damaged, and counts as full.
    pub(crate) latest: i64,
    pub(crate) form: Form,
    /// Number of the ten-second window that contains `now`.
    pub(crate) window: i64,
    /// True if the item was last written in an earlier ten-second window, so that this write starts
    /// a new one.
    pub(crate) starts_window: bool,
    pub(crate) environment: u8,
}

/// Form of the write, which depends on whether the bucket is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The bucket is not full. The write adds `change` nanoseconds to the item's `tat` (time at
    /// which the bucket is full again), on condition that `tat` is between `now` and `ceiling`.
    Running { change: i64, ceiling: i64 },
    /// The bucket is full: the item's `tat` (time at which it is full again) is before `now`,
    /// absent or damaged. The write replaces it by this `tat`, in nanoseconds since 1970.
    Full { tat: i64 },
}

impl Write {
    /// Returns the number of the last ten-second window in which another environment's clock can
    /// be. An item with a later window is damaged.
    pub(crate) const fn last_window(&self) -> i64 {
        self.window + SKEW / WINDOW
    }

    /// Returns the time, in seconds since 1970, from which on DynamoDB may delete the item, because
    /// the bucket is full.
    pub(crate) const fn expires_at(&self) -> i64 {
        self.latest / SECOND + KEPT
    }
}

impl Pace {
    /// Returns the time in nanoseconds, rounded up, that the bucket needs to regain these units.
    pub(crate) fn cost(self, units: i64) -> i64 {
        whole((approximate(units) * (approximate(SECOND) / self.0.per_second)).ceil())
    }

    /// Returns the time in nanoseconds that an empty bucket needs to fill.
    pub(crate) fn capacity(self) -> i64 {
        self.cost(self.burst())
    }

    pub(crate) fn burst(self) -> i64 {
        i64::try_from(self.0.burst).unwrap_or(i64::MAX)
    }

    /// Returns the maximum number of units that the bucket regains in `time` nanoseconds; 0 if
    /// `time` is not positive.
    pub(crate) fn units(self, time: i64) -> i64 {
        let about = whole(approximate(time.max(0)) * self.0.per_second / approximate(SECOND));
        // The division may have lost a unit, or won one.
        let most = [about + 1, about, about - 1].into_iter().find(|units| self.cost(*units) <= time);
        most.unwrap_or_default().max(0)
    }

    /// Returns the number of units left at `now` in a bucket that is full again at `tat`. Both are
    /// in nanoseconds since 1970.
    pub(crate) fn left(self, tat: i64, now: i64) -> i64 {
        let start = if tat > self.latest(now) { now } else { tat.max(now) };
        self.units(now + self.capacity() - start)
    }

    /// Returns the maximum `tat` (time at which the bucket is full again) that a valid bucket can
    /// have at `now`. Both are in nanoseconds since 1970.
    pub(crate) fn latest(self, now: i64) -> i64 {
        now + self.capacity() + 2 * self.longest_debt() + SKEW
    }

    /// Returns the maximum time in nanoseconds that one debt (cost beyond the available units) may
    /// delay the bucket. No further debt is charged to a bucket that is delayed for longer.
    pub(crate) fn longest_debt(self) -> i64 {
        self.capacity() + LONGEST_DEBT
    }

    /// Returns the number of units (at least 1) that an environment takes at once, if
    /// `environments` use the bucket. All of them together then hold at most a tenth of the units
    /// that the limit admits in ten seconds.
    pub(crate) fn chunk(self, environments: f64) -> i64 {
        let window = approximate(WINDOW / SECOND);
        let admitted = approximate(self.burst()) + window * self.0.per_second;
        whole((HELD * admitted / (CHUNKS_HELD * environments.max(1.0))).floor()).max(1)
    }

    /// Returns the time in nanoseconds in which the bucket regains `units` for each of the
    /// environments.
    pub(crate) fn time_to_regain(self, units: i64, environments: f64) -> i64 {
        whole(approximate(self.cost(units)) * environments.max(1.0))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a millionth of a unit does not matter")]
const fn approximate(number: i64) -> f64 {
    number as f64
}

#[expect(clippy::cast_possible_truncation, reason = "the number is bounded")]
const fn whole(number: f64) -> i64 {
    number.min(LONGEST) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(per_second: f64, burst: u64) -> Pace {
        Pace(Rate::new(per_second, Some(burst)).unwrap())
    }

    #[test]
    fn units_and_their_time_are_each_other_s_inverse() {
        for (per_second, burst) in
            [(100.0, 200), (0.5, 1), (3.0, 7), (1e9, 1_000_000_000), (0.001, 3), (7e8, 9)]
        {
            let pace = pace(per_second, burst);
            for units in [0, 1, 2, 3, 10, 99, 1_000, 12_345, 1_000_000] {
                let cost = pace.cost(units);
                let found = pace.units(cost);
                // Two costs of a fast rate may be the same nanosecond.
                assert!(found >= units && pace.cost(found) <= cost, "{per_second}: {units} and {found}");
            }
            assert_eq!(pace.units(-1), 0);
        }
        assert_eq!(pace(100.0, 200).capacity(), 2 * SECOND);
        assert_eq!(pace(0.001, 3).cost(i64::MAX), 1_000_000_000_000_000_000, "no sum overflows");
    }

    #[test]
    fn a_chunk_is_so_small_that_all_shares_are_a_tenth_of_a_window() {
        let chunks = |pace: Pace| [1.0, 5.0, 50.0, 1_000.0].map(|environments| pace.chunk(environments));
        assert_eq!(chunks(pace(100.0, 100)), [73, 14, 1, 1]);
        assert_eq!(chunks(pace(1.0, 1)), [1, 1, 1, 1]);
        assert_eq!(chunks(pace(1e6, 1_000_000)), [733_333, 146_666, 14_666, 733]);
    }
}
