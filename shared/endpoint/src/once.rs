//! Work that must be done once: the claim before it.

use std::time::Duration;

use api::{Problem, Reason, Reply};
use idempotency::{ClaimRequest, Claimed, Execution, KeyError, Outcome, Store, Written};

use crate::problems::from_store;
use crate::replay::{replay, reply};

/// What a claim leads to.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, for as long as a request lasts")]
#[derive(Debug)]
pub enum Granted {
    Execution(Execution),
    /// Answered from the record; nothing is executed.
    Answer(Reply),
}

/// Claims the right to execute, or answers from the record.
///
/// # Errors
/// Both conflicts, too many of them, and 503 when the store cannot be reached or read.
pub async fn claim(store: &Store, request: &ClaimRequest<'_>) -> Result<Granted, Problem> {
    let claimed = store.claim(request).await.map_err(|error| {
        tracing::error!(event_type = "idempotency.unavailable", error = %error, "the claim failed");
        from_store(&error)
    })?;
    match claimed {
        Claimed::Execute(execution) => Ok(Granted::Execution(execution)),
        Claimed::Replay { response, completed_at } => {
            Ok(Granted::Answer(replay(reply(response), completed_at)))
        }
        Claimed::InDoubt { execution, response } => {
            let outcome = Outcome::Completed(response.clone());
            match store.end(&execution, &outcome).await {
                Some(Written::Fenced) => Err(in_progress(Duration::from_secs(1))),
                Some(Written::Done) | None => Ok(Granted::Answer(reply(response))),
            }
        }
        Claimed::Conflict => {
            let detail = "the idempotency key was used with another body; use a new key for a new request";
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

/// Another execution has the record.
pub fn in_progress(retry_after: Duration) -> Problem {
    let detail = "the same request is being executed; its result can be had with the same key";
    Problem::new(Reason::IdempotentRequestInProgress, detail).retry_after(whole_seconds(retry_after))
}

/// A request without a usable key.
pub fn from_key(error: KeyError) -> Problem {
    let reason = match error {
        KeyError::Missing => Reason::IdempotencyKeyRequired,
        KeyError::Malformed(_) => Reason::IdempotencyKeyMalformed,
    };
    Problem::new(reason, error.to_string())
}

/// For `Retry-After`: rounded up, and never 0.
pub fn whole_seconds(duration: Duration) -> u32 {
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
