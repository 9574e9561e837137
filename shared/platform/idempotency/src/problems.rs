//! Problem responses for errors of the idempotency store.

use std::time::Duration;

use crate::StoreError;
use api::{Problem, Reason};

/// Builds the problem response for a store error that occurred before the work started or after it
/// ended. Logs the error with the text `what`, which says what could not be done.
pub fn from_store(error: &StoreError, what: &str) -> Problem {
    let cause: &dyn std::error::Error = error;
    let event_type = match error {
        StoreError::Unreadable(_) => "idempotency.unreadable",
        StoreError::Unavailable(_) | StoreError::TooLarge { .. } | StoreError::Unlabelled(_) => {
            "idempotency.unavailable"
        }
    };
    tracing::error!(event_type, error = cause, "{what}");
    let detail = match error {
        StoreError::Unavailable(_) => {
            "the idempotency store cannot be reached; this attempt executed nothing"
        }
        StoreError::Unreadable(_) => {
            "the request was executed before and will not be executed again, but its stored result cannot be read"
        }
        StoreError::TooLarge { .. } => {
            "the result does not fit into the idempotency store; nothing was executed"
        }
        StoreError::Unlabelled(_) => {
            "a result that is in doubt cannot say so, and is neither answered nor recorded"
        }
    };
    Problem::new(Reason::StoreUnavailable, detail)
}

/// Returns the problem response for a request that another attempt is executing.
#[must_use]
pub fn in_progress(retry_after: Duration) -> Problem {
    let detail = "the same request is being executed; ask again with the same key";
    Problem::new(Reason::IdempotentRequestInProgress, detail).retry_after(whole_seconds(retry_after))
}

/// Rounds a duration up to whole seconds for `Retry-After`; the result is at least 1.
#[must_use]
pub fn whole_seconds(duration: Duration) -> u32 {
    let seconds = duration.as_millis().div_ceil(1000).max(1);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use api::TraceId;

    use super::*;

    #[test]
    fn retry_after_is_rounded_up_and_never_zero() {
        assert_eq!(whole_seconds(Duration::ZERO), 1);
        assert_eq!(whole_seconds(Duration::from_millis(1_001)), 2);
        assert_eq!(whole_seconds(Duration::from_secs(32)), 32);
    }

    #[test]
    fn a_client_reads_nothing_of_why_the_store_failed() {
        for error in [
            StoreError::Unavailable("theirs".into()),
            StoreError::Unreadable("theirs".into()),
            StoreError::TooLarge { bytes: 7 },
            StoreError::Unlabelled("theirs".into()),
        ] {
            let sent = from_store(&error, "a test").to_reply(&TraceId::new());
            assert!(sent.status == 503 && !sent.body.contains("theirs"), "{}", sent.body);
        }
    }
}
