//! Tally of a benchmark: the durations and the outcomes of all its requests.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::error::Error;
use crate::report::{Column, Report, count, table};

pub(crate) const NUMBER: &str = "number";
pub(crate) const P50: &str = "p50, s";
pub(crate) const P95: &str = "p95, s";
pub(crate) const P99: &str = "p99, s";
pub(crate) const LONGEST: &str = "longest, s";

#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Histograms of durations in microseconds, with three significant digits, by case and by what
    /// was measured.
    durations: BTreeMap<(&'static str, String), Histogram<u64>>,
    answers: BTreeMap<(&'static str, String), u64>,
}

impl Tally {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn took(&self, case: &'static str, what: &str, seconds: f64) -> Result<(), Error> {
        let microseconds = Duration::from_secs_f64(seconds.max(0.0)).as_micros();
        let mut counts = self.lock();
        let durations = counts.durations.entry((case, what.to_owned())).or_insert(Histogram::new(3)?);
        Ok(durations.record(u64::try_from(microseconds)?)?)
    }

    pub(crate) fn answered(&self, kind: &'static str, outcome: String) {
        *self.lock().answers.entry((kind, outcome)).or_default() += 1;
    }

    /// Builds a report of all durations, with a row for each case and each thing that was measured.
    pub(crate) fn report(&self, about: String, columns: &[Column]) -> Report {
        let mut report = Report::new(about, columns);
        for ((case, what), durations) in &self.lock().durations {
            let at = |quantile| Duration::from_micros(durations.value_at_quantile(quantile)).as_secs_f64();
            let number = usize::try_from(durations.len()).map_or(f64::INFINITY, count);
            let figures =
                [(NUMBER, number), (P50, at(0.5)), (P95, at(0.95)), (P99, at(0.99)), (LONGEST, at(1.0))];
            report.add(case, what, &figures);
        }
        report
    }

    /// Formats a table of how often each kind of request got which response.
    pub(crate) fn answers(&self) -> String {
        let counts = self.lock();
        let row = |((kind, outcome), times): (&(&str, String), &u64)| {
            vec![(*kind).to_owned(), outcome.clone(), times.to_string()]
        };
        table(&["request", "answer", "times"], counts.answers.iter().map(row))
    }
}
