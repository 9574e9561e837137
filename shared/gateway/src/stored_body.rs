//! `GET /messages/bodies/{body_id}`: the body of a message that no answer could carry.
//!
//! An answer names this path, and not a signed URL: a replay repeats the answer byte for byte, and
//! a signature ends with the credentials of the function that made it. So each request gets a
//! signature of its own, after the same checks as the replay.

use std::time::Duration;

use access::Scope;
use api::{Problem, Reason, Reply, Route, path_parameter};
use endpoint::{Keyed, check_method, from_store};
use idempotency::{AttachmentId, OperationType};
use jiff::Timestamp;
use lambda_http::{Body, Request, Response};
use serde_json::json;

use crate::front::Gateway;

/// The route.
pub const STORED_BODY: Route = Route::get("/messages/bodies/{body_id}");

/// How long a signed URL can be used: a download has to begin by then.
const VALID: Duration = Duration::from_secs(300);

/// The path of a stored body.
#[must_use]
pub fn stored_body_url(id: &AttachmentId) -> String {
    STORED_BODY.path.replace("{body_id}", &id.to_string())
}

impl Gateway {
    /// Answers a request for a body that an `operation` has stored. It takes the scope with which
    /// the body was got, and the same tenant; anybody else is told that there is none.
    pub async fn stored_body(&self, operation: OperationType, request: Request) -> Response<Body> {
        endpoint::serve(self.service, STORED_BODY.path, Keyed::No, request.headers(), async |_| {
            self.redirect(operation, &request).await
        })
        .await
    }

    async fn redirect(&self, operation: OperationType, request: &Request) -> Result<Reply, Problem> {
        let id = path_parameter(STORED_BODY.path, request.uri().path());
        let id = id.ok_or_else(|| Problem::new(Reason::RouteNotFound, "there is nothing at this path"))?;
        check_method(STORED_BODY, request)?;
        let principal = access::authenticate(&self.access, request.headers()).await?;
        tracing::Span::current().record("tenant", &principal.tenant);
        principal.require_any(&[Scope::MqWrite])?;
        let id: AttachmentId = id.parse().map_err(|_| not_found())?;
        let idempotency = self.idempotency.as_ref().ok_or_else(not_found)?;
        let url = idempotency.store.attachment_url(operation, &principal.tenant, &id, VALID).await;
        let url = url.map_err(|error| from_store(&error, "cannot hand out a stored body"))?;
        let url = url.ok_or_else(not_found)?;
        // Signatures know no more of a time than its seconds.
        let signed_by = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
        let mut reply = Reply::json(303, &json!({"url": url, "expiresAt": signed_by + VALID}));
        reply.set_header("location", url);
        // The signature is for this caller, and for now.
        reply.set_header("cache-control", "no-store");
        Ok(reply)
    }
}

fn not_found() -> Problem {
    Problem::new(Reason::BodyNotFound, "there is no stored body of this id, or not any more")
}
