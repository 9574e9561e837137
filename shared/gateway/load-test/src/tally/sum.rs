use std::collections::{BTreeMap, BTreeSet};

use super::{Figures, Tally};
use crate::micros::Micros;
use crate::plan::{Step, Worker};

/// Sum of the tallies (counts of each worker and minute) of a run. The order in which tallies are
/// added does not matter, and the tally of a step (a worker's attempt at one minute) counts once
/// even if it is added again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sum {
    steps: BTreeSet<Step>,
    pub(crate) figures: Figures,
    pub(crate) work: BTreeMap<Worker, Work>,
}

/// Spans of time in which one worker of a run worked, as its stored counts of each minute state
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    spans: BTreeSet<(Micros, Micros)>,
    /// Earliest time, since the run's start, from which the worker reported that it had nothing
    /// left to do; `None` if it did not report that.
    pub(crate) ended: Option<Micros>,
}

impl Sum {
    /// Adds the last stored tally of a step (the counts of a worker's attempt at one minute). The
    /// call has no effect if a tally of the same step was added before.
    pub fn add(&mut self, tally: &Tally) {
        if !self.steps.insert(tally.step) {
            return;
        }
        self.figures.add(&tally.figures);
        let work = self.work.entry(tally.step.lane.worker).or_default();
        work.spans.insert((tally.from, tally.until));
        if tally.is_last {
            work.ended = Some(work.ended.map_or(tally.until, |ended| ended.min(tally.until)));
        }
    }

    /// Returns the number of steps (attempts of workers at a minute) whose tallies are in the sum.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps.len()
    }
}

impl Work {
    /// Returns the spans of time in which the worker did not work, from the run's start until
    /// `until`, or until the worker had nothing left to do if that is earlier.
    pub(crate) fn gaps(&self, until: Micros) -> Vec<(Micros, Micros)> {
        let until = self.ended.map_or(until, |ended| until.min(ended));
        let mut gaps = Vec::new();
        let mut covered = Micros::ZERO;
        for (from, to) in &self.spans {
            if *from > covered && covered < until {
                gaps.push((covered, (*from).min(until)));
            }
            covered = covered.max(*to);
        }
        if covered < until {
            gaps.push((covered, until));
        }
        gaps
    }
}
