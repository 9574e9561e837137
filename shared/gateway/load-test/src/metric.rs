//! Metrics: the figures of a load test's report that pass criteria and comparisons refer to.

use std::fmt;

use serde::{Serialize, Serializer};

/// Percentile of a latency in a load test's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each variant is named after its percentile")]
pub enum Percentile {
    P50,
    P75,
    P90,
    P95,
    P99,
    P99_9,
    Max,
}

impl Percentile {
    /// All percentiles, in ascending order.
    pub const ALL: [Self; 7] =
        [Self::P50, Self::P75, Self::P90, Self::P95, Self::P99, Self::P99_9, Self::Max];

    /// Returns the percentile's name in requests and reports, such as `p99_9`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name_and_quantile().0
    }

    /// Returns the percentile as a fraction from 0 to 1, such as 0.99.
    #[must_use]
    pub const fn quantile(self) -> f64 {
        self.name_and_quantile().1
    }

    const fn name_and_quantile(self) -> (&'static str, f64) {
        match self {
            Self::P50 => ("p50", 0.5),
            Self::P75 => ("p75", 0.75),
            Self::P90 => ("p90", 0.9),
            Self::P95 => ("p95", 0.95),
            Self::P99 => ("p99", 0.99),
            Self::P99_9 => ("p99_9", 0.999),
            Self::Max => ("max", 1.0),
        }
    }
}

/// Figure of a load test's report to which a pass criterion or a comparison refers. Its text is the
/// path to the report's member, such as `putLatencyUs.p99`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Throughput: messages received a second, or messages confirmed a second if the test has no
    /// consumers.
    Throughput,
    /// Put latency at a percentile, in microseconds: time from when a message was due until the
    /// broker confirmed it.
    PutLatency(Percentile),
    /// End-to-end latency at a percentile, in microseconds: time from when a message was due until
    /// a consumer received it.
    EndToEndLatency(Percentile),
    /// Lateness at a percentile, in microseconds: time from when a message was due until its
    /// producer sent it.
    Lateness(Percentile),
    /// Number of messages that the broker confirmed and that no consumer received although the
    /// queues are empty.
    Lost,
    /// Number of messages that were received more than once.
    Doubled,
    /// Number of messages that were sent, but neither confirmed, nor refused, nor received.
    InDoubt,
    /// Number of messages that the broker refused.
    Refused,
    /// Number of messages that a consumer received after a later message of the same producer.
    OutOfOrder,
    /// Number of messages that were due, but that their producer could not send.
    NotSent,
    /// Maximum number of messages that were on all queues of the test at one time.
    Retained,
}

impl Metric {
    /// Returns all metrics, in the order in which reports list them.
    pub fn all() -> impl Iterator<Item = Self> {
        let of_each = |metric: fn(Percentile) -> Self| Percentile::ALL.into_iter().map(metric);
        let counts = [
            Self::Lost,
            Self::Doubled,
            Self::InDoubt,
            Self::Refused,
            Self::OutOfOrder,
            Self::NotSent,
            Self::Retained,
        ];
        std::iter::once(Self::Throughput)
            .chain(of_each(Self::PutLatency))
            .chain(of_each(Self::EndToEndLatency))
            .chain(of_each(Self::Lateness))
            .chain(counts)
    }

    /// True if a higher value is better, which holds for the throughput alone.
    #[must_use]
    pub const fn is_better_higher(self) -> bool {
        matches!(self, Self::Throughput)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (member, percentile) = match self {
            Self::PutLatency(percentile) => ("putLatencyUs", percentile),
            Self::EndToEndLatency(percentile) => ("endToEndLatencyUs", percentile),
            Self::Lateness(percentile) => ("latenessUs", percentile),
            Self::Throughput => return f.write_str("throughputPerSec"),
            Self::Lost => return f.write_str("lost"),
            Self::Doubled => return f.write_str("doubled"),
            Self::InDoubt => return f.write_str("inDoubt"),
            Self::Refused => return f.write_str("refused"),
            Self::OutOfOrder => return f.write_str("outOfOrder"),
            Self::NotSent => return f.write_str("notSent"),
            Self::Retained => return f.write_str("retained"),
        };
        write!(f, "{member}.{}", percentile.name())
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
