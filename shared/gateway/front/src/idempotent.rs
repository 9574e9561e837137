//! Outcome of a request that must be executed once, after `mq-access` was invoked for it.

use api::{Problem, Reason, Reply};
use endpoint::{WorkDone, WorkFailure};
use idempotency::{Execution, ExpiryBounds, Store, whole_seconds};
use jiff::Timestamp;

use crate::mq_access::InvokeError;

/// Store of the idempotency records, and the limits of the time for which records are kept.
#[derive(Debug)]
pub struct Idempotency {
    /// Client of the DynamoDB table in which requests claim their idempotency records.
    pub store: Store,
    /// Default and maximum of the header `Idempotency-Expiry-Seconds` in this deployment, which
    /// sets for how long a record is kept.
    pub expiry: ExpiryBounds,
}

/// Converts the result of an invocation of `mq-access` to the outcome of the request. A response
/// counts as recorded, because `mq-access` itself writes the idempotency record. Without a
/// response, the work counts as failed if it certainly did not start; otherwise the record is left
/// until its lease expires.
pub(crate) fn outcome(
    answer: Result<Reply, InvokeError>,
    execution: &Execution,
) -> Result<WorkDone, WorkFailure> {
    let unanswered = match answer {
        Ok(reply) => return Ok(WorkDone::Recorded(reply)),
        Err(unanswered) => unanswered,
    };
    unanswered.log();
    let retry_after = whole_seconds(execution.lease_left(Timestamp::now()));
    let problem = match unanswered {
        InvokeError::Lost(_) => {
            let detail = "the work was handed over, but its answer never came; ask again with the same key";
            Problem::new(Reason::OutcomeInDoubt, detail)
        }
        _ => unanswered.as_problem(),
    };
    Err(if unanswered.may_have_run() {
        WorkFailure::InDoubt(problem.retry_after(retry_after))
    } else {
        WorkFailure::Failed(problem)
    })
}
