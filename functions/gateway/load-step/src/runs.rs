//! Runs of a load test that have begun: the single run of most tests, or the probes of a search.

use std::borrow::Cow;

use load_test::store::{Run, TestRecord};
use load_test::{LoadTest, Probe};

use crate::error::LoadStepError;

/// Run of a load test that has begun, with its number and the definition of its work.
#[derive(Clone, Debug)]
pub(crate) struct BegunRun<'a> {
    pub(crate) number: u32,
    pub(crate) run: Run,
    /// Definition of the run's work: the test itself, or in a search the test at the rate of this
    /// run.
    pub(crate) test: Cow<'a, LoadTest>,
}

impl<'a> BegunRun<'a> {
    /// Finds the run with this number in a test's record.
    ///
    /// # Errors
    /// If no run with this number has begun.
    pub(crate) fn of(record: &'a TestRecord, number: u32) -> Result<Self, LoadStepError> {
        let missing = LoadStepError::NoRun { test_id: record.test_id, run: number };
        let index = usize::try_from(number).ok();
        let run = *index.and_then(|index| record.runs.get(index)).ok_or(missing)?;
        Ok(Self { number, run, test: record.test.at_rate(run.rate_per_sec) })
    }

    /// Returns all runs of a load test that have begun, in order.
    pub(crate) fn all(record: &'a TestRecord) -> impl Iterator<Item = Self> {
        let begun = move |(number, run): (u32, &Run)| Self {
            number,
            run: *run,
            test: record.test.at_rate(run.rate_per_sec),
        };
        (0..).zip(&record.runs).map(begun)
    }

    /// Returns the result of the run as a probe, which is a run of a search at one rate. `None` if
    /// the test is no search, or if the run was not judged.
    pub(crate) fn probe(&self) -> Option<Probe> {
        Some(Probe { rate_per_sec: self.run.rate_per_sec?, passed: self.run.passed? })
    }
}

/// Returns the results of the probes of a search (runs at one rate) that ran before the run with
/// this number and were judged.
pub(crate) fn probes_before(record: &TestRecord, number: u32) -> Vec<Probe> {
    BegunRun::all(record)
        .take_while(|begun| begun.number < number)
        .filter_map(|begun| begun.probe())
        .collect()
}
