//! The table of records, and the bucket of bodies that are too large for a record.

use std::sync::Arc;
use std::time::Duration;

use api::Reply;
use api::idempotency_key::{Fingerprint, IdempotencyKey};
use aws_sdk_dynamodb::Client;
use jiff::Timestamp;
use uuid::Uuid;

use crate::attachment::AttachmentId;
use crate::audit::{Audit, AuditEntry, AuditEvent, Log};
use crate::claim::{ClaimRequest, Claimed};
use crate::dynamodb::{self, Detail, read, text, write};
use crate::error::StoreError;
use crate::execution::{Execution, Outcome, Volume};
use crate::operation::OperationType;
use crate::prepared::Prepared;
use crate::protocol::{Decision, Place, Progress, Record, Status, Transition, decide};
use crate::results::{self, Bucket};
use crate::reuse::{ReuseCounter, ReuseLimits};
use crate::timeline::{self, Timeline};

/// Number of times that a claim reads again after a lost race before its result is "in progress".
const RACES: usize = 3;

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

    /// Claims the right to execute, by `<operation>#<tenant>#<key>` (for an event, with its handler
    /// behind): one put that reads nothing. If its condition fails, the record that comes back
    /// decides; a takeover is a second write, on the condition that the record is still the one
    /// that was seen.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be reached; nothing may be executed then.
    /// [`StoreError::Unreadable`] if it was executed before and its response cannot be read, and
    /// [`StoreError::Unlabelled`] if that response is in doubt and has no place for the label.
    pub async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claimed, StoreError> {
        let owner = Uuid::now_v7().to_string();
        let claim = Transition::Claim {
            request_hash: request.fingerprint.to_string(),
            owner: owner.clone(),
            now: now(),
            retention: request.retention,
        };
        let Err(mut found) = self.send(request, &claim).await? else {
            return match claim.apply(None) {
                Some(record) => self.granted(request, &record).await,
                None => Ok(self.in_progress(request, Duration::from_secs(1))),
            };
        };
        for _ in 0..RACES {
            let decision = decide(&found, request.fingerprint.as_str(), &owner, now(), request.retention);
            match decision {
                Decision::Own => return self.granted(request, &found).await,
                Decision::Conflict => return Ok(self.conflict(request, Claimed::Conflict).await),
                _ if !found.answers(request.rights.map(Fingerprint::as_str)) => {
                    return Ok(self.conflict(request, Claimed::OtherRights).await);
                }
                Decision::Replay => return self.replay(request, &found).await,
                Decision::InProgress { retry_after } => return Ok(self.in_progress(request, retry_after)),
                Decision::TakeOver(take_over) => match self.send(request, &take_over).await? {
                    Ok(()) => {
                        let taken = take_over.apply(Some(&found)).unwrap_or(found);
                        return self.granted(request, &taken).await;
                    }
                    Err(other) => found = other,
                },
            }
        }
        Ok(self.in_progress(request, Duration::from_secs(1)))
    }

    /// Reads what a claim of this request would find, for a request that may not execute now: one
    /// read, and no write. A conflict is not counted. `None` if a claim would lead to an execution.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be reached, and [`StoreError::Unreadable`]
    /// if the request was executed before and its response cannot be read.
    pub async fn look(&self, request: &ClaimRequest<'_>) -> Result<Option<Claimed>, StoreError> {
        let found = read(&self.dynamodb, &self.table, &request.pk()).await;
        if let Err(StoreError::Unreadable(_)) = found {
            self.unreadable(request);
        }
        let now = now();
        let Some(found) = found?.filter(|record| !record.has_expired(now)) else { return Ok(None) };
        // Every execution has a name, so the record is never that of this look.
        let nobody = "";
        let decision = decide(&found, request.fingerprint.as_str(), nobody, now, request.retention);
        Ok(match decision {
            Decision::Conflict => Some(self.uncounted(request, Claimed::Conflict)),
            _ if !found.answers(request.rights.map(Fingerprint::as_str)) => {
                Some(self.uncounted(request, Claimed::OtherRights))
            }
            Decision::Replay => Some(self.replay(request, &found).await?),
            Decision::InProgress { retry_after } => Some(self.in_progress(request, retry_after)),
            Decision::Own | Decision::TakeOver(_) => None,
        })
    }

    async fn send(
        &self,
        request: &ClaimRequest<'_>,
        transition: &Transition,
    ) -> Result<Result<(), Record>, StoreError> {
        let detail = Detail::Request(request);
        let written = write(&self.dynamodb, &self.table, &request.pk(), transition, detail).await;
        if let Err(StoreError::Unreadable(_)) = written {
            self.unreadable(request);
        }
        written
    }

    /// Returns the result of a claim whose request has the record by now.
    async fn granted(&self, request: &ClaimRequest<'_>, record: &Record) -> Result<Claimed, StoreError> {
        let execution = Execution::granted(request, record);
        let event = match (record.status, record.attempt) {
            (Status::Prepared, _) => AuditEvent::AnsweredInDoubt,
            (_, 1) => AuditEvent::Claimed,
            (_, _) => AuditEvent::TakenOver,
        };
        self.audit.note(&AuditEntry::of_execution(event, &execution));
        if event != AuditEvent::AnsweredInDoubt {
            return Ok(Claimed::Execute(execution));
        }
        let stored = self.load(request, record).await?;
        let prepared = Prepared::stored(stored).inspect_err(|_| self.unreadable(request))?;
        Ok(Claimed::InDoubt { execution, response: prepared.in_doubt() })
    }

    async fn replay(&self, request: &ClaimRequest<'_>, record: &Record) -> Result<Claimed, StoreError> {
        let response = self.load(request, record).await?;
        self.audit.note(&AuditEntry::of_request(AuditEvent::Replayed, request));
        Ok(Claimed::Replay { response, completed_at: record.updated_at })
    }

    /// Reads the response that a prepared or completed record must have.
    async fn load(&self, request: &ClaimRequest<'_>, record: &Record) -> Result<Reply, StoreError> {
        let loaded = match &record.response {
            Some(stored) => results::load(self.bucket.as_ref(), stored).await,
            None => Err(StoreError::unreadable("the record has no response")),
        };
        if let Err(StoreError::Unreadable(_)) = loaded {
            self.unreadable(request);
        }
        loaded
    }

    fn unreadable(&self, request: &ClaimRequest<'_>) {
        self.audit.note(&AuditEntry::of_request(AuditEvent::Unreadable, request));
    }

    /// Counts a conflict. The result is a conflict even if it cannot be counted.
    async fn conflict(&self, request: &ClaimRequest<'_>, conflict: Claimed) -> Claimed {
        // Boxed, as other calls that few requests make: each request's future would have room for
        // it.
        let counted = Box::pin(self.reuse.count(&self.dynamodb, &self.table, request, now())).await;
        let too_often = counted.unwrap_or_else(|error| {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(
                event_type = "idempotency.uncounted",
                error,
                "cannot count the conflict of request {}: {error}",
                request.trace_id
            );
            None
        });
        let (event, claimed) = match too_often {
            Some(retry_after) => (AuditEvent::ReusedTooOften, Claimed::ReusedTooOften { retry_after }),
            None => (AuditEvent::Conflict, conflict),
        };
        self.audit.note(&AuditEntry::of_request(event, request));
        claimed
    }

    fn uncounted(&self, request: &ClaimRequest<'_>, conflict: Claimed) -> Claimed {
        self.audit.note(&AuditEntry::of_request(AuditEvent::Conflict, request));
        conflict
    }

    fn in_progress(&self, request: &ClaimRequest<'_>, retry_after: Duration) -> Claimed {
        self.audit.note(&AuditEntry::of_request(AuditEvent::InProgress, request));
        Claimed::InProgress { retry_after }
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

    /// Stores a part of the execution's response that no function can send, within `time`. It is
    /// available once the response that names it is stored, and as long as that is replayed. An
    /// execution has one. If it ends in another way, the object is deleted with those of its age.
    ///
    /// # Errors
    /// If the bucket cannot be reached, or there is none. The side effect must not be made final
    /// then.
    pub async fn attach(
        &self,
        execution: &Execution,
        bytes: Vec<u8>,
        sha256: [u8; 32],
        time: Duration,
    ) -> Result<AttachmentId, StoreError> {
        let bucket = self.bucket.as_ref().ok_or(StoreError::TooLarge { bytes: bytes.len() })?;
        let id = AttachmentId::of(execution)?;
        let key = id.object_key(&execution.operation, &execution.tenant);
        bucket.put_attachment(&key, bytes, sha256, time).await?;
        Ok(id)
    }

    /// Returns a URL at which the attachment `id` can be read for the time of `valid`; `None` if
    /// `tenant` has no such attachment, or not any more.
    ///
    /// # Errors
    /// If the store cannot be reached, and [`StoreError::Unreadable`] if the record's response
    /// names an object that is missing.
    pub async fn attachment_url(
        &self,
        operation: OperationType,
        tenant: &str,
        id: &AttachmentId,
        valid: Duration,
    ) -> Result<Option<String>, StoreError> {
        let Some(bucket) = &self.bucket else { return Ok(None) };
        let record = read(&self.dynamodb, &self.table, &id.pk(operation, tenant)).await?;
        let Some(record) = record.filter(|record| id.is_of(record, now())) else { return Ok(None) };
        let signed = bucket.sign_attachment(&id.object_key(operation.as_str(), tenant), valid).await?;
        if signed.is_none() && self.names(&record, id).await? {
            return Err(StoreError::unreadable("what was stored beside the response is missing"));
        }
        Ok(signed)
    }

    /// True if the response of a record names an attachment, at the end of a path. An id that was
    /// altered can have the key of a record and still belong to no attachment.
    async fn names(&self, record: &Record, id: &AttachmentId) -> Result<bool, StoreError> {
        let Some(stored) = &record.response else { return Ok(false) };
        let response = results::load(self.bucket.as_ref(), stored).await?;
        Ok(response.body.contains(&format!("/{id}\"")))
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
