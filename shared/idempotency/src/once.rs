//! Events that are handled once.

use std::fmt::Display;
use std::time::Duration;

use reply::Reply;

use crate::claim::{ClaimRequest, Claimed};
use crate::error::StoreError;
use crate::execution::{Execution, Outcome};
use crate::store::{Store, Written};

/// What became of an event. Either way it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled {
    /// The work was done, now.
    Now,
    /// It was done before.
    Before,
}

/// Why an event is not acknowledged.
#[derive(Debug, thiserror::Error)]
pub enum NotHandled<E> {
    /// Another delivery of it is being handled. It may come again after that time.
    #[error("another delivery of this event is being handled")]
    InProgress { retry_after: Duration },
    /// Another event had the same key. It never succeeds, and belongs into the dead-letter queue.
    #[error("another event had the same idempotency key")]
    Conflict,
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The work failed, and is done again when the event comes again.
    #[error("{0}")]
    Work(E),
}

impl Store {
    /// Does an event's work once per `idempotencykey` and fingerprint, for handlers whose effect has no transaction of its own that could
    /// remember the event. A delivery that finds the work done is acknowledged without it.
    ///
    /// A handler that dies in its work, or cannot note the end of it, leaves the record to its lease; the next delivery
    /// after that does the work again. So the work is done at least once, and again only then.
    ///
    /// # Errors
    /// When the event must come again, or can never be handled: [`NotHandled`].
    pub async fn once<E: Display>(
        &self,
        event: &ClaimRequest<'_>,
        work: impl AsyncFnOnce(&Execution) -> Result<(), E>,
    ) -> Result<Handled, NotHandled<E>> {
        let execution = match self.claim(event).await? {
            Claimed::Execute(execution) => execution,
            Claimed::Replay { .. } | Claimed::InDoubt { .. } => return Ok(Handled::Before),
            Claimed::InProgress { retry_after } => return Err(NotHandled::InProgress { retry_after }),
            Claimed::Conflict | Claimed::ReusedTooOften { .. } => return Err(NotHandled::Conflict),
        };
        match work(&execution).await {
            Ok(()) => {
                self.end(&execution, &Outcome::Completed(Reply { status: 204, ..Reply::default() })).await;
                Ok(Handled::Now)
            }
            Err(error) => {
                let outcome = Outcome::Failed { error: error.to_string(), progress: execution.progress };
                self.end(&execution, &outcome).await;
                Err(NotHandled::Work(error))
            }
        }
    }

    /// Ends an execution. A record that cannot be written is left to its lease, and then there is nothing to return; the
    /// work is what it is.
    pub async fn end(&self, execution: &Execution, outcome: &Outcome) -> Option<Written> {
        let finished = self.finish(execution, outcome).await;
        finished
            .inspect_err(|error| {
                tracing::error!(
                    event_type = "idempotency.unavailable",
                    trace_id = execution.trace_id,
                    error = %error,
                    "the record is left to its lease"
                );
            })
            .ok()
    }
}
