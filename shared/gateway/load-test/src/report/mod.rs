//! The report of a test: figures, their first line in words, and a page to keep.

mod build;
mod comparison;
mod cost;
mod html;
mod number;
mod summary;
#[cfg(test)]
mod tests;
mod verdicts;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use build::Facts;
pub use comparison::{Change, Comparison, Delta};
pub use cost::{Cost, Usage};
pub use verdicts::{CriterionVerdict, Outcome, Verdicts};

use crate::accounting::Accounting;
use crate::metric::{Metric, Percentile};
use crate::search::{Finding, Probe};
use crate::status::TestStatus;
use crate::tally::Latencies;

/// Report of a load test, in its JSON form. A later version may add members, which readers ignore.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Name and version of the report's JSON schema: [`Report::SCHEMA`].
    pub schema: String,
    /// Id of the load test.
    pub test_id: String,
    /// State that the load test has once the report is stored.
    pub status: TestStatus,
    /// False if some tallies (counts of a worker in one minute) could not be read. The figures then
    /// come from the other tallies, gaps in the workers' records are not listed, and no criterion
    /// is judged.
    #[serde(default = "is_complete")]
    pub complete: bool,
    /// Summary of the report in a few sentences, the most important one first.
    pub summary: String,
    /// Reason why the test failed; `None` unless it failed.
    pub failure: Option<String>,
    /// Target of the load test, in the form that responses of the API show.
    pub target: String,
    /// Start of the load test.
    pub started_at: Timestamp,
    /// Seconds from the run's start until the end of the producers' work, or of the consumers' work
    /// if there are no producers.
    pub duration_seconds: f64,
    /// Setup of the load test: the work that it was asked to do.
    pub setup: Setup,
    /// Average rates of messages a second, after the warm-up.
    pub rates: Rates,
    /// Put latency, from the time at which a message was due until it was confirmed; `None` if
    /// nothing was measured.
    pub put_latency_us: Option<LatencyReport>,
    /// End-to-end latency, from the time at which a message was due until it was received; `None`
    /// if nothing was measured.
    pub end_to_end_latency_us: Option<LatencyReport>,
    /// Lateness, from the time at which a message was due until it was sent; `None` if nothing was
    /// measured.
    pub lateness_us: Option<LatencyReport>,
    /// Figures of the load generator, which tell whether it or the broker was the limit.
    pub generator: Generator,
    /// Accounting of the fate of every message, and of the spans of time for which workers' counts
    /// are missing.
    pub accounting: Accounting,
    /// Maximum number of messages on the queues at one time; `None` if the depth was not measured.
    pub most_retained: Option<u64>,
    /// Seconds from the end of the producers' work until the last message was received; `None` if
    /// the queues were not seen empty.
    pub drained_in_seconds: Option<f64>,
    /// Verdicts on the pass criteria; `None` if the test has none.
    pub expect: Option<Verdicts>,
    /// Probes and result of a search for the highest rate; `None` if the test ran once.
    pub search: Option<SearchReport>,
    /// Differences from the report of another test; `None` if the caller named no other test.
    pub comparison: Option<Comparison>,
    /// Estimate of the load test's cost.
    pub cost: Cost,
    /// Figures of each second of the run.
    pub series: Series,
}

/// Returns the default of `complete` for reports of an earlier version, which made only complete
/// reports.
const fn is_complete() -> bool {
    true
}

/// Setup of a load test: the part of its definition that the report shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Setup {
    /// Number of producers of the load test.
    pub producers: u32,
    /// Number of consumers of the load test.
    pub consumers: u32,
    /// Bytes of each message body; `None` if bodies come from a template, or the test only
    /// consumes.
    pub message_size_bytes: Option<u64>,
    /// Persistence of each message that the producers put; `None` if the test only consumes.
    pub persistence: Option<mq::Persistence>,
    /// Number of messages in a producer's transaction; `None` without transactions or producers.
    pub tx_size: Option<u32>,
    /// Maximum number of unconfirmed messages of a producer; `None` with transactions, or without
    /// producers.
    pub confirms_in_flight: Option<u32>,
    /// Number of messages that the broker delivers to a consumer ahead of their acknowledgements;
    /// `None` if the test only produces.
    pub prefetch: Option<u32>,
    /// Duration of the warm-up in seconds, which the percentiles and rates leave out.
    pub warm_up_seconds: u32,
}

/// Average rates of a run in messages a second, after the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Rates {
    /// Rate that the test requested in messages a second, on average after the warm-up; `None`
    /// without a requested rate.
    pub asked_per_sec: Option<f64>,
    /// Messages sent each second, on average after the warm-up.
    pub sent_per_sec: f64,
    /// Messages confirmed each second, on average after the warm-up.
    pub confirmed_per_sec: f64,
    /// Messages received each second, on average after the warm-up; in a test with a backlog, from
    /// the first received message to the last. Foreign messages (which the test did not put) count
    /// only if the test has no producers.
    pub received_per_sec: f64,
    /// True if at least 98 % of the requested rate was sent. Also true if no rate was requested, no
    /// rate was measured, or the report is incomplete.
    pub held: bool,
}

/// Percentiles of one kind of latency, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "the percentiles are named after themselves")]
pub struct LatencyReport {
    /// Number of messages whose latency was measured.
    pub count: u64,
    pub p50: u64,
    pub p75: u64,
    pub p90: u64,
    pub p95: u64,
    pub p99: u64,
    #[serde(rename = "p99_9")]
    pub p99_9: u64,
    pub max: u64,
    /// Number of messages that seem to have arrived before they were due, because the clocks of two
    /// machines differ. The latency of such a message counts as 1 µs.
    pub earlier: u64,
    /// Number of messages with a latency above 120 s, which count as 120 s.
    pub beyond: u64,
}

/// Figures of the load generator, which tell whether it or the broker was the limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Generator {
    /// Fraction of the messages that were sent late although the broker did not hold the producer
    /// back.
    pub late_share: f64,
    /// Fraction of the messages that were sent late because the broker held the producer back.
    pub held_back_share: f64,
    /// Processor time of all workers together, in seconds.
    pub cpu_seconds: f64,
    /// Billed duration of all Lambda invocations of the run, in seconds.
    pub billed_seconds: f64,
}

/// Probes (runs at different rates) of a rate search, and the search's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SearchReport {
    /// Probes of the search (runs at different rates), in the order in which they ran.
    pub probes: Vec<Probe>,
    /// Result of the search for the highest rate that the target sustains.
    pub finding: Finding,
}

/// Figures of each second of a run, one list for each figure. The first item belongs to the run's
/// first second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Series {
    /// Number of messages sent in each second of the run.
    pub sent: Vec<u64>,
    /// Number of messages that the broker confirmed in each second of the run.
    pub confirmed: Vec<u64>,
    /// Number of messages that consumers received in each second of the run.
    pub received: Vec<u64>,
    /// Number of messages on the queues in each second of the run; `None` in a second without a
    /// measurement.
    pub retained: Vec<Option<u64>>,
}

impl Report {
    /// Name and version of the report's JSON schema.
    pub const SCHEMA: &str = "integrahub.load-report.v1";

    /// Fraction of late messages above which the run measured the load generator instead of the
    /// broker, so that it does not pass.
    pub const MOST_LATE: f64 = 0.05;

    /// Returns the report's value of a metric, in the metric's unit; `None` if it was not measured.
    #[must_use]
    pub fn value(&self, metric: Metric) -> Option<f64> {
        let latency = |report: &Option<LatencyReport>, percentile| {
            report.as_ref().map(|report| number::float(report.percentile(percentile)))
        };
        let accounting = &self.accounting;
        match metric {
            Metric::Throughput => Some(self.throughput_per_sec()),
            Metric::PutLatency(percentile) => latency(&self.put_latency_us, percentile),
            Metric::EndToEndLatency(percentile) => latency(&self.end_to_end_latency_us, percentile),
            Metric::Lateness(percentile) => latency(&self.lateness_us, percentile),
            Metric::Lost => accounting.lost.map(number::float),
            Metric::Doubled => Some(number::float(accounting.doubled)),
            Metric::InDoubt => Some(number::float(accounting.in_doubt)),
            Metric::Refused => Some(number::float(accounting.refused)),
            Metric::OutOfOrder => Some(number::float(accounting.out_of_order)),
            Metric::NotSent => Some(number::float(accounting.not_sent)),
            Metric::Retained => self.most_retained.map(number::float),
        }
    }

    /// Returns the value of a metric for a verdict or a comparison; `None` if it was not measured,
    /// or if the report is incomplete.
    fn judged(&self, metric: Metric) -> Option<f64> {
        self.value(metric).filter(|_| self.complete)
    }

    /// Returns the throughput: messages received a second, or messages confirmed a second if the
    /// test has no consumers.
    #[must_use]
    pub const fn throughput_per_sec(&self) -> f64 {
        if self.setup.consumers > 0 { self.rates.received_per_sec } else { self.rates.confirmed_per_sec }
    }

    /// True if the run shows that the target sustains its rate: the report is complete, messages
    /// were sent or taken, the rate was held, the broker did not refuse too much of it, no more
    /// than [`Self::MOST_LATE`] of the messages were late because of the generator, and every
    /// criterion is met. A search judges each probe by this.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.complete
            && !self.is_idle()
            && self.rates.held
            && self.is_rate_taken()
            && self.generator.late_share <= Self::MOST_LATE
            && self.expect.as_ref().is_none_or(|verdicts| verdicts.met)
    }

    /// True if no message was sent or taken. The report then says nothing about the target.
    const fn is_idle(&self) -> bool {
        let Accounting { sent, received, foreign_taken, .. } = &self.accounting;
        *sent == 0 && *received == 0 && *foreign_taken == 0
    }

    /// True if the broker refused no message, or confirmed at least 98 % of the requested rate in
    /// spite of refusals, or if no rate was requested.
    fn is_rate_taken(&self) -> bool {
        let rates = &self.rates;
        self.accounting.refused == 0
            || rates.asked_per_sec.is_none_or(|asked| rates.confirmed_per_sec >= build::HELD * asked)
    }

    /// Returns the report together with its differences from the earlier report `baseline`.
    #[must_use]
    pub fn compared_with(self, baseline: &Self) -> Self {
        Self { comparison: Some(Comparison::of(&self, baseline)), ..self }
    }

    /// Renders the report as one HTML page without scripts and external resources, so that it can
    /// be kept or mailed as a file.
    #[must_use]
    pub fn to_html(&self) -> String {
        html::page(self)
    }
}

impl LatencyReport {
    /// Reads the percentiles of a histogram; `None` if no latency was recorded.
    pub(crate) fn of(latencies: &Latencies) -> Option<Self> {
        let at = |percentile| latencies.percentile(percentile);
        Some(Self {
            count: latencies.count(),
            p50: at(Percentile::P50)?,
            p75: at(Percentile::P75)?,
            p90: at(Percentile::P90)?,
            p95: at(Percentile::P95)?,
            p99: at(Percentile::P99)?,
            p99_9: at(Percentile::P99_9)?,
            max: at(Percentile::Max)?,
            earlier: latencies.earlier,
            beyond: latencies.beyond,
        })
    }

    /// Returns the latency at a percentile, in microseconds.
    #[must_use]
    pub const fn percentile(&self, percentile: Percentile) -> u64 {
        match percentile {
            Percentile::P50 => self.p50,
            Percentile::P75 => self.p75,
            Percentile::P90 => self.p90,
            Percentile::P95 => self.p95,
            Percentile::P99 => self.p99,
            Percentile::P99_9 => self.p99_9,
            Percentile::Max => self.max,
        }
    }
}
