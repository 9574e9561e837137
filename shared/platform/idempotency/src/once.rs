//! Work without a response that is done once, as for a message that may be delivered several times.

use std::fmt::Display;
use std::time::Duration;

use api::Reply;

use crate::claim::{ClaimRequest, Claimed};
use crate::error::StoreError;
use crate::execution::{Execution, Outcome};
use crate::store::Store;

/// Result of a delivery. Either way it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The work was executed now.
    Executed,
    /// The work was done for an earlier delivery.
    Duplicate,
}

/// Reason why a delivery is not acknowledged.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum OnceError<E> {
    /// Another delivery is being worked on. Retry after that time.
    #[error("another delivery with this key is being worked on")]
    InProgress { retry_after: Duration },
    /// The key was used for something else. No retry succeeds; it belongs in the dead-letter queue.
    #[error("the idempotency key was used for something else")]
    Conflict,
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The work failed, and the next delivery repeats it.
    #[error("{0}")]
    Work(E),
}

impl Store {
    /// Does `work` once per key and fingerprint, for work whose effect has no transaction of its
    /// own that could remember the key. A delivery that finds the work done is acknowledged without
    /// it.
    ///
    /// A program that dies in its work, or cannot write its record, leaves the record to its lease;
    /// the next delivery after that does the work again. So the work is done at least once, and
    /// again only then.
    ///
    /// # Errors
    /// If the delivery must be retried, or can never succeed: [`OnceError`].
    pub async fn once<E: Display>(
        &self,
        claim: &ClaimRequest<'_>,
        work: impl AsyncFnOnce(&Execution) -> Result<(), E>,
    ) -> Result<Delivery, OnceError<E>> {
        let execution = match self.claim(claim).await? {
            Claimed::Execute(execution) => execution,
            Claimed::Replay { .. } | Claimed::InDoubt { .. } => return Ok(Delivery::Duplicate),
            Claimed::InProgress { retry_after } => return Err(OnceError::InProgress { retry_after }),
            Claimed::Conflict | Claimed::OtherRights | Claimed::ReusedTooOften { .. } => {
                return Err(OnceError::Conflict);
            }
        };
        let done = work(&execution).await;
        let outcome = match &done {
            Ok(()) => Outcome::Completed(Reply { status: 204, ..Reply::default() }),
            Err(error) => execution.failed(error),
        };
        // The delivery's result is the work's, whether the record could be written or not.
        let _ = self.end(&execution, &outcome).await;
        done.map(|()| Delivery::Executed).map_err(OnceError::Work)
    }
}
