//! Caller of the API that follows the contract: it retries when told to, with the same key.

pub(crate) mod messages;

use std::fmt::Debug;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::error::Error;
use crate::http_client::{Answer, Call, Http};
use crate::tally::Tally;

/// API key of tenant B, which the well-behaved callers use. Hostile callers use other tenants'
/// keys, since each tenant has limits of its own.
pub(crate) const KEY: &str = "local-dev-key-b";
/// Path of the list of batches. A batch has this path followed by its id.
pub(crate) const BATCHES: &str = "/v1/inovafarma/batches";

/// Name of the row for requests of every kind, in a soak's report.
pub(crate) const ALL: &str = "all";
pub(crate) const WITHOUT: &str = "without hostile callers";
pub(crate) const WITH: &str = "with hostile callers";

/// Phase of a benchmark, which decides whether and where a request's duration is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Duration of a morning peak, in which other requests are sent beside the catalogues.
    Meanwhile,
    /// Time before and between the phases that a soak measures.
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

    /// Sends a request, with retries, until it gets a final response. Returns the response if it
    /// has this status.
    pub(crate) async fn call(&self, kind: &'static str, call: &Call, status: u16) -> Result<Answer, Error> {
        let (phase, begin) = (self.now(), Instant::now());
        let answer = self.http.insist(call, status, |outcome| self.tally.answered(kind, outcome)).await;
        let answer = answer.map_err(|wrong| format!("{kind}: {wrong}"))?;
        self.took(kind, phase, begin)?;
        Ok(answer)
    }

    /// Records how long a request or a batch took, with its retries. `from` is the phase in which
    /// it began. Nothing is recorded if that phase is not measured, or has ended since.
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

/// Compares a value with the expected one.
///
/// # Errors
/// If the two values differ. The message says what was expected.
pub(crate) fn expect<T: PartialEq + Debug>(what: &str, is: &T, expected: &T) -> Result<(), Error> {
    if is == expected { Ok(()) } else { Err(format!("{what}: {is:?} instead of {expected:?}").into()) }
}
