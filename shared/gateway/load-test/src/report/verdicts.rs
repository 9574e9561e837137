//! Verdicts on the criteria of a test.

use serde::{Deserialize, Serialize};

use super::Report;
use super::number::float;
use crate::expect::{Criterion, Expect};

/// Pass criteria of a load test with their verdicts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdicts {
    /// True if every pass criterion is met.
    pub met: bool,
    /// Verdict on each criterion.
    pub criteria: Vec<CriterionVerdict>,
}

/// Criterion with the measured value and the verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CriterionVerdict {
    /// Path of the metric in the report.
    pub metric: String,
    /// Bound of the criterion that the request set.
    pub bound: u64,
    /// True if the value must be at least the bound, false if at most.
    pub at_least: bool,
    /// Value of the report; `None` if it was not measured, or the report is not complete.
    pub value: Option<f64>,
    /// Outcome of the criterion.
    pub outcome: Outcome,
}

/// Outcome of one pass criterion.
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
    /// Judges a report; `None` if there is no criterion.
    pub(super) fn of(expect: &Expect, report: &Report) -> Option<Self> {
        let judge = |criterion: Criterion| {
            let Criterion { metric, bound } = criterion;
            let at_least = metric.is_better_higher();
            let value = report.judged(metric);
            let is_met = |value| if at_least { value >= float(bound) } else { value <= float(bound) };
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
