//! Work that must be done once: the claim before it, and what becomes of the claim when `mq-access` gives no answer.

use std::time::Duration;

use api::{Problem, Reason, Reply};
use idempotency::{ClaimRequest, Claimed, Execution, ExpiryBounds, KeyError, Outcome, Store, Written};
use jiff::Timestamp;

use crate::mq_access::{MqAccess, NotAnswered};
use crate::problems::from_store;
use crate::protocol::WorkOrder;
use crate::replay::{in_doubt, recorded, replay, reply};

/// The records, and how long a client may have them kept.
#[derive(Debug)]
pub struct Idempotency {
    pub store: Store,
    pub expiry: ExpiryBounds,
}

/// What a claim leads to.
pub(crate) enum Granted {
    Execution(Execution),
    /// Answered from the record; nothing is executed.
    Answer(Reply),
}

impl Idempotency {
    /// # Errors
    /// Both conflicts, too many of them, and 503 when the store cannot be reached or read.
    pub(crate) async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Granted, Problem> {
        let claimed = self.store.claim(request).await.map_err(|error| {
            tracing::error!(event_type = "idempotency.unavailable", error = %error, "the claim failed");
            from_store(&error)
        })?;
        match claimed {
            Claimed::Execute(execution) => Ok(Granted::Execution(execution)),
            Claimed::Replay { response, completed_at } => {
                Ok(Granted::Answer(replay(reply(response), completed_at)))
            }
            Claimed::InDoubt { execution, response } => {
                let reply = in_doubt(reply(response));
                let outcome = Outcome::Completed(recorded(reply.clone()));
                match self.store.end(&execution, &outcome).await {
                    Some(Written::Fenced) => Err(in_progress(Duration::from_secs(1))),
                    Some(Written::Done) | None => Ok(Granted::Answer(reply)),
                }
            }
            Claimed::Conflict => {
                let detail =
                    "the idempotency key was used with another body; use a new key for a new request";
                Err(Problem::new(Reason::ConflictingIdempotentRequest, detail))
            }
            Claimed::ReusedTooOften { retry_after } => {
                let detail =
                    "idempotency keys were used with other bodies too often; use a new key for a new request";
                Err(Problem::new(Reason::KeyReuseAbuse, detail).retry_after(whole_seconds(retry_after)))
            }
            Claimed::InProgress { retry_after } => Err(in_progress(retry_after)),
        }
    }

    /// Hands the work over. From here on `mq-access` writes the record, except where it was certainly never started;
    /// where its answer is missing, the record is left to its lease.
    ///
    /// # Errors
    /// 503 when the work never started, 504 and 502 when its answer is missing.
    pub(crate) async fn execute(
        &self,
        mq_access: &MqAccess,
        order: &WorkOrder,
        execution: &Execution,
    ) -> Result<Reply, Problem> {
        let unanswered = match mq_access.execute(order).await {
            Ok(reply) => return Ok(reply),
            Err(unanswered) => unanswered,
        };
        tracing::error!(event_type = "mq_access.unanswered", error = %unanswered, "the work was handed over without an answer");
        let retry_after = whole_seconds(execution.lease_left(Timestamp::now()));
        Err(match unanswered {
            NotAnswered::NotStarted(_) => {
                let outcome = Outcome::Failed { error: unanswered.to_string(), progress: execution.progress };
                self.store.end(execution, &outcome).await;
                unanswered.as_problem()
            }
            NotAnswered::TimedOut => unanswered.as_problem().retry_after(retry_after),
            NotAnswered::Lost(_) => {
                let detail =
                    "the work was handed over, but its answer never came; ask again with the same key";
                Problem::new(Reason::OutcomeInDoubt, detail).retry_after(retry_after)
            }
        })
    }
}

/// Another execution has the record.
pub fn in_progress(retry_after: Duration) -> Problem {
    let detail = "the same request is being executed; its result can be had with the same key";
    Problem::new(Reason::IdempotentRequestInProgress, detail).retry_after(whole_seconds(retry_after))
}

pub(crate) fn from_key(error: KeyError) -> Problem {
    let reason = match error {
        KeyError::Missing => Reason::IdempotencyKeyRequired,
        KeyError::Malformed(_) => Reason::IdempotencyKeyMalformed,
    };
    Problem::new(reason, error.to_string())
}

/// For `Retry-After`: rounded up, and never 0.
fn whole_seconds(duration: Duration) -> u32 {
    let seconds = duration.as_millis().div_ceil(1000).max(1);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_rounded_up_and_never_zero() {
        assert_eq!(whole_seconds(Duration::ZERO), 1);
        assert_eq!(whole_seconds(Duration::from_millis(1_001)), 2);
        assert_eq!(whole_seconds(Duration::from_secs(32)), 32);
    }
}
