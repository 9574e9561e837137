//! Claims of the right to execute a request, and the results for requests that do not get it.

use std::time::Duration;

use api::Reply;
use api::idempotency_key::Fingerprint;
use uuid::Uuid;

use super::{Store, now};
use crate::audit::{AuditEntry, AuditEvent};
use crate::claim::{ClaimRequest, Claimed};
use crate::dynamodb::{Detail, read, write};
use crate::error::StoreError;
use crate::execution::Execution;
use crate::prepared::Prepared;
use crate::protocol::{Decision, Record, Status, Transition, decide};
use crate::results;

/// Maximum number of times that a claim decides about an existing record. If other writes change
/// the record before each of its takeovers, the claim returns "in progress".
const RACES: usize = 3;

impl Store {
    /// Claims the right to execute a request, by the key `<operation>#<tenant>#<key>` (followed by
    /// `#<target>` for operations with keys per target). A new request costs one conditional put.
    /// If a record exists already, the put returns it, and [`decide`] selects the result. A
    /// takeover is a second write, which fails if the record has changed since.
    ///
    /// # Errors
    /// - [`StoreError::Unavailable`] if the store cannot be reached; nothing may be executed then.
    /// - [`StoreError::Unreadable`] if the request was executed before and its response cannot be
    ///   read.
    /// - [`StoreError::Unlabelled`] if that response is in doubt and cannot be labelled so.
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

    /// Returns the result that a claim of this request would have, by one read and no write. Used
    /// for a request that may not be executed now, because a limit refuses it. Returns `None` if a
    /// claim would grant the execution. A conflict is not counted.
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

    /// Returns the result of a claim or takeover that has written `record`.
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

    /// Reads the stored response of a prepared or completed record.
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

    /// Counts a conflict, and returns `conflict`, or `ReusedTooOften` if a limit is exceeded. If it
    /// cannot be counted, the result is `conflict`.
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
}
