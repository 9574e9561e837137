//! Store of idempotency records: a DynamoDB table, and an S3 bucket for bodies that are too large
//! for a record.

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

/// Result of a conditional write by an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The write was made.
    Applied,
    /// Nothing was written, because another execution owns the record now.
    Fenced,
}

/// Store of idempotency records in DynamoDB, and of large responses in S3.
#[derive(Clone, Debug)]
pub struct Store {
    dynamodb: Client,
    table: String,
    bucket: Option<Bucket>,
    reuse: Arc<ReuseCounter>,
    audit: Arc<dyn Audit>,
}

impl Store {
    /// Creates a store that keeps records in `table`. Without a bucket, responses must fit into a
    /// record.
    #[must_use]
    pub fn new(dynamodb: Client, table: String) -> Self {
        let reuse = Arc::new(ReuseCounter::new(ReuseLimits::default()));
        Self { dynamodb, table, bucket: None, reuse, audit: Arc::new(Log) }
    }

    /// Sets the bucket for response bodies that are too large for a record. They are stored under
    /// `results/1d/`, `2d/`, `8d/` and `32d/`; the bucket needs a lifecycle rule for each, which
    /// deletes objects after this number of days.
    #[must_use]
    pub fn with_bucket(self, s3: aws_sdk_s3::Client, bucket: String) -> Self {
        Self { bucket: Some(Bucket::new(s3, bucket)), ..self }
    }

    /// Replaces the default limits to key conflicts (requests that reuse a key with another body or
    /// other rights). Above them, a conflict is refused as
    /// [`ReusedTooOften`](crate::Claimed::ReusedTooOften).
    #[must_use]
    pub fn with_reuse_limits(self, limits: ReuseLimits) -> Self {
        Self { reuse: Arc::new(ReuseCounter::new(limits)), ..self }
    }

    /// Replaces the receiver of audit events, which is the log by default.
    #[must_use]
    pub fn with_audit(self, audit: Arc<dyn Audit>) -> Self {
        Self { audit, ..self }
    }

    /// Returns the execution with the progress with which it begins at `place` (for example a
    /// queue). The call must precede all work at the place. If earlier attempts worked at another
    /// place, the execution begins with the first unit again, and the record is updated; otherwise
    /// nothing is written. Returns `None` if another execution owns the record now.
    ///
    /// # Errors
    /// If the store cannot be reached. No unit may then be done at the place.
    pub async fn arrive(&self, execution: &Execution, place: Place) -> Result<Option<Execution>, StoreError> {
        let (arrived, has_moved) = execution.at(place);
        if !has_moved {
            return Ok(Some(arrived));
        }
        let (progress, place_history) = (arrived.progress, arrived.place_history.clone());
        let noted = Transition::Checkpoint { token: arrived.token(), progress, place_history, now: now() };
        Ok(match Box::pin(self.settle(&arrived, &noted, Detail::None)).await? {
            WriteOutcome::Applied => Some(arrived),
            WriteOutcome::Fenced => None,
        })
    }

    /// Records the progress of an execution, if the execution still owns the record and the record
    /// has less progress.
    ///
    /// # Errors
    /// If the store cannot be reached. The work may go on; after a crash, units (for example
    /// messages) beyond the last recorded checkpoint are in doubt: they may have been done.
    pub async fn checkpoint(
        &self,
        execution: &Execution,
        progress: Progress,
    ) -> Result<WriteOutcome, StoreError> {
        let begun = execution.progress;
        if progress.done <= begun.done && progress.repeated <= begun.repeated {
            return Ok(WriteOutcome::Applied);
        }
        let place_history = execution.place_history.clone();
        let checkpoint =
            Transition::Checkpoint { token: execution.token(), progress, place_history, now: now() };
        self.settle(execution, &checkpoint, Detail::None).await
    }

    /// Stores the response of an execution that still owns its record, before the effect of the
    /// work (for example that messages are removed) is made final. A body that is too large for a
    /// record is written to the bucket first.
    ///
    /// # Errors
    /// If the store cannot be reached. It is then unknown whether the response was stored, so the
    /// effect must not be made final.
    pub async fn prepare(
        &self,
        execution: &Execution,
        prepared: &Prepared,
    ) -> Result<WriteOutcome, StoreError> {
        let response = results::store(self.bucket.as_ref(), execution, prepared.response()).await?;
        let prepare = Transition::Prepare { token: execution.token(), response, now: now() };
        self.settle(execution, &prepare, Detail::None).await
    }

    /// Ends an execution that still owns its record, which must be in progress or prepared. The
    /// retention starts again now.
    ///
    /// # Errors
    /// If the record could not be written, which is also logged. The work stays done, and the lease
    /// of the record will expire.
    pub async fn end(&self, execution: &Execution, outcome: &Outcome) -> Result<WriteOutcome, StoreError> {
        self.end_measured(execution, outcome, None).await
    }

    /// Ends the execution as [`Self::end`] does, and stores the volume of the request's work for
    /// the usage statistics. `None` keeps the volume that an earlier attempt stored.
    ///
    /// # Errors
    /// If the record could not be written, as in [`Self::end`].
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
                let place_history = execution.place_history.clone();
                let fail = Transition::Fail { token, progress: *progress, place_history, now, retention };
                (fail, Detail::Failed { took, volume, error, in_doubt: *in_doubt })
            }
        };
        self.settle(execution, &transition, detail).await
    }

    /// Records that the response is prepared, but it is unknown whether the effect of the work is
    /// final. The status of the record does not change. Readers of the table's stream see the doubt
    /// at once ([`Doubtful`](crate::Doubtful)).
    ///
    /// # Errors
    /// If the store cannot be reached. Readers of the stream then see the doubt when the record is
    /// taken over or expires.
    pub async fn note_doubt(&self, execution: &Execution) -> Result<WriteOutcome, StoreError> {
        let token = execution.token();
        let noted = dynamodb::note_doubt(&self.dynamodb, &self.table, &execution.pk, &token, now());
        Ok(if noted.await? { WriteOutcome::Applied } else { WriteOutcome::Fenced })
    }

    /// Makes a write of an execution. If the condition fails because the same write was made before
    /// and only DynamoDB's response was lost, the result is `Applied`.
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

    /// Reads the history of the request of `tenant` under `key`. Returns `None` if there is no
    /// record, or if it has expired. The operation must not have keys per target.
    ///
    /// # Errors
    /// If the store cannot be reached, or the record cannot be parsed.
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

    /// Checks that the table responds, by reading a key that need not exist.
    ///
    /// # Errors
    /// If the table cannot be reached.
    pub async fn probe(&self) -> Result<(), StoreError> {
        let probe = self.dynamodb.get_item().table_name(&self.table).key("pk", text("PROBE#"));
        probe.send().await.map(|_| ()).map_err(StoreError::unavailable)
    }
}

/// Returns the present time in whole milliseconds, the precision of stored times. So a time that is
/// stored and read back equals the original.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}
