//! Verdicts on the pass criteria of a load test.

use serde::{Deserialize, Serialize};

use super::Report;
use super::number::float;
use crate::accounting::EndFacts;
use crate::expect::{Criterion, Expect};
use crate::metric::Metric;

/// Verdicts of a report on the pass criteria of its load test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdicts {
    /// True if every pass criterion of the load test is met.
    pub met: bool,
    /// Verdict on each pass criterion, in the order in which the report lists metrics.
    pub criteria: Vec<CriterionVerdict>,
}

/// Verdict of a report on one pass criterion, with the measured value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CriterionVerdict {
    /// Path in the report of the metric that the criterion bounds, such as `putLatencyUs.p99`.
    pub metric: String,
    /// Bound of the metric, as the request states it, in the metric's unit.
    pub bound: u64,
    /// True if the measured value must be at least the bound; false if it must be at most the
    /// bound.
    pub at_least: bool,
    /// Measured value of the metric; `None` if it was not measured, or if the report is incomplete.
    pub value: Option<f64>,
    /// Outcome of the criterion: met, not met, or not measured.
    pub outcome: Outcome,
}

/// Outcome of one pass criterion of a load test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// The measured value is within the bound.
    Met,
    /// The measured value is beyond the bound.
    NotMet,
    /// No value was measured, so the criterion can be neither met nor missed.
    NotMeasured,
}

impl Verdicts {
    /// Judges a report by the pass criteria; `None` if the test has no criteria.
    ///
    /// If the queues were not measured at the run's `end`, more messages may have been on them than
    /// anyone saw. Their number can then only fail.
    pub(super) fn of(expect: &Expect, report: &Report, end: EndFacts) -> Option<Self> {
        let judge = |criterion: Criterion| {
            let Criterion { metric, bound } = criterion;
            let at_least = metric.is_better_higher();
            let is_met = |value| if at_least { value >= float(bound) } else { value <= float(bound) };
            let is_lowest = metric == Metric::Retained && end.retained.is_none();
            let value = report.judged(metric).filter(|value| !is_lowest || !is_met(*value));
            let outcome = match value.map(is_met) {
                Some(true) => Outcome::Met,
                Some(false) => Outcome::NotMet,
                None => Outcome::NotMeasured,
            };
            CriterionVerdict { metric: metric.to_string(), bound, at_least, value, outcome }
        };
        let criteria: Vec<_> = expect.criteria().into_iter().map(judge).collect();
        if criteria.is_empty() {
            return None;
        }
        Some(Self { met: criteria.iter().all(|criterion| criterion.outcome == Outcome::Met), criteria })
    }
}
