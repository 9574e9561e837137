//! Pass criteria of a load test, from the member `expect` of the request.

use mq::RateLimit;
use serde::{Deserialize, Serialize};

use crate::metric::{Metric, Percentile};

mq::bounded! {
    /// Bound of a pass criterion on a latency, in microseconds: at most two minutes, the longest
    /// latency that the report's histograms distinguish.
    LatencyUs: u64, 1..=120_000_000, default 1;
    /// Maximum number of messages with a certain fate, such as lost or refused, that a pass
    /// criterion allows.
    MostMessages: u64, 0..=1_000_000_000_000, default 0;
}

/// Pass criteria of a load test, each of which gets a verdict in the report. For a member that is
/// `None` there is no criterion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Expect {
    throughput_per_sec: Option<RateLimit>,
    put_latency_us: Option<LatencyBounds>,
    end_to_end_latency_us: Option<LatencyBounds>,
    lost: Option<MostMessages>,
    doubled: Option<MostMessages>,
    in_doubt: Option<MostMessages>,
    refused: Option<MostMessages>,
    out_of_order: Option<MostMessages>,
    not_sent: Option<MostMessages>,
    retained: Option<MostMessages>,
}

/// Pass criteria for the put latency or the end-to-end latency: the maximum at each percentile, in
/// microseconds. For a percentile that is `None` there is no criterion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LatencyBounds {
    p50: Option<LatencyUs>,
    p75: Option<LatencyUs>,
    p90: Option<LatencyUs>,
    p95: Option<LatencyUs>,
    p99: Option<LatencyUs>,
    p99_9: Option<LatencyUs>,
    max: Option<LatencyUs>,
}

/// Pass criterion of a load test. It is met if the throughput is at least the bound, or any other
/// metric at most the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Criterion {
    /// Figure of the report, such as the throughput, that must stay within `bound`.
    pub metric: Metric,
    /// Minimum of the throughput, or maximum of any other metric, in the metric's unit:
    /// microseconds, messages, or messages a second.
    pub bound: u64,
}

impl Expect {
    /// Returns the pass criteria that are set, in the order in which the report lists metrics.
    #[must_use]
    pub fn criteria(&self) -> Vec<Criterion> {
        let throughput = self.throughput_per_sec.map(|rate| u64::from(rate.get()));
        let latencies = [
            (self.put_latency_us, Metric::PutLatency as fn(Percentile) -> Metric),
            (self.end_to_end_latency_us, Metric::EndToEndLatency),
        ];
        let latencies = latencies.into_iter().flat_map(|(bounds, metric)| {
            bounds.unwrap_or_default().bounds().map(move |(percentile, bound)| (metric(percentile), bound))
        });
        let counts = [
            (Metric::Lost, self.lost),
            (Metric::Doubled, self.doubled),
            (Metric::InDoubt, self.in_doubt),
            (Metric::Refused, self.refused),
            (Metric::OutOfOrder, self.out_of_order),
            (Metric::NotSent, self.not_sent),
            (Metric::Retained, self.retained),
        ];
        std::iter::once((Metric::Throughput, throughput))
            .chain(latencies)
            .chain(counts.map(|(metric, bound)| (metric, bound.map(MostMessages::get))))
            .filter_map(|(metric, bound)| Some(Criterion { metric, bound: bound? }))
            .collect()
    }
}

impl LatencyBounds {
    fn bounds(self) -> impl Iterator<Item = (Percentile, Option<u64>)> {
        let Self { p50, p75, p90, p95, p99, p99_9, max } = self;
        let bounds = [p50, p75, p90, p95, p99, p99_9, max];
        Percentile::ALL.into_iter().zip(bounds.map(|bound| bound.map(LatencyUs::get)))
    }
}
