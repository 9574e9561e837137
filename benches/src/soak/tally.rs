//! Counts of all callers together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::report::percentile;

/// Phase of the run in which a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    WarmUp,
    HostileWarmUp,
    Between,
    Calm,
    Hostile,
    Over,
}

impl Phase {
    pub(super) const fn has_hostile_callers(self) -> bool {
        matches!(self, Self::HostileWarmUp | Self::Hostile)
    }

    const fn is_measured(self) -> bool {
        matches!(self, Self::Calm | Self::Hostile)
    }
}

const NO_BATCH: &str = "01a1fd8c-697b-7c4e-8d21-3f5a6b7c8d9e";
/// Number of wrong answers that are kept in full.
const KEPT: usize = 20;

#[derive(Clone, Debug, Default)]
pub(super) struct Tally(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    /// Seconds, by kind of request and phase.
    times: BTreeMap<(&'static str, Phase), Vec<f64>>,
    answers: BTreeMap<(&'static str, String), u64>,
    hostile_requests: usize,
    wrong: u64,
    wrong_kept: Vec<String>,
    batch: String,
}

impl Tally {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A well-behaved caller's request, with all its attempts.
    pub(super) fn took(&self, kind: &'static str, (from, to): (Phase, Phase), time: Duration) {
        if from == to && from.is_measured() {
            self.lock().times.entry((kind, from)).or_default().push(time.as_secs_f64());
        }
    }

    pub(super) fn answered(&self, kind: &'static str, outcome: String) {
        *self.lock().answers.entry((kind, outcome)).or_default() += 1;
    }

    pub(super) fn wrong(&self, what: &str) {
        let mut counts = self.lock();
        counts.wrong += 1;
        if counts.wrong_kept.len() < KEPT {
            counts.wrong_kept.push(what.to_owned());
        }
    }

    pub(super) fn has_batch(&self, batch_id: &str) {
        batch_id.clone_into(&mut self.lock().batch);
    }

    /// The id of a batch of the well-behaved callers; without one, an id that nobody has.
    pub(super) fn a_batch(&self) -> String {
        let batch = self.lock().batch.clone();
        if batch.is_empty() { NO_BATCH.to_owned() } else { batch }
    }

    pub(super) fn hostile_request(&self) -> UnderWay {
        self.lock().hostile_requests += 1;
        UnderWay(self.clone())
    }

    /// Waits until none is under way, at most until then.
    pub(super) async fn no_hostile_requests(&self, until: Instant) {
        while self.lock().hostile_requests > 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(super) fn wrong_answers(&self) -> (u64, Vec<String>) {
        let counts = self.lock();
        (counts.wrong, counts.wrong_kept.clone())
    }

    pub(super) fn answers(&self) -> BTreeMap<(&'static str, String), u64> {
        self.lock().answers.clone()
    }

    pub(super) fn kinds(&self) -> Vec<&'static str> {
        let mut kinds: Vec<_> = self.lock().times.keys().map(|(kind, _)| *kind).collect();
        kinds.dedup();
        kinds
    }

    /// Returns the number of requests of a kind, or of all, and their 95th percentile in
    /// milliseconds.
    pub(super) fn times(&self, kind: Option<&'static str>, phase: Phase) -> (usize, f64) {
        let counts = self.lock();
        let chosen = counts
            .times
            .iter()
            .filter(|((of, at), _)| *at == phase && kind.is_none_or(|kind| kind == *of))
            .flat_map(|(_, times)| times.iter().copied());
        let times: Vec<_> = chosen.collect();
        (times.len(), percentile(&times, 0.95) * 1000.0)
    }
}

/// A hostile request, while it is kept.
#[derive(Debug)]
pub(super) struct UnderWay(Tally);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut counts = self.0.lock();
        counts.hostile_requests = counts.hostile_requests.saturating_sub(1);
    }
}
