//! Report of a load test: its figures, a summary in words, and an HTML page.

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
    /// State of the load test: the final state that it has once the report is stored, or the
    /// current state for the report of a running test.
    pub status: TestStatus,
    /// False if some tallies (counts of a worker in one minute) could not be read. The figures then
    /// come from the other tallies, gaps in the workers' records are not listed, and no criterion
    /// is judged.
    #[serde(default = "is_complete")]
    pub complete: bool,
    /// Summary of the report in words: a few sentences, the most important one first.
    pub summary: String,
    /// Reason why the test failed; `None` unless it failed.
    pub failure: Option<String>,
    /// Target of the load test, in the form that responses of the API show.
    pub target: String,
    /// Start of the run that the report is about; time of the test's creation if no run began.
    pub started_at: Timestamp,
    /// Seconds from the run's start until the end of the producers' work, or of the consumers' work
    /// if there are no producers.
    pub duration_seconds: f64,
    /// Part of the test's definition that the report shows, such as the number of workers.
    pub setup: Setup,
    /// Average rates of messages a second, after the warm-up.
    pub rates: Rates,
    /// Put latency in microseconds, from the time at which a message was due until the broker
    /// confirmed it; `None` if nothing was measured.
    pub put_latency_us: Option<LatencyReport>,
    /// End-to-end latency in microseconds, from the time at which a message was due until a
    /// consumer received it; `None` if nothing was measured.
    pub end_to_end_latency_us: Option<LatencyReport>,
    /// Lateness in microseconds, from the time at which a message was due until its producer sent
    /// it; `None` if nothing was measured.
    pub lateness_us: Option<LatencyReport>,
    /// Figures of the load generator, which tell whether the generator or the broker limited the
    /// rate.
    pub generator: Generator,
    /// Number of messages with each fate, such as received or lost, and the spans of time for which
    /// counts of a worker are missing.
    pub accounting: Accounting,
    /// Maximum number of messages on all queues of the test at one time; `None` if they were not
    /// measured.
    pub most_retained: Option<u64>,
    /// Seconds from the end of the producers' work until the last message was received. `None`
    /// unless the test has producers and consumers, the report is complete, and the queues were
    /// seen empty.
    pub drained_in_seconds: Option<f64>,
    /// Verdicts on the test's pass criteria; `None` if the test has no criteria.
    pub expect: Option<Verdicts>,
    /// Probes (runs) and result of a search for the highest rate. `None` for a test that runs once,
    /// and for a search that has no result, for example because it was stopped.
    pub search: Option<SearchReport>,
    /// Differences from the report of another test; `None` if the caller named no other test.
    pub comparison: Option<Comparison>,
    /// Estimate of the load test's cost.
    pub cost: Cost,
    /// Figures of each second of the run, such as the messages sent; empty if nothing was counted.
    pub series: Series,
}

/// Returns the value of [`Report::complete`] for reports that an earlier version stored without
/// this member: true, because that version made only complete reports.
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
    /// Length of each message body in bytes; `None` if bodies come from a template, or the test
    /// only consumes.
    pub message_size_bytes: Option<u64>,
    /// Persistence of each message that the producers put; `None` if the test only consumes.
    pub persistence: Option<mq::Persistence>,
    /// Number of messages in a producer's transaction; `None` without transactions or producers.
    pub tx_size: Option<u32>,
    /// Maximum number of messages that a producer has sent and the broker has not confirmed yet;
    /// `None` with transactions, or without producers.
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
    /// Number of messages sent each second, on average after the warm-up.
    pub sent_per_sec: f64,
    /// Number of messages that the broker confirmed each second, on average after the warm-up.
    pub confirmed_per_sec: f64,
    /// Number of messages received each second, on average after the warm-up. In a test with a
    /// backlog, the average is from the first received message to the last. Foreign messages (which
    /// the test did not put) count only if the test has no producers.
    pub received_per_sec: f64,
    /// True if at least 98 % of the requested rate was sent. Also true if no rate was requested, no
    /// rate was measured, or the report is incomplete.
    pub held: bool,
}

/// Percentiles of one kind of latency in a report, in microseconds.
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
    /// Number of messages whose event (send, confirm or receipt) seems to precede the time at which
    /// they were due, because the clocks of two machines differ. The latency of such a message
    /// counts as 1 µs.
    pub earlier: u64,
    /// Number of messages with a latency above 120 s, which count as 120 s.
    pub beyond: u64,
}

/// Figures of the load generator, which tell whether the generator or the broker limited the rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Generator {
    /// Fraction (0 to 1) of the messages after the warm-up that were sent more than 10 ms late
    /// although the broker did not hold the producer back.
    pub late_share: f64,
    /// Fraction (0 to 1) of the messages after the warm-up that were sent more than 10 ms late
    /// because the broker held the producer back.
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
    /// Probes of the search: its runs at different rates, in the order in which they ran.
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

    /// Fraction (0 to 1) of messages that are late because of the load generator, above which a run
    /// does not pass: such a run measured the load generator instead of the broker. See
    /// [`Generator::late_share`].
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

    /// Returns the report's value of a metric, for a verdict or a comparison; `None` if it was not
    /// measured, or if the report is incomplete.
    fn judged(&self, metric: Metric) -> Option<f64> {
        self.value(metric).filter(|_| self.complete)
    }

    /// Returns the throughput of the run: messages received a second, or messages confirmed a
    /// second if the test has no consumers.
    #[must_use]
    pub const fn throughput_per_sec(&self) -> f64 {
        if self.setup.consumers > 0 { self.rates.received_per_sec } else { self.rates.confirmed_per_sec }
    }

    /// True if the run passed, which means that the target sustains the rate. A search judges each
    /// probe by this. The conditions are:
    /// - the report is complete, and messages were sent or taken
    /// - the requested rate was held, and 98 % of it was confirmed if the broker refused messages
    /// - at most [`Self::MOST_LATE`] of the messages were late because of the load generator
    /// - every pass criterion is met
    #[must_use]
    pub fn passed(&self) -> bool {
        self.complete
            && !self.is_idle()
            && self.rates.held
            && self.is_rate_taken()
            && self.generator.late_share <= Self::MOST_LATE
            && self.expect.as_ref().is_none_or(|verdicts| verdicts.met)
    }

    /// True if the run sent and took no message. Its report then says nothing about the target.
    const fn is_idle(&self) -> bool {
        let Accounting { sent, received, foreign_taken, .. } = &self.accounting;
        *sent == 0 && *received == 0 && *foreign_taken == 0
    }

    /// True if the broker refused no message, if it confirmed at least 98 % of the requested rate
    /// in spite of refusals, or if no rate was requested.
    fn is_rate_taken(&self) -> bool {
        let rates = &self.rates;
        self.accounting.refused == 0
            || rates.asked_per_sec.is_none_or(|asked| rates.confirmed_per_sec >= build::HELD * asked)
    }

    /// Returns this report with its differences from the report `baseline` of another test.
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
    /// Returns the percentiles of a histogram of latencies; `None` if it has no latency.
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
