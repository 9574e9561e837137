//! Work that is done once although its message may be delivered several times, and that has no
//! response to replay.

use std::fmt::Display;
use std::time::Duration;

use api::Reply;

use crate::claim::{ClaimRequest, Claimed};
use crate::error::StoreError;
use crate::execution::{Execution, Outcome};
use crate::store::Store;

/// Result of a delivery whose message can be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The work was done for this delivery.
    Executed,
    /// The work was not repeated, because an earlier delivery has done it.
    Duplicate,
}

/// Reason why the message of a delivery must not be acknowledged.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum OnceError<E> {
    /// Another delivery with this key is being worked on. Retry after `retry_after`.
    #[error("another delivery with this key is being worked on")]
    InProgress { retry_after: Duration },
    /// The key was used for another message, or with other content. No retry can succeed: the
    /// message belongs in the dead-letter queue.
    #[error("the idempotency key was used for something else")]
    Conflict,
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The work failed. The next delivery does it again.
    #[error("{0}")]
    Work(E),
}

impl Store {
    /// Does `work` once for each idempotency key and fingerprint. Later deliveries return
    /// [`Delivery::Duplicate`] without doing the work. This is for work that cannot store the key
    /// in the same transaction as its effect.
    ///
    /// If the program dies during the work, or cannot write the record afterwards, a delivery after
    /// the end of the lease does the work again. So the work is done at least once, and more often
    /// only in these two cases.
    ///
    /// # Errors
    /// If the message must be delivered again, or can never be processed: see [`OnceError`].
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
