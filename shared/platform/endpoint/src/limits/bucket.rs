//! DynamoDB item of a rate limit's bucket, and the estimate of how many execution environments take
//! units (for example requests) from it.

use std::collections::BTreeSet;

/// Number of values of the random byte by which an execution environment identifies itself in a
/// bucket. The environments of a bucket are counted by these bytes.
const ENVIRONMENT_IDS: f64 = 256.0;

/// Bucket of a rate limit: its DynamoDB item after the last write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// Time at which the bucket will be full again (theoretical arrival time), in nanoseconds since
    /// 1970.
    pub(crate) tat: i64,
    /// Number of the ten-second window (since 1970) in which the bucket was last written.
    pub(crate) window: i64,
    /// Random numbers (0 to 255) of the execution environments that took units (for example
    /// requests) from the bucket in `window`.
    pub(crate) seen: BTreeSet<u8>,
    /// Number of the last ten-second window before `window` in which an execution environment took
    /// units from the bucket.
    pub(crate) last_window: i64,
    /// Random numbers (0 to 255) of the execution environments that took units from the bucket in
    /// `last_window`.
    pub(crate) last_seen: BTreeSet<u8>,
}

impl Bucket {
    /// Estimates how many environments take units from the bucket in the ten-second window with the
    /// number `now` and the window before. `reader`, the random number of this environment, is
    /// included. By linear counting, `m` environments have about `256 * (1 - exp(-m / 256))`
    /// different random numbers.
    pub(crate) fn environments(&self, now: i64, reader: u8) -> f64 {
        let mut ids = BTreeSet::from([reader]);
        for (window, seen) in [(self.window, &self.seen), (self.last_window, &self.last_seen)] {
            if window >= now - 1 {
                ids.extend(seen);
            }
        }
        let taken = u16::try_from(ids.len()).map_or(ENVIRONMENT_IDS, f64::from);
        // All ids are taken by some 1,500 environments, or by any higher number.
        -ENVIRONMENT_IDS * (1.0 - taken.min(ENVIRONMENT_IDS - 0.5) / ENVIRONMENT_IDS).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(seen: impl IntoIterator<Item = u8>, last_seen: impl IntoIterator<Item = u8>) -> Bucket {
        Bucket {
            tat: 0,
            window: 10,
            seen: seen.into_iter().collect(),
            last_window: 9,
            last_seen: last_seen.into_iter().collect(),
        }
    }

    #[test]
    fn environments_are_counted_by_their_places() {
        let alone = bucket([7], []);
        assert!((alone.environments(10, 7) - 1.0).abs() < 0.01);
        assert!((alone.environments(10, 8) - 2.0).abs() < 0.02, "the reader is one, too");
        let mut random = fastrand::Rng::with_seed(1);
        for environments in [5_u16, 50, 200, 500] {
            let count = |random: &mut fastrand::Rng| {
                bucket((0..environments).map(|_| random.u8(..)), []).environments(10, random.u8(..))
            };
            let mean = (0..40).map(|_| count(&mut random)).sum::<f64>() / 40.0;
            let error = (mean / f64::from(environments + 1) - 1.0).abs();
            assert!(error < 0.05, "{environments}: {mean}");
        }
        assert!(bucket(0..=255, []).environments(10, 0) > 1_000.0);
    }

    #[test]
    fn an_environment_counts_in_its_window_and_the_next() {
        let two = bucket([1, 2], [3, 4, 5]);
        let count = |now: i64| two.environments(now, 1).round();
        assert_eq!([10, 11, 12].map(count), [5.0, 2.0, 1.0]);
    }
}
