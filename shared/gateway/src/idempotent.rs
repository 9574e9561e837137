//! Work that must be done once: what becomes of its claim when `mq-access` gives no answer.

use api::{Problem, Reason, Reply};
use endpoint::whole_seconds;
use idempotency::{Execution, ExpiryBounds, Outcome, Store};
use jiff::Timestamp;

use crate::mq_access::{MqAccess, NotAnswered};
use crate::protocol::WorkOrder;

/// The records, and how long a client may have them kept.
#[derive(Debug)]
pub struct Idempotency {
    pub store: Store,
    pub expiry: ExpiryBounds,
}

impl Idempotency {
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
        unanswered.log();
        let retry_after = whole_seconds(execution.lease_left(Timestamp::now()));
        Err(match unanswered {
            NotAnswered::NotStarted(_) | NotAnswered::TooLarge(_) | NotAnswered::NotSent(_) => {
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
