//! Turns a store's errors into problems of the contract.

use api::{Problem, Reason};
use idempotency::StoreError;

/// Answers for a store that failed before anything was executed, or after everything was. Logs the
/// error, with `what` could not be done.
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

#[cfg(test)]
mod tests {
    use api::TraceId;

    use super::*;

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
