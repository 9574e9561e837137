//! Differences between two reports.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Report;
use super::number::rounded;
use crate::metric::Metric;

/// Differences between a load test's report and its baseline, which is the report of another test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// Id of the load test whose report is the baseline.
    pub baseline_id: String,
    /// Start of the load test whose report is the baseline.
    pub baseline_started_at: Timestamp,
    /// Differences, one for each metric that both reports have; empty if one of the reports is
    /// incomplete.
    pub deltas: Vec<Delta>,
}

/// Difference of one metric between a report and its baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delta {
    /// Path of the metric in the report, such as `putLatencyUs.p99`.
    pub metric: String,
    /// Value of the metric in the baseline's report, in the metric's unit.
    pub baseline: f64,
    /// Value of the metric in the report that is compared with the baseline, in the metric's unit.
    pub value: f64,
    /// Difference in percent of the baseline's value, positive if the value is higher; `None` if
    /// the baseline's value is 0.
    pub change_percent: Option<f64>,
    /// Direction of the difference: better, worse or neither.
    pub change: Change,
}

/// Direction of a metric's difference from the baseline: better, worse or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// The metric's value is more than 2 % better than the baseline's.
    Better,
    /// The metric's value is more than 2 % worse than the baseline's.
    Worse,
    /// The metric's value differs from the baseline's by at most 2 %, which counts as no
    /// difference.
    Same,
}

/// Largest difference between two reports that counts as none, as a fraction of the baseline's
/// value. Two runs of the same test differ by this much.
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
