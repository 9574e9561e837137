//! Tenants that the benchmark creates, because only one tenant of the local stack may load every
//! establishment and drop files.

use access::{ApiKey, pk};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue::{Bool, S, Ss};
use uuid::Uuid;

use crate::error::Error;

#[derive(Clone, Debug)]
pub(super) struct Tenant {
    pub(super) id: Uuid,
    pub(super) api_key: String,
}

impl Tenant {
    /// Creates a tenant, and stores its API key and its grant to drop files, as an operator does.
    pub(super) async fn store(dynamodb: &Client, table: &str) -> Result<Self, Error> {
        let tenant = Self { id: Uuid::new_v4(), api_key: format!("peak-{}", Uuid::new_v4()) };
        let (id, hash) = (tenant.id.to_string(), ApiKey::from(tenant.api_key.as_str()).hash());
        let scopes = ["products:read", "products:write"].map(str::to_owned).to_vec();
        let put = |pk| dynamodb.put_item().table_name(table).item("pk", S(pk)).item("allCnpjs", Bool(true));
        put(pk::drops(&id)).send().await?;
        put(pk::key(&hash)).item("tenantId", S(id)).item("scopes", Ss(scopes)).send().await?;
        Ok(tenant)
    }
}
