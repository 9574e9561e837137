//! Arithmetic of buckets, and the conditional writes that draw from one.
//!
//! The generic cell rate algorithm keeps one number: the time at which the bucket will be full
//! again, the theoretical arrival time (`tat`), in nanoseconds since 1970. A unit takes `1 / rate`
//! seconds of the bucket; the bucket holds `burst / rate` seconds. A draw of `n` units is allowed
//! if `tat + n / rate` is at most `now + burst / rate`.
//!
//! DynamoDB has no maximum of two numbers, so a draw has two [forms](Form): one for a bucket from
//! which something is drawn, which adds to `tat`, and one for a full bucket, which begins at `now`.

use access::Rate;

/// Nanoseconds in a second.
pub(crate) const SECOND: i64 = 1_000_000_000;
/// Length of the windows in which environments are counted, and time for which a chunk is valid.
pub(crate) const WINDOW: i64 = 10 * SECOND;
/// Time that a debt may add to a bucket beyond the time in which it fills.
const LONGEST_DEBT: i64 = 3_600 * SECOND;
/// Maximum difference between the clocks of two environments.
const SKEW: i64 = 60 * SECOND;
/// Seconds for which a bucket's item is kept after the bucket is full.
const KEPT: i64 = 86_400;
/// Part of what a window admits that all shares may hold together.
const HELD: f64 = 0.1;
/// Maximum number of chunks that an environment holds: it renews its share at half a chunk.
const CHUNKS_HELD: f64 = 1.5;
/// Maximum time that a cost may take, in nanoseconds, so that sums of times fit: some 32 years.
const LONGEST: f64 = 1e18;

/// Rate and burst of a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace(pub(crate) Rate);

/// Draw from a bucket: a write with a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) now: i64,
    /// Latest `tat` that a bucket can have. A later one is damage, and counts as a full bucket.
    pub(crate) latest: i64,
    pub(crate) form: Form,
    /// Number of the window that `now` is in.
    pub(crate) window: i64,
    /// True if the item's window is over, so that this write begins the next one.
    pub(crate) turns: bool,
    pub(crate) environment: u8,
}

/// Form of a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A bucket from which something is drawn: `tat` is between `now` and `ceiling`, and `change`
    /// is added to it.
    Running { change: i64, ceiling: i64 },
    /// A full bucket: `tat` is before `now`, or absent, or damage. It becomes this time.
    Full { tat: i64 },
}

impl Write {
    /// Last window that a clock can be in which differs from this one's. A later one is damage.
    pub(crate) const fn last_window(&self) -> i64 {
        self.window + SKEW / WINDOW
    }

    /// Returns the time, in seconds since 1970, from which on the item may be removed: the bucket
    /// is full.
    pub(crate) const fn expires_at(&self) -> i64 {
        self.latest / SECOND + KEPT
    }
}

impl Pace {
    /// Returns the time that units take of the bucket. A fraction of a nanosecond counts as one.
    pub(crate) fn cost(self, units: i64) -> i64 {
        whole((approximate(units) * (approximate(SECOND) / self.0.per_second)).ceil())
    }

    /// Returns the time that an empty bucket takes to fill.
    pub(crate) fn capacity(self) -> i64 {
        self.cost(self.burst())
    }

    pub(crate) fn burst(self) -> i64 {
        i64::try_from(self.0.burst).unwrap_or(i64::MAX)
    }

    /// Returns the most units that take at most this time of the bucket; 0 if the time is over.
    pub(crate) fn units(self, time: i64) -> i64 {
        let about = whole(approximate(time.max(0)) * self.0.per_second / approximate(SECOND));
        // The division may have lost a unit, or won one.
        let most = [about + 1, about, about - 1].into_iter().find(|units| self.cost(*units) <= time);
        most.unwrap_or_default().max(0)
    }

    /// Returns the units that are left in a bucket with this `tat`.
    pub(crate) fn left(self, tat: i64, now: i64) -> i64 {
        let start = if tat > self.latest(now) { now } else { tat.max(now) };
        self.units(now + self.capacity() - start)
    }

    /// Returns the latest `tat` that the bucket can have at `now`.
    pub(crate) fn latest(self, now: i64) -> i64 {
        now + self.capacity() + 2 * self.longest_debt() + SKEW
    }

    /// Returns the longest time that one debt adds to a bucket. No debt is added to a bucket that
    /// is blocked for longer.
    pub(crate) fn longest_debt(self) -> i64 {
        self.capacity() + LONGEST_DEBT
    }

    /// Returns the units of a chunk if so many environments draw from the bucket: all of them hold
    /// at most a tenth of what a window admits.
    pub(crate) fn chunk(self, environments: f64) -> i64 {
        let window = approximate(WINDOW / SECOND);
        let admitted = approximate(self.burst()) + window * self.0.per_second;
        whole((HELD * admitted / (CHUNKS_HELD * environments.max(1.0))).floor()).max(1)
    }

    /// Returns the time in which the rate brings `units` to each of the environments.
    pub(crate) fn turn(self, units: i64, environments: f64) -> i64 {
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
