//! Route `POST /v1/inovafarma/products/uploads`: announces a payload, which the client then puts
//! into S3 by a signed URL.
//!
//! The idempotency record has the batch's id and its policy for items that lack members. Each
//! response is made anew from the record. A response has a new URL until the payload is stored,
//! since the first URL may have expired. From then on it has none, even if the payload's object is
//! gone.

use access::Principal;
use api::{Problem, Reason, Reply, Route, TraceId, body, json};
use batch_items::Stored;
use endpoint::WorkDone;
use idempotency::{ClaimRequest, IdempotencyKey, OperationType};
use ingestion::Viewer;
use ingestion::batch::BatchStatus;
use ingestion::payload::{AcceptedBatch, MediaType, PayloadMetadata};
use ingestion::product::PartialPolicy;
use jiff::Timestamp;
use lambda_http::Request;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::batch::{Kind, batch_id, caller, fingerprint, rights};
use crate::content::too_large;
use crate::headers::IngestHeaders;
use crate::payloads::{Announced, Gzip};
use crate::products::INGEST;
use crate::{BATCHES, ProductIngest, RETENTION, unavailable};

/// Operation type of uploads in idempotency records. `UPLOAD` and `INGEST` have their keys in
/// common: a tenant's key belongs to one batch, whichever of the two routes it was sent to.
const UPLOAD: OperationType = OperationType::named("UPLOAD").with_keys_of(INGEST);

/// Route for announcing an upload, which returns a signed URL for the payload.
pub const UPLOADS: Route = Route::post("/v1/inovafarma/products/uploads");

/// Size of the largest object that S3 accepts in one PUT: 5 GB (Amazon S3 User Guide, "Uploading
/// objects").
const MAX_PUT: u64 = 5_000_000_000;

/// Body of a request that announces an upload, as sent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UploadRequest {
    content_type: String,
    content_encoding: Option<String>,
    content_length: u64,
    sha256: String,
}

/// Announced upload that passed every check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Upload {
    media_type: MediaType,
    announced: Announced,
}

/// Content of an upload's idempotency record, from which each response is made.
#[derive(Deserialize)]
struct Recorded {
    batch_id: Uuid,
    /// Policy for items that lack members when the first request came, from its header or the
    /// deployment's parameter. `None` in records of earlier versions.
    partial: Option<PartialPolicy>,
}

impl ProductIngest {
    pub(crate) async fn upload(
        &self,
        principal: &Principal,
        request: &Request,
        trace_id: &TraceId,
    ) -> Result<Reply, Problem> {
        let IngestHeaders { key, load_type, partial } = IngestHeaders::of(request.headers())?;
        let value = json::parse(&body::json(request.headers(), request.body(), body::MAX_COMMAND)?)?;
        let fingerprint = fingerprint(json!({"load_type": load_type, "body": value}), partial)?;
        let Upload { media_type, announced } = upload(value, self.max_payload)?;
        let kind = Kind { load_type, media_type, partial: partial.unwrap_or(self.partial) };
        let caller = caller(principal)?;
        let claim = ClaimRequest {
            operation: UPLOAD,
            tenant: &principal.tenant,
            key: &key,
            fingerprint: &fingerprint,
            rights: Some(&rights(&caller)?),
            target: "",
            key_name: principal.key_name(),
            trace_id: trace_id.as_str(),
            retention: RETENTION,
        };
        let admission = self.admission(principal).await?;
        let reply = endpoint::once(&self.records, &claim, &admission, async |execution| {
            Ok(WorkDone::Record(created(batch_id(&caller, execution), kind.partial)))
        })
        .await?;
        let metadata = recorded(&reply, &caller, kind, &key, trace_id)?;
        let body = self.offer(&caller, metadata, announced).await?;
        Ok(Reply { body: body.to_string(), ..reply })
    }

    /// Builds the response body: a signed URL for the upload, or none if the payload is already
    /// stored or its batch is over.
    async fn offer(
        &self,
        caller: &Viewer,
        metadata: PayloadMetadata,
        announced: Announced,
    ) -> Result<Value, Problem> {
        let batch_id = metadata.batch_id;
        if self.payloads.has(&metadata).await.map_err(|error| unavailable(&error))? {
            return Ok(no_upload(batch_id, BatchStatus::Received));
        }
        let now = whole_second(Timestamp::now());
        let put = self
            .payloads
            .sign(&metadata, announced, now, self.upload_expiry)
            .await
            .map_err(|error| unavailable(&error))?;
        let expires_at = now + self.upload_expiry;
        let batch = AcceptedBatch {
            metadata,
            payload_bytes: None,
            cnpjs: caller.cnpjs().clone(),
            upload_expires_at: Some(expires_at),
        };
        // A missing object means nothing: it expires after its batch is final.
        match self.accepted.put(&batch).await.map_err(|error| unavailable(&error))? {
            Stored::Arrived => return Ok(no_upload(batch_id, BatchStatus::Received)),
            Stored::Gone => return Ok(no_upload(batch_id, BatchStatus::Expired)),
            Stored::Written => {}
        }
        Ok(json!({
            "batch_id": batch_id,
            "status": BatchStatus::AwaitingUpload,
            "upload": {"method": "PUT", "url": put.url, "headers": put.headers, "expires_at": expires_at},
        }))
    }
}

/// Builds the response body for a batch whose payload must not be uploaded any more.
fn no_upload(batch_id: Uuid, status: BatchStatus) -> Value {
    json!({"batch_id": batch_id, "status": status, "upload": null})
}

/// Builds the reply kept in the idempotency record. Its body is replaced in each response to a
/// client.
fn created(batch_id: Uuid, partial: PartialPolicy) -> Reply {
    let mut reply = Reply::json(201, &json!({"batch_id": batch_id, "partial": partial}));
    reply.set_header("location", format!("{BATCHES}/{batch_id}"));
    reply
}

/// Rebuilds the batch's metadata from the idempotency record. The time of receipt is taken from the
/// batch id.
///
/// # Errors
/// If the record is malformed: `STORE_UNAVAILABLE`.
fn recorded(
    reply: &Reply,
    caller: &Viewer,
    kind: Kind,
    key: &IdempotencyKey,
    trace_id: &TraceId,
) -> Result<PayloadMetadata, Problem> {
    let recorded: Option<Recorded> = serde_json::from_str(&reply.body).ok();
    let batch =
        recorded.and_then(|Recorded { batch_id, partial }| Some((batch_id, received_at(batch_id)?, partial)));
    let (batch_id, received_at, partial) = batch.ok_or_else(|| {
        tracing::error!(
            event_type = "idempotency.unreadable",
            "the record of an upload of tenant {} is malformed",
            caller.tenant_id()
        );
        Problem::new(
            Reason::StoreUnavailable,
            "the request was executed before, but its stored result cannot be read",
        )
    })?;
    tracing::Span::current().record("batch_id", tracing::field::display(batch_id));
    Ok(PayloadMetadata {
        batch_id,
        tenant_id: caller.tenant_id(),
        load_type: kind.load_type,
        media_type: kind.media_type,
        idempotency_key: key.as_str().to_owned(),
        received_at,
        checksum: None,
        trace_id: trace_id.as_str().to_owned(),
        partial: partial.unwrap_or(kind.partial),
        source: None,
    })
}

fn received_at(batch_id: Uuid) -> Option<Timestamp> {
    let (seconds, nanoseconds) = batch_id.get_timestamp()?.to_unix();
    Timestamp::new(i64::try_from(seconds).ok()?, i32::try_from(nanoseconds).ok()?).ok()
}

/// Truncates a time to whole seconds, because signed URLs have no fractions of a second.
fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn upload(value: Value, max_payload: u64) -> Result<Upload, Problem> {
    let request: UploadRequest = json::read(value)?;
    let media_type = request.content_type.to_ascii_lowercase().parse().map_err(|error| {
        // As the other route takes it.
        let is_gzip = request.content_type.eq_ignore_ascii_case("application/gzip");
        let gzip = if is_gzip { "; for gzip, say so in `content_encoding`" } else { "" };
        Problem::violation("/content_type", format!("{error}, without parameters{gzip}"))
    })?;
    let is_gzip = match request.content_encoding.as_deref() {
        None | Some("identity") => Gzip::No,
        Some("gzip") => Gzip::Yes,
        Some(_) => return Err(Problem::violation("/content_encoding", "must be gzip or identity")),
    };
    if request.content_length == 0 {
        return Err(Problem::violation("/content_length", "must be at least 1"));
    }
    let largest = max_payload.min(MAX_PUT);
    let length = i64::try_from(request.content_length).ok().filter(|_| request.content_length <= largest);
    let length = length.ok_or_else(|| too_large(largest))?;
    let mut sha256 = [0; 32];
    hex::decode_to_slice(&request.sha256, &mut sha256)
        .map_err(|_| Problem::violation("/sha256", "must be a SHA-256 of 64 hexadecimal digits"))?;
    Ok(Upload { media_type, announced: Announced { length, sha256, is_gzip } })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderMap;
    use idempotency::KeyForm;
    use ingestion::payload::LoadType;

    use super::*;

    fn body() -> Value {
        json!({"content_type": "application/json", "content_encoding": "gzip", "content_length": 17, "sha256": "ab".repeat(32)})
    }

    fn with(name: &str, value: Value) -> Result<Upload, Problem> {
        let mut body = body();
        body[name] = value;
        upload(body, 1_000)
    }

    #[test]
    fn an_upload_is_announced_by_its_length_and_checksum() {
        let announced = Announced { length: 17, sha256: [0xab; 32], is_gzip: Gzip::Yes };
        assert_eq!(upload(body(), 1_000), Ok(Upload { media_type: MediaType::Json, announced }));
        assert_eq!(with("sha256", json!("AB".repeat(32))), upload(body(), 1_000));
        assert_eq!(with("content_type", json!("Application/JSON")), upload(body(), 1_000));
        for none in [json!(null), json!("identity")] {
            let plain = with("content_encoding", none).unwrap();
            assert_eq!(plain.announced.is_gzip, Gzip::No);
        }
    }

    #[test]
    fn what_is_wrong_is_pointed_at() {
        for (name, value) in [
            ("content_type", json!("text/csv")),
            ("content_type", json!(null)),
            ("content_encoding", json!("br")),
            ("content_length", json!(0)),
            ("content_length", json!(-1)),
            ("content_length", json!("17")),
            ("sha256", json!("ab")),
            ("sha256", json!("zz".repeat(32))),
            ("other", json!(1)),
        ] {
            let problem = with(name, value.clone()).unwrap_err();
            assert_eq!(problem.reason, Reason::SchemaViolation, "{name}: {value}");
            assert_eq!(problem.faults[0].pointer, format!("/{name}"), "{value}");
        }
        assert_eq!(with("content_length", json!(1_001)).unwrap_err().reason, Reason::MaxPayloadExceeded);
        assert!(with("content_length", json!(1_000)).is_ok());
    }

    #[test]
    fn a_batch_was_received_when_its_id_was_made() {
        let claimed_at: Timestamp = "2026-11-21T10:00:00.123Z".parse().unwrap();
        let batch_id = ingestion::payload::batch_id(Uuid::nil(), "key", "fingerprint", claimed_at);
        assert_eq!(received_at(batch_id), Some(claimed_at));
        assert_eq!(received_at(Uuid::nil()), None);
    }

    #[test]
    fn an_upload_keeps_the_policy_that_its_first_request_found() {
        let caller = Viewer::whole(Uuid::nil());
        let kind =
            Kind { load_type: LoadType::Delta, media_type: MediaType::Json, partial: PartialPolicy::Warn };
        let key = IdempotencyKey::parse("loja-12", KeyForm::Text).unwrap();
        let trace_id = TraceId::of(&HeaderMap::new());
        let batch_id = Uuid::now_v7();
        let earlier = Reply::json(201, &json!({"batch_id": batch_id}));
        for (reply, partial) in [
            (created(batch_id, PartialPolicy::Refuse), PartialPolicy::Refuse),
            (earlier, PartialPolicy::Warn),
        ] {
            let metadata = recorded(&reply, &caller, kind, &key, &trace_id).unwrap();
            assert_eq!((metadata.batch_id, metadata.partial), (batch_id, partial));
        }
    }

    #[test]
    fn times_are_cut_to_what_a_signature_knows() {
        let time = whole_second("2026-11-21T10:00:00.999Z".parse().unwrap());
        assert_eq!((time + Duration::from_secs(900)).to_string(), "2026-11-21T10:15:00Z");
    }
}
