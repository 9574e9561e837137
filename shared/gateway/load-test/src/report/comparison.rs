//! Differences between two reports.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Report;
use super::number::rounded;
use crate::metric::Metric;

/// Differences between a load test's report and the report of an earlier test, the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// Id of the load test that is the baseline.
    pub baseline_id: String,
    /// Start of the load test that is the baseline.
    pub baseline_started_at: Timestamp,
    /// Differences in each metric that both reports have; empty if one of the reports is
    /// incomplete.
    pub deltas: Vec<Delta>,
}

/// Difference of one metric between a report and its baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delta {
    /// Path of the metric in the report, such as `putLatencyUs.p99`.
    pub metric: String,
    /// Value of the metric in the baseline's report.
    pub baseline: f64,
    /// Value of the metric in the report that is compared with the baseline.
    pub value: f64,
    /// Difference in percent of the baseline; `None` if the baseline is 0.
    pub change_percent: Option<f64>,
    /// Direction of the difference: better, worse or neither.
    pub change: Change,
}

/// Direction of a metric's difference from the baseline: better, worse or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// The metric improved.
    Better,
    /// The metric got worse.
    Worse,
    /// The difference is at most 2 % of the baseline's value, so it counts as none.
    Same,
}

/// Largest difference that counts as none, as a fraction of the baseline: two runs of the same test
/// differ by this much.
const NOISE: f64 = 0.02;

impl Comparison {
    pub(super) fn of(report: &Report, baseline: &Report) -> Self {
        let delta = |metric| Some(Delta::of(metric, baseline.judged(metric)?, report.judged(metric)?));
        Self {
            baseline_id: baseline.test_id.clone(),
            baseline_started_at: baseline.started_at,
            deltas: Metric::all().filter_map(delta).collect(),
        }
    }
}

impl Delta {
    fn of(metric: Metric, baseline: f64, value: f64) -> Self {
        let difference = value - baseline;
        let change = if difference.abs() <= NOISE * baseline.abs() {
            Change::Same
        } else if (difference > 0.0) == metric.is_better_higher() {
            Change::Better
        } else {
            Change::Worse
        };
        let percent = (baseline != 0.0).then(|| rounded(100.0 * difference / baseline, 2));
        Self { metric: metric.to_string(), baseline, value, change_percent: percent, change }
    }
}
