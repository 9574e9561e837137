//! Tenants of the peak's own: of those that the local stack has, only one may load every
//! establishment and drop files.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue::{Bool, S, Ss};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::error::Error;

#[derive(Clone, Debug)]
pub(super) struct Tenant {
    pub(super) id: Uuid,
    pub(super) api_key: String,
}

impl Tenant {
    /// Stores the API key of a new tenant, and its grant to drop files, as an operator does.
    pub(super) async fn store(dynamodb: &Client, table: &str) -> Result<Self, Error> {
        let tenant = Self { id: Uuid::new_v4(), api_key: format!("peak-{}", Uuid::new_v4()) };
        let hash = hex::encode(Sha256::digest(tenant.api_key.as_bytes()));
        let scopes = ["products:read", "products:write"].map(str::to_owned).to_vec();
        let name = |name: &str| name.to_owned();
        let key = HashMap::from([
            (name("pk"), S(format!("KEY#{hash}"))),
            (name("tenantId"), S(tenant.id.to_string())),
            (name("scopes"), Ss(scopes)),
            (name("allCnpjs"), Bool(true)),
        ]);
        let grant =
            HashMap::from([(name("pk"), S(format!("DROPS#{}", tenant.id))), (name("allCnpjs"), Bool(true))]);
        for item in [key, grant] {
            dynamodb.put_item().table_name(table).set_item(Some(item)).send().await?;
        }
        Ok(tenant)
    }
}
