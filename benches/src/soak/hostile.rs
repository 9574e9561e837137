//! Hostile callers of a soak, which send harmful requests one after the other in their phases.

use std::time::Duration;

use tokio::time::sleep;
use uuid::Uuid;

use super::Soaker;
use super::shapes::{LONG_BROWSE, SHAPES, Shape, Turn};
use crate::callers::Phase;
use crate::error::Error;
use crate::http_client::Answer;

/// Pause between two requests of a hostile caller. It leaves some CPU time to the well-behaved
/// callers, since everything runs on one machine.
const PAUSE: Duration = Duration::from_millis(250);
/// Maximum size of a problem response in bytes.
const LARGEST_PROBLEM: usize = 4096;
/// Reasons of problems with `Retry-After` that any request may get, such as rate limits.
const LIMITS: [&str; 4] = ["TENANT_RATE_LIMIT", "KEY_REUSE_ABUSE", "BUSY", "POOL_TIMEOUT"];
const NO_BATCH: &str = "01a1fd8c-697b-7c4e-8d21-3f5a6b7c8d9e";

impl Soaker {
    /// Sends all hostile requests in turn, until the soak is over. Each caller begins with another
    /// one.
    pub(super) async fn attack(mut self, number: usize) {
        let mut turn = u64::try_from(number).unwrap_or_default() * 1_000_000;
        for shape in SHAPES.iter().cycle().skip(number.wrapping_mul(7)) {
            if !self.may_go_on().await {
                return;
            }
            turn += 1;
            self.send(shape, turn).await;
            sleep(PAUSE).await;
        }
    }

    /// Browses an empty queue again and again, each time for as long as possible, until the soak is
    /// over.
    pub(super) async fn browse(mut self) {
        while self.may_go_on().await {
            self.send(&LONG_BROWSE, 0).await;
        }
    }

    /// Waits for the next phase in which hostile callers send. Returns false when the soak is over.
    async fn may_go_on(&mut self) -> bool {
        let is_it = |phase: &Phase| matches!(phase, Phase::HostileWarmUp | Phase::Hostile | Phase::Over);
        self.caller.phase.wait_for(is_it).await.is_ok_and(|phase| *phase != Phase::Over)
    }

    async fn send(&self, shape: &Shape, number: u64) {
        let foreign_batch = self.shared.batch.get().map_or(NO_BATCH, String::as_str).to_owned();
        let turn = Turn { key: Uuid::new_v4().to_string(), number, foreign_batch };
        let _under_way = self.shared.under_way.read().await;
        let answer = self.caller.http.send(&(shape.call)(&turn)).await;
        let outcome = answer.as_ref().map_or("no answer".to_owned(), Answer::outcome);
        self.caller.tally.answered(shape.name, outcome);
        self.shared.check(judge(shape, answer.as_ref()));
    }
}

fn judge(shape: &Shape, answer: Option<&Answer>) -> Result<(), Error> {
    let wrong = |what: String| Err(format!("{}: {what}", shape.name).into());
    let Some(answer) = answer else { return wrong("no answer".to_owned()) };
    if answer.status >= 400 && answer.body.len() > LARGEST_PROBLEM {
        return wrong(format!("a problem of {} bytes", answer.body.len()));
    }
    let is_limit = answer.header("retry-after").is_some()
        && LIMITS.iter().any(|reason| answer.outcome().ends_with(&format!(" {reason}")));
    if shape.expected.contains(&answer.status) || is_limit { Ok(()) } else { wrong(answer.describe()) }
}
