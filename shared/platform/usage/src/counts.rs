//! Usage counters, and the usage lines and totals that consist of them.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

/// Usage counters: for one API key and operation in a day or an hour, or for one operation on one
/// target since the installation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Counts {
    /// Number of requests of which at least one attempt has ended, whether or not it succeeded.
    pub requests: u64,
    /// Number of requests whose latest attempt failed.
    pub failed: u64,
    /// Number of messages that the requests put, got or moved.
    pub messages: u64,
    /// Bytes of the bodies of messages that the requests put or got. Moved messages add none.
    pub bytes: u64,
    /// Number of requests that were answered with a stored response. Approximate, because audit
    /// events, from which it is counted, may be lost or repeated.
    pub replays: u64,
    /// Number of responses with a status from 400 to 499. Approximate, because audit events, from
    /// which it is counted, may be lost or repeated.
    pub refused: u64,
    /// Number of load tests that ended, by their final state.
    #[serde(skip)]
    pub tests: EndedTests,
}

/// Numbers of load tests that ended, by their final state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndedTests {
    /// Number of load tests that reached their end, whether they passed or not.
    pub completed: u64,
    /// Number of load tests that were stopped.
    pub stopped: u64,
    /// Number of load tests that ended because of an error.
    pub failed: u64,
}

/// Number of counters in [`Counts`], with those of [`EndedTests`].
pub(crate) const COUNTERS: usize = 9;

impl Counts {
    /// Names of the counters in the DynamoDB items of the usage table.
    pub(crate) const NAMES: [&str; COUNTERS] = [
        "requests",
        "failed",
        "messages",
        "bytes",
        "replays",
        "refused",
        "testsCompleted",
        "testsStopped",
        "testsFailed",
    ];

    /// Returns the values of the counters, in the order of [`Self::NAMES`].
    pub(crate) const fn values(&self) -> [u64; COUNTERS] {
        let Self { requests, failed, messages, bytes, replays, refused, tests } = *self;
        let EndedTests { completed, stopped, failed: broken } = tests;
        [requests, failed, messages, bytes, replays, refused, completed, stopped, broken]
    }

    /// Creates counters from values in the order of [`Self::NAMES`].
    pub(crate) const fn of(values: [u64; COUNTERS]) -> Self {
        let [requests, failed, messages, bytes, replays, refused, completed, stopped, broken] = values;
        let tests = EndedTests { completed, stopped, failed: broken };
        Self { requests, failed, messages, bytes, replays, refused, tests }
    }

    /// True if every counter is 0.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the counters of `other` to these.
    pub fn add(&mut self, other: &Self) {
        *self = self.merge(other, u64::saturating_add);
    }

    /// Returns, for each counter, the amount by which it exceeds the same counter of `other`, or 0.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> Self {
        self.merge(other, u64::saturating_sub)
    }

    fn merge(&self, other: &Self, with: impl Fn(u64, u64) -> u64) -> Self {
        let mut values = self.values();
        for (own, other) in values.iter_mut().zip(other.values()) {
            *own = with(*own, other);
        }
        Self::of(values)
    }
}

/// Usage line: the counters of a tenant's API key for one operation, for a day or an hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Tenant whose requests are counted.
    pub tenant: String,
    /// Day (UTC) of the counters; for counters of an hour, the day of this hour.
    pub day: Date,
    /// Name of the operation in lower case, such as `produce`.
    pub operation: String,
    /// Name of the API key or token; empty for requests without one.
    pub key_name: String,
    /// Usage counters of the tenant's API key for the operation.
    pub counts: Counts,
}

/// Total usage counters of one operation on one target since the installation. They never decrease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Total {
    /// Name of the operation in lower case, such as `produce`.
    pub operation: String,
    /// Queue as `<queueManager>:<queue>`; empty if the operation has none, and `other` for all
    /// targets beyond the first 500.
    pub target: String,
    /// Usage counters of the operation on the target.
    pub counts: Counts,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_added_and_compared_each_for_itself() {
        let mut counts = Counts::of([1, 2, 3, 4, 5, 6, 7, 8, 9]);
        counts.add(&Counts::of([10, 0, 10, 0, 10, 0, 10, 0, 10]));
        assert_eq!(counts, Counts::of([11, 2, 13, 4, 15, 6, 17, 8, 19]));
        assert_eq!(counts.values(), [11, 2, 13, 4, 15, 6, 17, 8, 19]);
        let beyond = counts.beyond(&Counts::of([12, 1, 13, 0, 0, 0, 0, 0, 18]));
        assert_eq!(beyond, Counts::of([0, 1, 0, 4, 15, 6, 17, 8, 1]));
        assert!(Counts::default().is_zero() && !beyond.is_zero());
    }
}
