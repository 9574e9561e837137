//! `integrahub requests`: lists the requests to one target that have an idempotency record. They
//! are found by the index of targets in the table of these records.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Map, Value, json};

use crate::access::Attributes;
use crate::args::Requests;
use crate::aws::{Aws, failed};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::member::text;
use crate::output::Output;
use crate::record::tenant;

const SCHEMA: &str = "integrahub.requests.v1";
const INDEX: &str = "target-index";
/// Columns of the printed table: the title, and the JSON member of a request that the column shows.
const COLUMNS: [(&str, &str); 6] = [
    ("created", "createdAt"),
    ("operation", "operation"),
    ("tenant", "tenant"),
    ("key", "key"),
    ("status", "status"),
    ("trace id", "traceId"),
];
/// Maximum number of a target's records that are read. The index of targets is not ordered by time,
/// so the newest requests are found only if all are read.
const MOST_RECORDS: usize = 10_000;
/// Attributes of an idempotency record that the list of requests contains.
const SHOWN: [&str; 6] = ["createdAt", "updatedAt", "status", "attempt", "traceId", "expiresAt"];

/// Runs `integrahub requests`.
///
/// # Errors
/// If the table cannot be read, or the tenant does not exist.
pub(crate) async fn run(args: &Requests, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    let tenant = match &args.tenant {
        Some(reference) => Some(tenant(context, reference).await?),
        None => None,
    };
    let aws = Aws::of(context).await?;
    let (client, table) = (aws.dynamodb(), aws.idempotency_table().await?);
    let keys = keys(&client, &table, &args.target).await?;
    if keys.len() >= MOST_RECORDS {
        out.note("the target has more records than were read: some are missing");
    }
    let of_tenant = |key: &&Key| tenant.as_ref().is_none_or(|tenant| key.tenant == *tenant);
    let mut requests = Vec::new();
    for key in keys.iter().filter(of_tenant) {
        requests.extend(read(&client, &table, key).await?);
    }
    requests.sort_by_cached_key(|request| text(request, "createdAt").to_owned());
    let most = usize::try_from(args.max).unwrap_or(usize::MAX);
    let requests = requests.split_off(requests.len().saturating_sub(most));
    if requests.is_empty() {
        out.note("no request to this target has a record; a record is kept until it expires");
    }
    out.members(SCHEMA, "requests", requests, &COLUMNS);
    Ok(Exit::Done)
}

/// Key of an idempotency record: operation, tenant, and the client's idempotency key.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    pk: String,
    operation: String,
    tenant: String,
    key: String,
}

impl Key {
    fn parse(pk: &str) -> Option<Self> {
        let mut parts = pk.splitn(3, '#');
        let (operation, tenant, key) = (parts.next()?, parts.next()?, parts.next()?);
        // As `idempotency` escapes it.
        let key = key.replace("%23", "#").replace("%25", "%");
        Some(Self { pk: pk.to_owned(), operation: operation.to_owned(), tenant: tenant.to_owned(), key })
    }
}

/// Finds the keys of a target's idempotency records, at most [`MOST_RECORDS`] of them.
async fn keys(client: &Client, table: &str, target: &str) -> Result<Vec<Key>, Failure> {
    let query = client
        .query()
        .table_name(table)
        .index_name(INDEX)
        .key_condition_expression("#target = :target")
        .expression_attribute_names("#target", "target")
        .expression_attribute_values(":target", AttributeValue::S(target.to_owned()));
    let (mut items, mut keys) = (query.into_paginator().items().send(), Vec::new());
    while keys.len() < MOST_RECORDS
        && let Some(item) = items.next().await
    {
        let item = item.map_err(|error| failed(&format!("read the table `{table}`"), &error))?;
        keys.extend(item.get("pk").and_then(|pk| Key::parse(pk.as_s().ok()?)));
    }
    Ok(keys)
}

/// Reads the attributes in [`SHOWN`] of an idempotency record; `None` if it has been deleted.
async fn read(client: &Client, table: &str, key: &Key) -> Result<Option<Value>, Failure> {
    let get = client.get_item().table_name(table).key("pk", AttributeValue::S(key.pk.clone()));
    let found = get.send().await.map_err(|error| failed(&format!("read the table `{table}`"), &error))?;
    Ok(found.item.map(|item| shown(key, &item)))
}

fn shown(key: &Key, item: &Attributes) -> Value {
    let whose = [("operation", &key.operation), ("tenant", &key.tenant), ("key", &key.key)];
    let mut request: Map<String, Value> =
        whose.into_iter().map(|(name, text)| (name.to_owned(), json!(text))).collect();
    for name in SHOWN {
        let value = match item.get(name) {
            Some(AttributeValue::S(text)) => json!(text),
            Some(AttributeValue::N(number)) => serde_json::from_str(number).unwrap_or_default(),
            _ => Value::Null,
        };
        request.insert(name.to_owned(), value);
    }
    Value::Object(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_record_has_the_type_of_the_work_the_tenant_and_the_client_s_key() {
        let key = Key::parse("PRODUCE#t#a%23b%2523").unwrap();
        assert_eq!(
            (key.operation.as_str(), key.tenant.as_str(), key.key.as_str()),
            ("PRODUCE", "t", "a#b%23")
        );
        assert_eq!(Key::parse("BUDGET#t"), None);
    }

    #[test]
    fn a_request_is_shown_by_its_times_its_state_and_its_trace_id() {
        let key = Key::parse("MOVE#t#k").unwrap();
        let item = Attributes::from([
            ("createdAt".to_owned(), AttributeValue::S("2026-11-27T10:00:00Z".to_owned())),
            ("attempt".to_owned(), AttributeValue::N("2".to_owned())),
            ("responsePayload".to_owned(), AttributeValue::S("{}".to_owned())),
        ]);
        let request = shown(&key, &item);
        assert_eq!((&request["attempt"], &request["status"]), (&json!(2), &Value::Null));
        assert!(request.get("responsePayload").is_none());
        let cells = COLUMNS.map(|(_, member)| text(&request, member));
        assert_eq!(cells, ["2026-11-27T10:00:00Z", "MOVE", "t", "k", "", ""]);
    }
}
