//! API keys, target profiles, and grants to drop objects.

use std::collections::HashMap;

use access::{ApiKey, DropGrant, Establishments, KeyItem, pk};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use serde::Serialize;
use serde_json::{Value, json};

use super::QUEUES;
use crate::components::queue_manager;
use crate::components::rabbitmq::{RabbitMq, USER, VIRTUAL_HOST};
use crate::deploy::DROP_BUCKET;
use crate::failure::{Explain as _, Failure};
use crate::targets::Given;

const TENANT_A: &str = "11111111-1111-4111-8111-111111111111";
const TENANT_B: &str = "22222222-2222-4222-8222-222222222222";
pub(super) const TENANT_PHARMACY: &str = "33333333-3333-4333-8333-333333333333";
/// CNPJs of the establishments of the tenant `TENANT_PHARMACY`.
pub(super) const OF_PHARMACY: [&str; 2] = ["05927228000145", "11222333000181"];

const PHARMACY: Cnpjs = Some(&OF_PHARMACY);

const ALL: &[&str] = &["mq:read", "mq:write", "mq:admin", "products:read", "products:write", "ops:read"];

type Item = HashMap<String, AttributeValue>;

/// API key of the local stack, with its tenant and its rights.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) tenant: &'static str,
    scopes: &'static [&'static str],
    cnpjs: Cnpjs,
    /// Purpose of the key, as shown to the user.
    pub(crate) purpose: &'static str,
}

/// Establishments that an API key covers; `None` for all.
type Cnpjs = Option<&'static [&'static str]>;

fn establishments(cnpjs: Cnpjs) -> Establishments {
    cnpjs.map_or(Establishments::All, |cnpjs| {
        Establishments::Only(cnpjs.iter().map(|&cnpj| cnpj.to_owned()).collect())
    })
}

const fn key(
    name: &'static str,
    tenant: &'static str,
    scopes: &'static [&'static str],
    cnpjs: Cnpjs,
    purpose: &'static str,
) -> Key {
    Key { name, tenant, scopes, cnpjs, purpose }
}

const READS: &[&str] = &["mq:read", "products:read"];
const PRODUCTS: &[&str] = &["products:write", "products:read"];

/// API keys of the local stack. The demonstration uses the first one.
pub(crate) const KEYS: [Key; 4] = [
    key("local-dev-key-a", TENANT_A, ALL, None, "tenant 1111…, all scopes"),
    key("local-dev-key-b", TENANT_B, ALL, None, "tenant 2222…, all scopes"),
    key("local-readonly-key", TENANT_A, READS, None, "tenant 1111…, reads only"),
    key("local-pharmacy-key", TENANT_PHARMACY, PRODUCTS, PHARMACY, "tenant 3333…, products of two CNPJs"),
];

pub(super) async fn seed(
    dynamodb: Client,
    table: &str,
    rabbitmq: &RabbitMq,
    given: &Given,
) -> Result<(), Failure> {
    let mut items: Vec<Item> = KEYS.iter().map(|key| key_item(key, given)).collect::<Result<_, _>>()?;
    items.push(grant_item(TENANT_A, None, &[DROP_BUCKET])?);
    items.push(grant_item(TENANT_PHARMACY, PHARMACY, &[])?);
    for tenant in [TENANT_A, TENANT_B] {
        items.extend(profile_items(tenant, rabbitmq, given)?);
    }
    for item in items {
        dynamodb
            .put_item()
            .table_name(table)
            .set_item(Some(item))
            .send()
            .await
            .or_explain(|| "store the local API keys, target profiles and grants".into())?;
    }
    Ok(())
}

/// Builds an item of the access table: the members of `item`, and its key `pk`.
fn item(pk: String, item: &impl Serialize) -> Result<Item, Failure> {
    let explain = || format!("make the item {pk} of the access table");
    let mut item: Item = serde_dynamo::to_item(item).or_explain(explain)?;
    item.insert("pk".to_owned(), AttributeValue::S(pk));
    Ok(item)
}

fn key_item(key: &Key, given: &Given) -> Result<Item, Failure> {
    let hash = ApiKey::from(given.api_key(key.name)).hash();
    let members = KeyItem {
        tenant_id: key.tenant.to_owned(),
        name: key.name.to_owned(),
        scopes: key.scopes.iter().map(|&scope| scope.to_owned()).collect(),
        establishments: establishments(key.cnpjs),
        created_at: None,
        expires_at: None,
        disabled: false,
    };
    item(pk::key(&hash), &members)
}

/// Builds a tenant's grant to drop objects into `buckets`, and always into the payload bucket.
fn grant_item(tenant: &str, cnpjs: Cnpjs, buckets: &[&str]) -> Result<Item, Failure> {
    let buckets = buckets.iter().map(|&bucket| bucket.to_owned()).collect();
    item(pk::drops(tenant), &DropGrant { establishments: establishments(cnpjs), buckets })
}

/// Builds the target profiles of a tenant: those of the stack's own brokers, and those that the
/// user gave.
fn profile_items(tenant: &str, rabbitmq: &RabbitMq, given: &Given) -> Result<Vec<Item>, Failure> {
    let mut profiles = given.targets.profiles.clone();
    profiles.entry("local-rabbit".to_owned()).or_insert_with(|| local_rabbit(rabbitmq));
    if given.ibm_mq_library.is_none() {
        profiles.entry("local-qm1".to_owned()).or_insert_with(local_qm1);
    }
    profiles.iter().map(|(name, profile)| item(pk::profile(tenant, name), profile)).collect()
}

fn local_rabbit(rabbitmq: &RabbitMq) -> Value {
    let [queue, ..] = QUEUES;
    json!({
        "target": {
            "broker": "rabbitmq",
            "queueManager": VIRTUAL_HOST,
            "queue": queue,
            "connName": rabbitmq.conn_name(),
            "auth": {"user": USER, "passwordRef": "secret://local/rabbit"},
        },
        "queues": ["*"],
        "exchanges": ["*"],
        "routingKeys": ["*"],
    })
}

fn local_qm1() -> Value {
    let [queue, ..] = QUEUES;
    json!({
        "target": {
            "broker": "ibmmq",
            "queueManager": queue_manager::NAME,
            "queue": queue,
            "channel": queue_manager::CHANNEL,
            "connName": queue_manager::CONN_NAME,
            "auth": {"user": queue_manager::USER, "passwordRef": "secret://mq/app"},
        },
        "queues": ["*"],
    })
}
