//! `GET /messages/bodies/{body_id}`: redirects to the stored body of a consumed message that was
//! too large for a response.
//!
//! The consume response names this path, and not a signed URL. A replay repeats the response byte
//! for byte, but a signature expires with the credentials of the function that made it. So each
//! request for the body gets a new signature, after the same checks as a replay.

use access::Scope;
use api::{Problem, Reason, Reply, path_parameter};
use endpoint::{Keyed, SIGNED_FOR, check_method, see_signed};
use idempotency::{AttachmentId, OperationType, from_store};
use lambda_http::{Body, Request, Response};
use orders::STORED_BODY;

use crate::front::Gateway;

impl Gateway {
    /// Redirects to a message body that a request of type `operation` stored. The caller needs the
    /// scope `mq:write`, and must belong to the tenant that made that request; another tenant gets
    /// the response for an unknown body.
    pub async fn stored_body(&self, operation: OperationType, request: Request) -> Response<Body> {
        endpoint::serve(self.front.service, STORED_BODY, Keyed::No, request.headers(), async |_| {
            self.redirect(operation, &request).await
        })
        .await
    }

    async fn redirect(&self, operation: OperationType, request: &Request) -> Result<Reply, Problem> {
        let id = path_parameter(STORED_BODY.path, request.uri().path());
        let id = id.ok_or_else(|| Problem::new(Reason::RouteNotFound, "there is nothing at this path"))?;
        check_method(STORED_BODY, request)?;
        let principal = self.front.authenticate(request.headers(), &[Scope::MqWrite]).await?;
        let id: AttachmentId = id.parse().map_err(|_| not_found())?;
        let signed = self.sign(operation, &principal.tenant, &id);
        self.front.admission(&principal).await?.unrecorded(signed).await
    }

    async fn sign(
        &self,
        operation: OperationType,
        tenant: &str,
        id: &AttachmentId,
    ) -> Result<Reply, Problem> {
        let idempotency = self.front.idempotency.as_ref().ok_or_else(not_found)?;
        let url = idempotency.store.attachment_url(operation, tenant, id, SIGNED_FOR).await;
        let url = url.map_err(|error| from_store(&error, "cannot hand out a stored body"))?;
        Ok(see_signed(url.ok_or_else(not_found)?, "expiresAt"))
    }
}

fn not_found() -> Problem {
    Problem::new(Reason::BodyNotFound, "there is no stored body of this id, or not any more")
}
