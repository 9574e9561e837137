//! The table of records, and the bucket of bodies that are too large for a record.

mod attachments;
mod claims;

use std::sync::Arc;
use std::time::Duration;

use api::idempotency_key::IdempotencyKey;
use aws_sdk_dynamodb::Client;
use jiff::Timestamp;

use crate::audit::{Audit, AuditEntry, AuditEvent, Log};
use crate::dynamodb::{self, Detail, text, write};
use crate::error::StoreError;
use crate::execution::{Execution, Outcome, Volume};
use crate::operation::OperationType;
use crate::prepared::Prepared;
use crate::protocol::{Place, Progress, Transition};
use crate::results::{self, Bucket};
use crate::reuse::{ReuseCounter, ReuseLimits};
use crate::timeline::{self, Timeline};

/// Result of a write with an execution's token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The conditional write took effect.
    Applied,
    /// Another execution owns the record by now; nothing was written.
    Fenced,
}

/// Records in DynamoDB, and large responses in S3.
#[derive(Clone, Debug)]
pub struct Store {
    dynamodb: Client,
    table: String,
    bucket: Option<Bucket>,
    reuse: Arc<ReuseCounter>,
    audit: Arc<dyn Audit>,
}

impl Store {
    /// Creates a store that keeps records in `table`, and responses only as far as a record can
    /// hold them.
    #[must_use]
    pub fn new(dynamodb: Client, table: String) -> Self {
        let reuse = Arc::new(ReuseCounter::new(ReuseLimits::default()));
        Self { dynamodb, table, bucket: None, reuse, audit: Arc::new(Log) }
    }

    /// Sets the bucket for bodies that are too large for a record. They are under `results/` of
    /// `bucket`, in the classes of life that its rules must have: `results/1d/`, `2d`, `8d` and
    /// `32d`.
    #[must_use]
    pub fn with_bucket(self, s3: aws_sdk_s3::Client, bucket: String) -> Self {
        Self { bucket: Some(Bucket::new(s3, bucket)), ..self }
    }

    /// Sets the limits by which keys that are used with other bodies are refused, instead of the
    /// default ones.
    #[must_use]
    pub fn with_reuse_limits(self, limits: ReuseLimits) -> Self {
        Self { reuse: Arc::new(ReuseCounter::new(limits)), ..self }
    }

    /// Sets the receiver of all events, instead of the log.
    #[must_use]
    pub fn with_audit(self, audit: Arc<dyn Audit>) -> Self {
        Self { audit, ..self }
    }

    /// Takes an execution to the place where it will work, before it does any unit there. If
    /// earlier attempts did units at another place, it begins again at this one, and the record has
    /// that when this returns; only that case takes a write. `None` if another execution owns the
    /// record by now.
    ///
    /// # Errors
    /// If the store cannot be reached; nothing may be done at the place then.
    pub async fn arrive(&self, execution: &Execution, place: Place) -> Result<Option<Execution>, StoreError> {
        let (arrived, has_moved) = execution.at(place);
        if !has_moved {
            return Ok(Some(arrived));
        }
        let (progress, whereabouts) = (arrived.progress, arrived.whereabouts.clone());
        let noted = Transition::Checkpoint { token: arrived.token(), progress, whereabouts, now: now() };
        Ok(match Box::pin(self.settle(&arrived, &noted, Detail::None)).await? {
            WriteOutcome::Applied => Some(arrived),
            WriteOutcome::Fenced => None,
        })
    }

    /// Records the progress of the work, on the condition that the record is in progress under the
    /// execution's owner and attempt, and has no further progress already.
    ///
    /// # Errors
    /// If the store cannot be reached. The work may go on: units that are not noted are in doubt
    /// after a crash.
    pub async fn checkpoint(
        &self,
        execution: &Execution,
        progress: Progress,
    ) -> Result<WriteOutcome, StoreError> {
        let begun = execution.progress;
        if progress.done <= begun.done && progress.repeated <= begun.repeated {
            return Ok(WriteOutcome::Applied);
        }
        let whereabouts = execution.whereabouts.clone();
        let checkpoint =
            Transition::Checkpoint { token: execution.token(), progress, whereabouts, now: now() };
        self.settle(execution, &checkpoint, Detail::None).await
    }

    /// Stores the response before the side effect is made final, on the condition that the record
    /// is still in progress under the execution's owner and attempt. A body that is too large for a
    /// record is in the bucket before.
    ///
    /// # Errors
    /// If the store cannot be reached; it is then unknown whether the response was stored, and the
    /// side effect must not be made final.
    pub async fn prepare(
        &self,
        execution: &Execution,
        prepared: &Prepared,
    ) -> Result<WriteOutcome, StoreError> {
        let response = results::store(self.bucket.as_ref(), execution, prepared.response()).await?;
        let prepare = Transition::Prepare { token: execution.token(), response, now: now() };
        self.settle(execution, &prepare, Detail::None).await
    }

    /// Ends the execution, on the condition that the record is in progress or prepared under its
    /// owner and attempt. The retention counts from then on.
    ///
    /// # Errors
    /// If the record could not be written, which the log says: its lease will expire, and the work
    /// stays done.
    pub async fn end(&self, execution: &Execution, outcome: &Outcome) -> Result<WriteOutcome, StoreError> {
        self.end_measured(execution, outcome, None).await
    }

    /// Ends the execution as [`Self::end`] does, and notes the volume of the request's work. `None`
    /// leaves the volume that an earlier attempt noted.
    ///
    /// # Errors
    /// As those of [`Self::end`].
    pub async fn end_measured(
        &self,
        execution: &Execution,
        outcome: &Outcome,
        volume: Option<Volume>,
    ) -> Result<WriteOutcome, StoreError> {
        self.write_end(execution, outcome, volume).await.inspect_err(|error| {
            let error: &dyn std::error::Error = error;
            tracing::error!(
                event_type = "idempotency.unavailable",
                trace_id = execution.trace_id,
                error,
                "cannot end the idempotency record of request {}; its lease will expire: {error}",
                execution.trace_id
            );
        })
    }

    async fn write_end(
        &self,
        execution: &Execution,
        outcome: &Outcome,
        volume: Option<Volume>,
    ) -> Result<WriteOutcome, StoreError> {
        let (token, retention) = (execution.token(), execution.retention());
        let response = match outcome {
            Outcome::Completed(response) => {
                Some(results::store(self.bucket.as_ref(), execution, response).await?)
            }
            Outcome::AsPrepared | Outcome::Failed { .. } => None,
        };
        let now = now();
        let took = Duration::try_from(now.duration_since(execution.claimed_at)).unwrap_or_default();
        let (transition, detail) = match outcome {
            Outcome::Completed(_) | Outcome::AsPrepared => {
                (Transition::Complete { token, response, now, retention }, Detail::Took { took, volume })
            }
            Outcome::Failed { error, progress, in_doubt } => {
                let whereabouts = execution.whereabouts.clone();
                let fail = Transition::Fail { token, progress: *progress, whereabouts, now, retention };
                (fail, Detail::Failed { took, volume, error, in_doubt: *in_doubt })
            }
        };
        self.settle(execution, &transition, detail).await
    }

    /// Records that the effect of a prepared response may have become final, or not. Other readers
    /// see the record unchanged; readers of the table's stream learn of the doubt at once
    /// ([`Doubtful`](crate::Doubtful)).
    ///
    /// # Errors
    /// If the store cannot be reached. The stream then shows the doubt once the record is taken
    /// over.
    pub async fn note_doubt(&self, execution: &Execution) -> Result<WriteOutcome, StoreError> {
        let token = execution.token();
        let noted = dynamodb::note_doubt(&self.dynamodb, &self.table, &execution.pk, &token, now());
        Ok(if noted.await? { WriteOutcome::Applied } else { WriteOutcome::Fenced })
    }

    /// Sends a write of the execution's own. A write that is found to be done already lost only its
    /// response.
    async fn settle(
        &self,
        execution: &Execution,
        transition: &Transition,
        detail: Detail<'_>,
    ) -> Result<WriteOutcome, StoreError> {
        let written = write(&self.dynamodb, &self.table, &execution.pk, transition, detail).await?;
        match written {
            Err(found) if !transition.is_done_in(&found) => {
                self.audit.note(&AuditEntry::of_execution(AuditEvent::Fenced, execution));
                Ok(WriteOutcome::Fenced)
            }
            Ok(()) | Err(_) => Ok(WriteOutcome::Applied),
        }
    }

    /// Reads what happened to the request of `tenant` under `key`; `None` if there was none, or if
    /// a claim may use the key anew. The operation must not have keys per target.
    ///
    /// # Errors
    /// If the store cannot be reached, or the record cannot be read.
    pub async fn timeline(
        &self,
        operation: OperationType,
        tenant: &str,
        key: &IdempotencyKey,
    ) -> Result<Option<Timeline>, StoreError> {
        let pk = operation.pk(tenant, key.as_str(), "");
        let found = timeline::read(&self.dynamodb, &self.table, &pk).await?;
        let now = now();
        Ok(found.filter(|timeline| !timeline.has_expired(now)))
    }

    /// Checks the store by reading a record that need not exist.
    ///
    /// # Errors
    /// If the store cannot be reached.
    pub async fn probe(&self) -> Result<(), StoreError> {
        let probe = self.dynamodb.get_item().table_name(&self.table).key("pk", text("PROBE#"));
        probe.send().await.map(|_| ()).map_err(StoreError::unavailable)
    }
}

/// Returns the present time in whole milliseconds, as records store it: a value that is derived
/// from a time must be the same when it is derived again.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}
