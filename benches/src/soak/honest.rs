//! A caller that does what the contract says: it tries again when it is told to, with the same key.

use tokio::time::Instant;

use super::caller::Caller;
use super::tally::Phase;
use crate::http_client::{Answer, Call};

/// Tenant B's, which no hostile caller uses: a tenant's budget is its own.
pub(super) const KEY: &str = "local-dev-key-b";

/// Fault of an answer, in words.
pub(super) type Wrong = String;

impl Caller {
    pub(super) fn goes_on(&self) -> bool {
        *self.running.borrow()
    }

    pub(super) fn key(&mut self) -> String {
        self.keys.next()
    }

    /// Sends until there is an answer that is final, and takes it if it has this status.
    pub(super) async fn call(&self, kind: &'static str, call: &Call, status: u16) -> Result<Answer, Wrong> {
        let (phase, begin) = (self.now(), Instant::now());
        let answered = self.http.insist(call, status, |outcome| self.tally.answered(kind, outcome)).await;
        let answer = answered.map_err(|wrong| format!("{kind}: {wrong}"))?;
        self.took(kind, phase, begin);
        Ok(answer)
    }

    pub(super) fn now(&self) -> Phase {
        *self.phase.borrow()
    }

    pub(super) fn took(&self, kind: &'static str, from: Phase, begin: Instant) {
        self.tally.took(kind, (from, self.now()), begin.elapsed());
    }

    /// Lets others know of a batch.
    pub(super) fn has_batch(&self, batch_id: &str) {
        self.tally.has_batch(batch_id);
    }

    /// Counts a wrong answer, and returns `None` if there was one.
    pub(super) fn check<T>(&self, checked: Result<T, Wrong>) -> Option<T> {
        checked.map_err(|what| self.tally.wrong(&what)).ok()
    }
}

/// # Errors
/// Says what was expected.
pub(super) fn expect<T: PartialEq + std::fmt::Debug>(what: &str, is: &T, expected: &T) -> Result<(), Wrong> {
    if is == expected { Ok(()) } else { Err(format!("{what}: {is:?} instead of {expected:?}")) }
}
