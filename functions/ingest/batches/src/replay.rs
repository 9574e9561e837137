//! Route `POST …/{batch_id}/replay`: processes a batch again, in a new generation (round of
//! processing).
//!
//! The database stores which replay a request began. So an execution of the request may die at any
//! point: the execution that takes over finds the same generation, notifies the chunker again, and
//! responds with the same result.

use std::time::Duration;

use api::{Problem, Reason, Reply, TraceId, body, json};
use catalog::{BatchView, BegunReplay, ReplayOutcome, ReplayRequest};
use endpoint::{Admission, WorkDone, from_key};
use http::HeaderMap;
use idempotency::{ClaimRequest, Execution, Fingerprint, IdempotencyKey, KeyForm, OperationType};
use ingestion::Viewer;
use ingestion::batch::{ChunkCounts, Deactivation, Replay, ReplayRefusal, ReplayedBatch};
use lambda_http::Request;
use objects::ObjectError;
use runtime::metrics;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::route::BATCHES;
use crate::{Batches, from_database, not_found};

/// Operation type of replay requests in idempotency records.
const REPLAY: OperationType = OperationType::named("REPLAY");

/// Replay request that passed every check of its form, and the batch that it names.
struct Wanted {
    viewer: Viewer,
    batch_id: Uuid,
    replay: Replay,
    /// State of the batch when the replay request arrived.
    batch: BatchView,
}

impl Batches {
    pub(crate) async fn replay(
        &self,
        viewer: Viewer,
        batch_id: Uuid,
        request: &Request,
        admission: &Admission<'_>,
        (key_name, trace_id): (&str, &TraceId),
    ) -> Result<Reply, Problem> {
        let headers = request.headers();
        let key = IdempotencyKey::of(headers, KeyForm::Text).map_err(from_key)?;
        let retention = self.retention(headers)?;
        let value = json::parse(&body::json(headers, request.body(), body::MAX_COMMAND)?)?;
        let fingerprint = fingerprint(batch_id, &value)?;
        let replay: Replay = json::read(value)?;
        let batch = self.find(&viewer, batch_id).await?;
        let tenant = viewer.tenant_id().to_string();
        let claim = ClaimRequest {
            operation: REPLAY,
            tenant: &tenant,
            key: &key,
            fingerprint: &fingerprint,
            rights: None,
            target: "",
            key_name,
            trace_id: trace_id.as_str(),
            retention,
        };
        let wanted = Wanted { viewer, batch_id, replay, batch };
        endpoint::once(&self.records, &claim, admission, async |execution| {
            let begun = self.begin(&wanted, execution).await?;
            self.tell(&begun.payload_uri, wanted.viewer.tenant_id()).await;
            Ok(WorkDone::Record(accepted(&wanted, &begun)))
        })
        .await
    }

    fn retention(&self, headers: &HeaderMap) -> Result<Duration, Problem> {
        let retention = self.expiry.of(headers);
        retention.map_err(|error| Problem::new(Reason::IdempotencyExpiryOutOfRange, error.to_string()))
    }

    /// Begins the replay in the database, if a sample of the objects that it needs still exists. A
    /// repeated call with the same key returns the replay that the first one began.
    async fn begin(&self, wanted: &Wanted, execution: &Execution) -> Result<BegunReplay, Problem> {
        let (viewer, batch_id) = (&wanted.viewer, wanted.batch_id);
        let request = ReplayRequest {
            replay: wanted.replay,
            idempotency_key: execution.idempotency_key.clone(),
            requested_at: execution.created_at,
        };
        let uris = self.database.objects_to_replay(viewer, batch_id, &request).await;
        let uris = uris.map_err(|error| from_database(&error))?;
        // Only some objects are checked. The chunker keeps all of them from expiring once the
        // replay has begun.
        let keys: Vec<String> =
            uris.iter().filter_map(|uri| self.objects.key(uri)).map(str::to_owned).collect();
        let there = self.objects.there(keys).await.map_err(|error| from_storage(&error))?;
        if there.len() < uris.len() {
            let gone: Vec<&str> = uris
                .iter()
                .filter(|uri| self.objects.key(uri).is_none_or(|key| !there.contains(key)))
                .map(String::as_str)
                .collect();
            let objects = gone.join(", ");
            tracing::warn!(
                event_type = "batch.objects_gone",
                objects,
                "batch {batch_id} cannot be replayed: {} of its objects are gone",
                gone.len()
            );
            return Err(not_replayable(ReplayRefusal::ObjectsGone));
        }
        let outcome = self.database.replay(viewer, batch_id, &request).await;
        match outcome.map_err(|error| from_database(&error))? {
            ReplayOutcome::Begun(begun) => {
                report(self.service, wanted, &begun);
                Ok(begun)
            }
            ReplayOutcome::Repeated(begun) => Ok(begun),
            ReplayOutcome::Refused(reason) => Err(not_replayable(reason)),
            ReplayOutcome::Unknown => Err(not_begun(wanted)),
        }
    }

    /// Sends the notification of the batch's payload, which makes the chunker start the replay. If
    /// sending fails, it is only logged: `reconcile` later finds the stalled batch and restarts it.
    async fn tell(&self, payload_uri: &str, tenant_id: Uuid) {
        let key = match self.objects.key_of(payload_uri) {
            Ok(key) => key,
            Err(error) => return log_untold("batch.elsewhere", payload_uri, &error),
        };
        let notified = self.payloads.notify(self.objects.bucket(), key, Some(tenant_id)).await;
        if let Err(error) = notified {
            log_untold("batch.notification_failed", payload_uri, &error);
        }
    }
}

fn log_untold(event_type: &str, payload_uri: &str, error: &(dyn std::error::Error + 'static)) {
    tracing::error!(
        event_type,
        error,
        "cannot send the notification of {payload_uri}; reconcile will send it again: {error}"
    );
}

fn fingerprint(batch_id: Uuid, body: &Value) -> Result<Fingerprint, Problem> {
    let of = json!({"path": {"batch_id": batch_id}, "body": body});
    Fingerprint::of(&of).map_err(|error| Problem::new(Reason::MalformedJson, error.to_string()))
}

fn accepted(wanted: &Wanted, begun: &BegunReplay) -> Reply {
    let batch_id = wanted.batch_id;
    let body = json!({
        "batch_id": batch_id,
        "status": begun.status,
        "generation": begun.generation,
        "scope": wanted.replay.scope,
        "chunks": begun.chunks,
    });
    let mut reply = Reply::json(202, &body);
    reply.set_header("location", format!("{BATCHES}/{batch_id}"));
    reply
}

/// Builds the problem response to a replay of a batch that is not in the database, because the
/// chunker has not begun it, or nothing was ever uploaded.
fn not_begun(wanted: &Wanted) -> Problem {
    let batch = ReplayedBatch {
        status: wanted.batch.status,
        is_sealed: false,
        chunks: ChunkCounts::default(),
        deactivation: Deactivation::Pending,
        is_too_old: false,
    };
    wanted.replay.work(&batch).map_or_else(not_replayable, |_| not_found())
}

fn not_replayable(reason: ReplayRefusal) -> Problem {
    let problem = Problem::new(Reason::BatchNotReplayable, reason.to_string());
    match reason {
        // The batch's processing ends without the client.
        ReplayRefusal::UnderWay(_) => problem.retry_after(5),
        _ => problem,
    }
}

fn from_storage(error: &ObjectError) -> Problem {
    let error: &dyn std::error::Error = error;
    tracing::error!(event_type = "batches.storage_unavailable", error, "cannot check objects in S3: {error}");
    Problem::new(Reason::StoreUnavailable, "the batch cannot be replayed now; ask again with the same key")
}

fn report(service: &str, wanted: &Wanted, begun: &BegunReplay) {
    tracing::info!(
        event_type = "batch.replayed",
        generation = begun.generation.number(),
        scope = wanted.replay.scope.as_str(),
        chunks = begun.chunks,
        "batch {} is processed again, in generation {}",
        wanted.batch_id,
        begun.generation.number()
    );
    metrics::count(service, &[metrics::BATCHES_REPLAYED], Map::new());
}

#[cfg(test)]
mod tests {
    use ingestion::batch::{BatchStatus, ReplayScope};
    use ingestion::chunk::Generation;

    use super::*;

    const BATCH: Uuid = Uuid::from_u128(0x01a1_fd8c_697b_7c4e_8d21_3f5a_6b7c_8d9e);

    fn wanted(status: BatchStatus) -> Wanted {
        Wanted {
            viewer: Viewer::whole(Uuid::nil()),
            batch_id: BATCH,
            replay: Replay { scope: ReplayScope::Failed, confirm_deactivation: false },
            batch: BatchView { status, ..crate::list::tests::full(BATCH.as_u128()) },
        }
    }

    #[test]
    fn the_answer_says_what_was_begun() {
        let begun = BegunReplay {
            generation: Generation::FIRST.next(),
            status: BatchStatus::Processing,
            chunks: 3,
            payload_uri: String::new(),
        };
        let reply = accepted(&wanted(BatchStatus::PartialFail), &begun);
        let body: Value = serde_json::from_str(&reply.body).unwrap();
        let expected = json!({"batch_id": BATCH, "status": "PROCESSING", "generation": 2, "scope": "failed", "chunks": 3});
        assert_eq!((reply.status, body), (202, expected));
        assert_eq!(reply.headers["location"], format!("/v1/inovafarma/batches/{BATCH}"));
    }

    #[test]
    fn a_batch_that_nobody_has_begun_with_is_not_replayed() {
        for (status, detail) in [
            (
                BatchStatus::Received,
                "the batch is still under way: it is RECEIVED; wait until its status is final",
            ),
            (BatchStatus::AwaitingUpload, "nothing was uploaded yet"),
            (BatchStatus::Expired, "nothing was ever uploaded"),
        ] {
            let problem = not_begun(&wanted(status));
            assert_eq!((problem.reason, problem.detail.as_str()), (Reason::BatchNotReplayable, detail));
        }
        assert_eq!(not_begun(&wanted(BatchStatus::Completed)).reason, Reason::BatchNotFound);
    }

    #[test]
    fn another_batch_or_body_is_another_request() {
        let all = json!({"scope": "all"});
        let of = |batch, body: &Value| fingerprint(batch, body).unwrap();
        assert_eq!(of(BATCH, &all), of(BATCH, &json!({"scope": "all"})));
        assert_ne!(of(BATCH, &all), of(Uuid::nil(), &all));
        assert_ne!(of(BATCH, &all), of(BATCH, &json!({"scope": "failed"})));
    }
}
