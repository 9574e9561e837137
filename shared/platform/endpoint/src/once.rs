//! Work that must be done once: the limits and the claim before it, and the end of its record after
//! it.

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

/// Result of work.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkDone {
    /// [`once`] records the reply, and retries get it again.
    Record(Reply),
    /// The reply was recorded already, by the function that did the work.
    Recorded(Reply),
}

/// Reason why work was not done, or is in doubt.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkFailure {
    /// The work certainly was not done: a retry with the same key does it at once.
    Failed(Problem),
    /// The work may have been done. The record stays as it is until its lease expires.
    InDoubt(Problem),
}

/// Converts a problem that `?` returns: the work was not done.
impl From<Problem> for WorkFailure {
    fn from(problem: Problem) -> Self {
        Self::Failed(problem)
    }
}

/// Does `work` once for a key and a request, and responds to every retry from the record. Only work
/// that is executed draws from the limits of `admission`.
///
/// The limits are asked first, because a share of them lies in this process, and the record second:
/// a refusal never has to undo a claim. For the client the record comes first. A request that the
/// limits refuse still gets the response of its record, by one read, and one that the record
/// answers gets its cost back.
///
/// The reply is returned even if its record cannot be written. The record's lease then expires, and
/// a retry does the work again. So the work must have the same result when it is repeated.
///
/// # Errors
/// The problem of `work`, 409 and 429 for a key that is in use or was used for another request, 429
/// for work that a limit or the budget does not allow now, and 503 if the store cannot be reached
/// or read.
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

/// Outcome of claiming the idempotency key.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, for as long as a request lasts")]
enum Granted {
    Execution(Execution),
    /// The response comes from the record; the work is not executed.
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

/// Responds from the record to a request that may not execute, without a write. `None` if there is
/// no record, or none that answers.
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

/// Marks the stored reply as a replay of work that was first done at `completed_at`.
fn replay(mut reply: Reply, completed_at: Timestamp) -> Reply {
    reply.set_header(REPLAY, "true");
    if let Ok(date) = DateTimePrinter::new().timestamp_to_rfc9110_string(&completed_at) {
        reply.set_header("last-modified", date);
    }
    reply
}

/// Returns the problem of a request without a usable key.
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
