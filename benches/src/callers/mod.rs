//! A caller that does what the contract says: it tries again when it is told to, with the same key.

pub(crate) mod messages;

use std::fmt::Debug;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::error::Error;
use crate::http_client::{Answer, Call, Http};
use crate::tally::Tally;

/// Tenant B's key, which no hostile caller uses: a tenant's budget is its own.
pub(crate) const KEY: &str = "local-dev-key-b";
/// Path of the list of batches. A batch is below it, by its id.
pub(crate) const BATCHES: &str = "/v1/inovafarma/batches";

/// Requests of every kind, in a soak's report.
pub(crate) const ALL: &str = "all";
pub(crate) const WITHOUT: &str = "without hostile callers";
pub(crate) const WITH: &str = "with hostile callers";

/// Phase of a run in which a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Beside a morning peak.
    Meanwhile,
    /// Before and between what a soak measures.
    Unmeasured,
    HostileWarmUp,
    Calm,
    Hostile,
    Over,
}

#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) http: Http,
    pub(crate) tally: Arc<Tally>,
    pub(crate) phase: watch::Receiver<Phase>,
}

impl Caller {
    pub(crate) fn now(&self) -> Phase {
        *self.phase.borrow()
    }

    pub(crate) fn goes_on(&self) -> bool {
        self.now() != Phase::Over
    }

    /// Sends until there is an answer that is final, and takes it if it has this status.
    pub(crate) async fn call(&self, kind: &'static str, call: &Call, status: u16) -> Result<Answer, Error> {
        let (phase, begin) = (self.now(), Instant::now());
        let answer = self.http.insist(call, status, |outcome| self.tally.answered(kind, outcome)).await;
        let answer = answer.map_err(|wrong| format!("{kind}: {wrong}"))?;
        self.took(kind, phase, begin)?;
        Ok(answer)
    }

    /// Counts what began in that phase, with all its attempts.
    pub(crate) fn took(&self, kind: &'static str, from: Phase, begin: Instant) -> Result<(), Error> {
        let seconds = begin.elapsed().as_secs_f64();
        let whole = match (from, self.now()) {
            (Phase::Meanwhile, _) => return self.tally.took("meanwhile", kind, seconds),
            (Phase::Calm, Phase::Calm) => WITHOUT,
            (Phase::Hostile, Phase::Hostile) => WITH,
            _ => return Ok(()),
        };
        self.tally.took(kind, whole, seconds)?;
        self.tally.took(ALL, whole, seconds)
    }
}

/// # Errors
/// If the two values differ. The message says what was expected.
pub(crate) fn expect<T: PartialEq + Debug>(what: &str, is: &T, expected: &T) -> Result<(), Error> {
    if is == expected { Ok(()) } else { Err(format!("{what}: {is:?} instead of {expected:?}").into()) }
}
