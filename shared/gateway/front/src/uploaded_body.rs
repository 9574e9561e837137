//! `POST /messages/bodies`: returns a signed URL with which the client uploads to S3 a message body
//! that is too large for a request. A produce then names the body by its SHA-256.
//!
//! The S3 object is named by tenant and digest, so a repeated request or upload changes only the
//! day on which the object expires. The request needs no idempotency key, and nothing is recorded.

use std::collections::BTreeMap;
use std::time::Duration;

use access::{Principal, Scope};
use api::{Problem, Reason, Reply, Route, body, json};
use endpoint::{Keyed, check_route};
use jiff::Timestamp;
use lambda_http::{Body, Request, Response};
use mq::{BodyRef, UploadSize};
use objects::NewObject;
use orders::uploaded_body_key;
use serde::Deserialize;
use serde_json::json;

use crate::front::Gateway;

/// Route that returns a signed URL to upload a message body.
pub const UPLOADED_BODY: Route = Route::post("/messages/bodies");

/// Validity of the signed upload URL; the upload has to begin within this time.
const VALID: Duration = Duration::from_secs(900);

/// JSON body of the request for a signed upload URL: size in bytes and SHA-256 of the message body.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Announcement {
    size: UploadSize,
    sha256: BodyRef,
}

impl Gateway {
    /// Responds to a request to upload a message body, with a signed URL for the upload.
    pub async fn announce_body(&self, request: Request) -> Response<Body> {
        endpoint::serve(self.front.service, UPLOADED_BODY, Keyed::No, request.headers(), async |_| {
            check_route(UPLOADED_BODY, &request)?;
            self.sign_upload(&request).await
        })
        .await
    }

    async fn sign_upload(&self, request: &Request) -> Result<Reply, Problem> {
        let principal = self.front.authenticate(request.headers(), &[Scope::MqWrite]).await?;
        let value = json::parse(&body::json(request.headers(), request.body(), body::MAX_COMMAND)?)?;
        let announced = json::read(value)?;
        self.front.admission(&principal).await?.unrecorded(self.offer(&principal, announced)).await
    }

    async fn offer(&self, principal: &Principal, announced: Announcement) -> Result<Reply, Problem> {
        let Announcement { size, sha256 } = announced;
        let uploads = self.uploads.as_ref().ok_or_else(unavailable)?;
        let object = NewObject {
            key: uploaded_body_key(&principal.tenant, &sha256),
            content_type: "application/octet-stream",
            content_encoding: None,
            metadata: BTreeMap::new(),
            sha256: *sha256.sha256(),
        };
        // Signatures have whole seconds only.
        let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
        let signed = uploads.sign_rewrite(&object, i64::from(size.get()), now, VALID).await;
        let put = signed.map_err(|error| {
            let error: &dyn std::error::Error = &error;
            tracing::error!(
                event_type = "uploads.unavailable",
                object = object.key,
                error,
                "cannot sign the upload of body `{}`: {error}",
                object.key
            );
            unavailable()
        })?;
        let upload =
            json!({"method": "PUT", "url": put.url, "headers": put.headers, "expiresAt": now + VALID});
        Ok(Reply::json(201, &json!({"bodyRef": sha256, "upload": upload})))
    }
}

fn unavailable() -> Problem {
    Problem::new(Reason::StoreUnavailable, "bodies cannot be uploaded now")
}
