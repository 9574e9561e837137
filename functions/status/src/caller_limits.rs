//! `GET /limits`: the limits that hold for the caller's tenant, and what is left of them. The
//! request itself is free of charge.

use ::endpoint::limits_of;
use access::PRODUCTS_API_KEYS;
use api::{Problem, Query, Reply};
use lambda_http::Request;
use serde_json::json;

use crate::Status;

impl Status {
    /// Responds to any valid key: a tenant may know its limits, whatever the key is for.
    pub(crate) async fn limits(&self, request: &Request) -> Result<Reply, Problem> {
        let principal = access::authenticate_by(&self.access, request.headers(), PRODUCTS_API_KEYS).await?;
        Query::parse(request.uri().query().unwrap_or_default(), &[])?;
        let item = limits_of(&self.limiter, &self.access, &principal.tenant).await?;
        let limits = self.limiter.standing(&principal.tenant, &item).await;
        Ok(Reply::json(200, &json!({"limits": limits})))
    }
}
