//! Route `POST /v1/inovafarma/products`: accepts a payload in the request body.

use access::Principal;
use api::body::Compression;
use api::{Problem, Reason, Reply, Route, TraceId, body};
use endpoint::WorkDone;
use http::HeaderMap;
use idempotency::{ClaimRequest, Execution, OperationType};
use ingestion::Viewer;
use ingestion::payload::{AcceptedBatch, MediaType};
use lambda_http::Request;
use serde_json::json;

use crate::batch::{Kind, caller, fingerprint, metadata, rights};
use crate::content::Content;
use crate::headers::IngestHeaders;
use crate::{BATCHES, ProductIngest, RETENTION, unavailable};

/// Operation type, in idempotency records, of requests that contain their payload.
pub(crate) const INGEST: OperationType = OperationType::named("INGEST");

/// Route for a payload that is sent in the request body.
pub const PRODUCTS: Route = Route::post("/v1/inovafarma/products");

impl ProductIngest {
    pub(crate) async fn products(
        &self,
        principal: &Principal,
        request: &Request,
        trace_id: &TraceId,
    ) -> Result<Reply, Problem> {
        let headers = request.headers();
        let IngestHeaders { key, load_type, partial } = IngestHeaders::of(headers)?;
        let kind =
            Kind { load_type, media_type: media_type(headers)?, partial: partial.unwrap_or(self.partial) };
        let claimed = body::content_encoding(headers)?;
        // Inflated on its way, the body is no longer what its headers claim.
        let claimed = if endpoint::may_be_inflated(request) { Compression::None } else { claimed };
        let content = Content::read(request.body(), claimed, self.max_payload)?;
        let caller = caller(principal)?;
        let members = json!({
            "load_type": kind.load_type,
            "media_type": kind.media_type,
            "checksum": content.checksum,
        });
        let fingerprint = fingerprint(members, partial)?;
        let claim = ClaimRequest {
            operation: INGEST,
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
        endpoint::once(&self.records, &claim, &admission, async |execution| {
            Ok(WorkDone::Record(self.accept(&caller, kind, execution, content).await?))
        })
        .await
    }

    /// Stores the batch's item and its payload, and returns 202. A repeated call for the same claim
    /// on the idempotency key stores or finds the same batch.
    async fn accept(
        &self,
        caller: &Viewer,
        kind: Kind,
        execution: &Execution,
        content: Content,
    ) -> Result<Reply, Problem> {
        let bytes = content.bytes;
        let batch = AcceptedBatch {
            metadata: metadata(caller, kind, execution, Some(content.checksum)),
            payload_bytes: Some(bytes),
            cnpjs: caller.cnpjs().clone(),
            upload_expires_at: None,
        };
        // The item is there first, so that the chunker finds it. Without its object it is not a
        // batch yet and is not shown: a request that ends in between has no effect.
        self.accepted.put(&batch).await.map_err(|error| unavailable(&error))?;
        self.payloads.put(&batch.metadata, content.gzip).await.map_err(|error| unavailable(&error))?;
        tracing::info!(
            event_type = "ingest.received",
            load_type = kind.load_type.as_str(),
            bytes,
            "batch {} is received: {bytes} bytes of products",
            batch.metadata.batch_id
        );
        Ok(received(&batch))
    }
}

fn received(batch: &AcceptedBatch) -> Reply {
    let batch_id = batch.metadata.batch_id;
    let body = json!({"batch_id": batch_id, "status": "RECEIVED", "received_at": batch.metadata.received_at});
    let mut reply = Reply::json(202, &body);
    reply.set_header("location", format!("{BATCHES}/{batch_id}"));
    reply
}

fn media_type(headers: &HeaderMap) -> Result<MediaType, Problem> {
    let known = |essence: &str| {
        if body::is_gzip(essence) { Some(MediaType::Json) } else { essence.to_ascii_lowercase().parse().ok() }
    };
    body::media_type(headers, known).ok_or_else(|| {
        let detail = "send products as `Content-Type: application/json` (an array), its gzip as `application/gzip`, or `application/x-ndjson` (an object a line), in UTF-8";
        Problem::new(Reason::ContentType, detail)
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::CONTENT_TYPE;

    use super::*;

    #[test]
    fn products_come_as_json_or_as_lines() {
        for (sent, expected) in [
            ("application/json", Some(MediaType::Json)),
            ("application/gzip", Some(MediaType::Json)),
            ("application/json; charset=utf-8", Some(MediaType::Json)),
            ("Application/X-NDJSON;charset=\"UTF-8\"", Some(MediaType::NdJson)),
            ("application/json;charset=latin1", None),
            ("application/jsonl", None),
            ("text/csv", None),
            ("application/json,application/json", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(sent))]);
            assert_eq!(media_type(&headers).ok(), expected, "{sent}");
        }
        assert_eq!(media_type(&HeaderMap::new()).unwrap_err().reason, Reason::ContentType);
    }
}
