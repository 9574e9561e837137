//! Work that must be done once: the outcome of its record after `mq-access` was asked to do it.

use api::{Problem, Reason, Reply};
use endpoint::{WorkDone, WorkFailure};
use idempotency::{Execution, ExpiryBounds, Store, whole_seconds};
use jiff::Timestamp;

use crate::mq_access::InvokeError;

/// Store of the idempotency records, and the limits of their retention.
#[derive(Debug)]
pub struct Idempotency {
    /// Store of the idempotency records.
    pub store: Store,
    /// Minimum and maximum of `Idempotency-Expiry-Seconds` in this deployment.
    pub expiry: ExpiryBounds,
}

/// Converts the response to an order into the outcome for its idempotency record, which `mq-access`
/// writes if it executes the order. Without a response, the work counts as failed if it certainly
/// did not start; otherwise the record is left until its lease expires.
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
