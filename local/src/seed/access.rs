//! API keys, target profiles, and grants to drop objects.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use sha2::{Digest as _, Sha256};

use super::QUEUES;
use crate::components::queue_manager;
use crate::components::rabbitmq::{RabbitMq, USER, VIRTUAL_HOST};
use crate::deploy::DROP_BUCKET;
use crate::failure::{Explain as _, Failure};
use crate::targets::Given;

pub(crate) const TENANT_A: &str = "11111111-1111-4111-8111-111111111111";
const TENANT_B: &str = "22222222-2222-4222-8222-222222222222";
const TENANT_PHARMACY: &str = "33333333-3333-4333-8333-333333333333";

const PHARMACY: Cnpjs = Cnpjs::Only(&["05927228000145", "11222333000181"]);

const ALL: &[&str] = &["mq:read", "mq:write", "mq:admin", "products:read", "products:write", "ops:read"];

type Item = HashMap<String, AttributeValue>;

/// An API key and its rights.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) tenant: &'static str,
    scopes: &'static [&'static str],
    cnpjs: Cnpjs,
    /// Purpose of the key, for people.
    pub(crate) purpose: &'static str,
}

/// The establishments that a key is about.
#[derive(Debug)]
enum Cnpjs {
    All,
    Only(&'static [&'static str]),
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

/// The keys of the local stack. The demonstration uses the first.
pub(crate) const KEYS: [Key; 4] = [
    key("local-dev-key-a", TENANT_A, ALL, Cnpjs::All, "tenant 1111…, all scopes"),
    key("local-dev-key-b", TENANT_B, ALL, Cnpjs::All, "tenant 2222…, all scopes"),
    key("local-readonly-key", TENANT_A, READS, Cnpjs::All, "tenant 1111…, reads only"),
    key("local-pharmacy-key", TENANT_PHARMACY, PRODUCTS, PHARMACY, "tenant 3333…, products of two CNPJs"),
];

pub(super) async fn seed(
    dynamodb: Client,
    table: &str,
    rabbitmq: &RabbitMq,
    given: &Given,
) -> Result<(), Failure> {
    let mut items: Vec<Item> = KEYS.iter().map(|key| key_item(key, given)).collect();
    items.push(grant_item(TENANT_A, &Cnpjs::All, &[DROP_BUCKET]));
    items.push(grant_item(TENANT_PHARMACY, &PHARMACY, &[]));
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

fn key_item(key: &Key, given: &Given) -> Item {
    let hash = hex::encode(Sha256::digest(given.api_key(key.name).as_bytes()));
    HashMap::from([
        ("pk".to_owned(), text(&format!("KEY#{hash}"))),
        ("tenantId".to_owned(), text(key.tenant)),
        ("scopes".to_owned(), texts(key.scopes)),
        ("name".to_owned(), text(key.name)),
        cnpjs(&key.cnpjs),
    ])
}

/// A grant for the payload bucket and for `buckets`; DynamoDB has no empty sets.
fn grant_item(tenant: &str, about: &Cnpjs, buckets: &[&str]) -> Item {
    let mut item = HashMap::from([("pk".to_owned(), text(&format!("DROPS#{tenant}"))), cnpjs(about)]);
    if !buckets.is_empty() {
        item.insert("buckets".to_owned(), texts(buckets));
    }
    item
}

fn cnpjs(about: &Cnpjs) -> (String, AttributeValue) {
    match about {
        Cnpjs::All => ("allCnpjs".to_owned(), AttributeValue::Bool(true)),
        Cnpjs::Only(cnpjs) => ("cnpjs".to_owned(), texts(cnpjs)),
    }
}

/// Profiles of the stack's own brokers, and the user's.
fn profile_items(tenant: &str, rabbitmq: &RabbitMq, given: &Given) -> Result<Vec<Item>, Failure> {
    let mut items = vec![profile_item(tenant, rabbitmq)];
    if given.ibm_mq_library.is_none() {
        items.push(queue_manager_item(tenant));
    }
    for (name, profile) in &given.targets.profiles {
        let explain = || format!("store the target profile {name}");
        let mut item: Item = serde_dynamo::to_item(profile).or_explain(explain)?;
        item.insert("pk".to_owned(), text(&format!("PROFILE#{tenant}#{name}")));
        items.push(item);
    }
    Ok(items)
}

fn profile_item(tenant: &str, rabbitmq: &RabbitMq) -> Item {
    let [queue, ..] = QUEUES;
    let auth = [("user", text(USER)), ("passwordRef", text("secret://local/rabbit"))];
    let target = [
        ("broker", text("rabbitmq")),
        ("queueManager", text(VIRTUAL_HOST)),
        ("queue", text(queue)),
        ("connName", text(&rabbitmq.conn_name())),
        ("auth", map(auth)),
    ];
    HashMap::from([
        ("pk".to_owned(), text(&format!("PROFILE#{tenant}#local-rabbit"))),
        ("target".to_owned(), map(target)),
        ("queues".to_owned(), texts(&["*"])),
        ("exchanges".to_owned(), texts(&["*"])),
        ("routingKeys".to_owned(), texts(&["*"])),
    ])
}

fn queue_manager_item(tenant: &str) -> Item {
    let [queue, ..] = QUEUES;
    let auth = [("user", text(queue_manager::USER)), ("passwordRef", text("secret://mq/app"))];
    let target = [
        ("broker", text("ibmmq")),
        ("queueManager", text(queue_manager::NAME)),
        ("queue", text(queue)),
        ("channel", text(queue_manager::CHANNEL)),
        ("connName", text(queue_manager::CONN_NAME)),
        ("auth", map(auth)),
    ];
    HashMap::from([
        ("pk".to_owned(), text(&format!("PROFILE#{tenant}#local-qm1"))),
        ("target".to_owned(), map(target)),
        ("queues".to_owned(), texts(&["*"])),
    ])
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

fn texts(values: &[&str]) -> AttributeValue {
    AttributeValue::Ss(values.iter().map(|&value| value.to_owned()).collect())
}

fn map<const N: usize>(members: [(&str, AttributeValue); N]) -> AttributeValue {
    AttributeValue::M(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
