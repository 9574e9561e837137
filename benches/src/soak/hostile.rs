//! A caller that sends the worst that is known, one request after the other, while its phase lasts.

use std::time::Duration;

use tokio::time::sleep;

use super::caller::Caller;
use super::shapes::{LONG_BROWSE, SHAPES, Shape, Turn};
use crate::http_client::Answer;

/// A little of the machine is left to those whom it does not attack: everything runs on the same
/// processors here.
const PAUSE: Duration = Duration::from_millis(250);
/// The largest problem document.
const LARGEST_PROBLEM: usize = 4096;
/// Reasons that may be the answer to anything: a limit that says when to come back.
const LIMITS: [&str; 4] = ["TENANT_RATE_LIMIT", "KEY_REUSE_ABUSE", "BUSY", "POOL_TIMEOUT"];

/// First number of a hostile caller: their keys are others than those of well-behaved ones.
pub(super) const HOSTILE: usize = 0x8000;

impl Caller {
    /// Sends all shapes in turn. Each caller begins with another one.
    pub(super) async fn attack(mut self) {
        let number = self.number - HOSTILE;
        let mut turn = u64::try_from(number).unwrap_or_default() * 1_000_000;
        for shape in SHAPES.iter().cycle().skip(number.wrapping_mul(7)) {
            if shape.name == LONG_BROWSE.name {
                continue;
            }
            if !self.may_go_on().await {
                return;
            }
            turn += 1;
            let key = self.keys.next();
            self.send(shape, &self.turn(key, turn)).await;
            sleep(PAUSE).await;
        }
    }

    /// Sends one long browse after the other.
    pub(super) async fn browse(mut self) {
        while self.may_go_on().await {
            self.send(&LONG_BROWSE, &self.turn(String::new(), 0)).await;
        }
    }

    fn turn(&self, key: String, number: u64) -> Turn {
        Turn { key, number, foreign_batch: self.tally.a_batch() }
    }

    /// Waits for its phase, and returns false when all is over.
    async fn may_go_on(&mut self) -> bool {
        let mut running = self.running.clone();
        tokio::select! {
            hostile = self.phase.wait_for(|phase| phase.has_hostile_callers()) => hostile.is_ok(),
            _ = running.wait_for(|running| !running) => false,
        }
    }

    async fn send(&self, shape: &Shape, turn: &Turn) {
        let _under_way = self.tally.hostile_request();
        let answer = self.http.send(&(shape.call)(turn)).await;
        self.tally.answered(shape.name, answer.as_ref().map_or("no answer".to_owned(), Answer::outcome));
        if let Err(what) = judge(shape, answer.as_ref()) {
            self.tally.wrong(&format!("{}: {what}", shape.name));
        }
    }
}

fn judge(shape: &Shape, answer: Option<&Answer>) -> Result<(), String> {
    let Some(answer) = answer else { return Err("no answer".to_owned()) };
    if answer.status >= 400 && answer.body.len() > LARGEST_PROBLEM {
        return Err(format!("a problem of {} bytes", answer.body.len()));
    }
    let is_limit = answer.header("retry-after").is_some()
        && LIMITS.iter().any(|reason| answer.outcome().ends_with(&format!(" {reason}")));
    if shape.expected.contains(&answer.status) || is_limit { Ok(()) } else { Err(answer.describe()) }
}
