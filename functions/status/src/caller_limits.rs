//! `GET /limits`: the limits of the caller's tenant, and what is left of them. No rate limit and no
//! budget apply to the request, and it reads up to three items of the limits table for each target.
//! So the response is cached for two seconds.

use ::endpoint::limits_of;
use access::PRODUCTS_API_KEYS;
use api::{Problem, Query, Reply};
use lambda_http::Request;
use serde_json::json;

use crate::Status;

impl Status {
    /// Responds to `GET /limits` with the limits of the caller's tenant. Any valid key suffices,
    /// whatever its scopes.
    pub(crate) async fn limits(&self, request: &Request) -> Result<Reply, Problem> {
        let principal = access::authenticate_by(&self.access, request.headers(), PRODUCTS_API_KEYS).await?;
        Query::parse(request.uri().query().unwrap_or_default(), &[])?;
        self.limits_reply(principal.tenant).await
    }

    pub(crate) async fn limits_reply(&self, tenant: String) -> Result<Reply, Problem> {
        if let Some(reply) = self.limits_replies.get(&tenant) {
            return Ok(reply);
        }
        let item = limits_of(&self.limiter, &self.access, &tenant).await?;
        let limits = self.limiter.standing(&tenant, &item).await;
        let reply = Reply::json(200, &json!({"limits": limits}));
        self.limits_replies.put(tenant, reply.clone());
        Ok(reply)
    }
}
