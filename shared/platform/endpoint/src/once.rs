//! Work that must be done once for an idempotency key: the check of the limits and the claim before
//! the work, and the end of the idempotency record after it.

use std::time::Duration;

use api::{Problem, Reason, Reply};
use idempotency::{
    ClaimRequest, Claimed, Execution, KeyError, Outcome, Store, WriteOutcome, from_store, in_progress,
    whole_seconds,
};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

use crate::admission::Admission;
use crate::serve::REPLAY;

/// Response of work that was done. The variant tells whether the idempotency record already has it.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkDone {
    /// Response that [`once`] has yet to store in the idempotency record, so that retries receive
    /// it.
    Record(Reply),
    /// Response that is already stored in the idempotency record, by the function that did the
    /// work.
    Recorded(Reply),
}

/// Problem of work that failed. The variant tells whether the work may have been done all the same.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkFailure {
    /// The work was not done. A retry with the same key executes it at once.
    Failed(Problem),
    /// The work may have been done. The idempotency record stays as it is until its lease expires.
    InDoubt(Problem),
}

/// Converts a problem into [`WorkFailure::Failed`], so that `?` in the work means that it was not
/// done.
impl From<Problem> for WorkFailure {
    fn from(problem: Problem) -> Self {
        Self::Failed(problem)
    }
}

/// Executes `work` once for an idempotency key and a request, and answers every retry from the
/// record. Only executed work is charged to the limits of `admission`.
///
/// The limits are checked first, because that usually needs no call, and a refusal then has no
/// claim to undo. A refused request is still answered from its record if it has one, and a request
/// that is answered from its record gets its cost back.
///
/// The reply is returned even if it cannot be stored. The record's lease then expires, and a retry
/// executes the work again, so repeated work must have the same result.
///
/// # Errors
/// The problem of `work`; 409 or 429 if the key is in use or was used for another request; 429 if a
/// limit or the budget refuses the work; and 503 if the store cannot be reached or read.
pub async fn once(
    store: &Store,
    claim: &ClaimRequest<'_>,
    admission: &Admission<'_>,
    work: impl AsyncFnOnce(&Execution) -> Result<WorkDone, WorkFailure>,
) -> Result<Reply, Problem> {
    let ticket = match admission.admit().await {
        Ok(ticket) => ticket,
        // Boxed: few requests are refused, and each one's future would have room for the look.
        Err(refusal) => return Box::pin(recorded(store, claim)).await?.ok_or(refusal),
    };
    // Boxed: the compiler cannot lay out a deeper nest of futures.
    let (claimed, ()) = tokio::join!(Box::pin(claimed(store, claim)), Box::pin(ticket.renew()));
    let execution = match claimed {
        Ok(Granted::Execution(execution)) => execution,
        Ok(Granted::Answer(reply)) => {
            ticket.refund();
            return Ok(reply);
        }
        Err(problem) => {
            ticket.refund();
            return Err(problem);
        }
    };
    let (outcome, answer) = match work(&execution).await {
        Ok(WorkDone::Record(reply)) => (Outcome::Completed(reply.clone()), Ok(reply)),
        Ok(WorkDone::Recorded(reply)) => return admission.end(ticket, Ok(reply)),
        Err(WorkFailure::Failed(problem)) => (execution.failed(&problem), Err(problem)),
        // What was drawn stays charged: the work may have been done.
        Err(WorkFailure::InDoubt(problem)) => return Err(problem),
    };
    let _ = store.end(&execution, &outcome).await;
    admission.end(ticket, answer)
}

/// Result of claiming an idempotency key: the right to execute the work, or the stored response.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, for as long as a request lasts")]
enum Granted {
    Execution(Execution),
    /// The idempotency record has the response to this request, so the work must not be executed.
    Answer(Reply),
}

async fn claimed(store: &Store, request: &ClaimRequest<'_>) -> Result<Granted, Problem> {
    let claimed = store.claim(request).await;
    let claimed = claimed.map_err(|error| from_store(&error, "cannot claim the idempotency record"))?;
    match claimed {
        Claimed::Execute(execution) => Ok(Granted::Execution(execution)),
        Claimed::InDoubt { execution, response } => {
            let outcome = Outcome::Completed(response.clone());
            match Box::pin(store.end(&execution, &outcome)).await {
                Ok(WriteOutcome::Fenced) => Err(in_progress(Duration::from_secs(1))),
                Ok(WriteOutcome::Applied) | Err(_) => Ok(Granted::Answer(response)),
            }
        }
        Claimed::Replay { response, completed_at } => Ok(Granted::Answer(replay(response, completed_at))),
        Claimed::Conflict => Err(conflict()),
        Claimed::OtherRights => Err(other_rights()),
        Claimed::ReusedTooOften { retry_after } => Err(reused_too_often(retry_after)),
        Claimed::InProgress { retry_after } => Err(in_progress(retry_after)),
    }
}

/// Reads the response to a refused request from its idempotency record, without writing to it.
/// `None` if there is no record, or if the record has no response. Fails if the key is in use or
/// was used for another request, or if the record cannot be read.
async fn recorded(store: &Store, request: &ClaimRequest<'_>) -> Result<Option<Reply>, Problem> {
    let found = store.look(request).await;
    let found = found.map_err(|error| from_store(&error, "cannot read the idempotency record"))?;
    match found {
        None | Some(Claimed::Execute(_) | Claimed::InDoubt { .. }) => Ok(None),
        Some(Claimed::Replay { response, completed_at }) => Ok(Some(replay(response, completed_at))),
        Some(Claimed::Conflict) => Err(conflict()),
        Some(Claimed::OtherRights) => Err(other_rights()),
        Some(Claimed::ReusedTooOften { retry_after }) => Err(reused_too_often(retry_after)),
        Some(Claimed::InProgress { retry_after }) => Err(in_progress(retry_after)),
    }
}

fn conflict() -> Problem {
    let detail = "the idempotency key was used with another body; use a new key for a new request";
    Problem::new(Reason::ConflictingIdempotentRequest, detail)
}

fn other_rights() -> Problem {
    let detail = "an API key with other establishments sent this request under this idempotency key; send it with that API key, or under a new idempotency key";
    Problem::new(Reason::ConflictingIdempotentRights, detail)
}

fn reused_too_often(retry_after: Duration) -> Problem {
    let detail = "idempotency keys were used with other bodies too often; use a new key for a new request";
    Problem::new(Reason::KeyReuseAbuse, detail).retry_after(whole_seconds(retry_after))
}

/// Marks a stored reply as a replay: sets `idempotent-replay`, and `last-modified` to the time at
/// which the work was done.
fn replay(mut reply: Reply, completed_at: Timestamp) -> Reply {
    reply.set_header(REPLAY, "true");
    if let Ok(date) = DateTimePrinter::new().timestamp_to_rfc9110_string(&completed_at) {
        reply.set_header("last-modified", date);
    }
    reply
}

/// Returns the problem of a request whose idempotency key is missing or malformed.
#[must_use]
pub fn from_key(error: KeyError) -> Problem {
    let reason = match error {
        KeyError::Missing(_) => Reason::IdempotencyKeyRequired,
        KeyError::Malformed(_) => Reason::IdempotencyKeyMalformed,
    };
    Problem::new(reason, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_keeps_the_body_and_dates_the_first_execution() {
        let stored = Reply::new(201, "application/json", "{\"a\":1}".to_owned());
        let replayed = replay(stored.clone(), Timestamp::from_second(784_111_777).unwrap());
        assert_eq!((replayed.status, &replayed.body), (201, &stored.body));
        assert_eq!(replayed.headers["last-modified"], "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(replayed.headers["idempotent-replay"], "true");
    }
}
