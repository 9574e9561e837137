//! `integrahub record`: shows the idempotency records of one key, decoded. A request of the
//! gateway, a catalogue and a replay may have the same key, and each has a record of its own.

use std::io::Read as _;

use api::idempotency_key::{IdempotencyKey, KeyForm, record_key};
use aws_sdk_dynamodb::types::AttributeValue;
use flate2::read::GzDecoder;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::access::{Attributes, Table};
use crate::args::Record;
use crate::aws::{Aws, failed};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::member::plain;
use crate::output::{Format, Output};

const SCHEMA: &str = "integrahub.records.v1";
/// Prefixes of the keys of idempotency records, one for each operation.
const OPERATIONS: [&str; 8] =
    ["PRODUCE", "CONSUME", "MOVE", "INGEST", "REPLAY", "DROP", "LOAD_TEST", "LOAD_TEST_STOP"];
/// Maximum number of bytes to which a stored response is inflated.
const MAX_RESPONSE: u64 = 16 * 1024 * 1024;
/// Maximum number of characters of a value of the record that are shown to people.
const SHOWN: usize = 2_000;

/// Runs `integrahub record`.
///
/// # Errors
/// If the record does not exist, or the table cannot be read.
pub(crate) async fn run(args: &Record, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    let key = IdempotencyKey::parse(&args.key, KeyForm::Text).map_err(|error| {
        Failure::usage(format!("`{}` is no idempotency key", args.key)).why(error.to_string())
    })?;
    let tenant = tenant(context, &args.tenant).await?;
    let aws = Aws::of(context).await?;
    let (client, table) = (aws.dynamodb(), aws.idempotency_table().await?);
    let mut records = Vec::new();
    for operation in OPERATIONS {
        let pk = AttributeValue::S(record_key(operation, &tenant, key.as_str()));
        let get = client.get_item().table_name(&table).key("pk", pk).consistent_read(true);
        let found = get.send().await.map_err(|error| failed(&format!("read the table `{table}`"), &error))?;
        records.extend(found.item.map(decode));
    }
    if records.is_empty() {
        return Err(Failure::new(
            Exit::Nothing,
            format!("the tenant {tenant} has no record of the key {}", key.as_str()),
        )
        .why("no such request was accepted, or its record has expired"));
    }
    show(records, out);
    Ok(Exit::Done)
}

/// Returns the id of a tenant that is given by name or id. The access table is read only for a
/// name.
pub(crate) async fn tenant(context: &Context, reference: &str) -> Result<String, Failure> {
    if reference.parse::<uuid::Uuid>().is_ok() {
        return Ok(reference.to_owned());
    }
    Table::of(context).await?.read().await?.tenant(reference)
}

/// Converts an idempotency record to JSON, with the stored response as it was sent, and with the
/// end of the lease as a time.
fn decode(mut item: Attributes) -> Value {
    let payload = item.remove("responsePayload");
    let decoded: Result<Map<String, Value>, _> = serde_dynamo::from_item(item);
    let mut record = decoded.unwrap_or_default();
    let lease = record.get("leaseExpiresAt").and_then(Value::as_i64).filter(|&lease| lease > 0);
    record.insert(
        "leaseExpiresAt".to_owned(),
        json!(lease.and_then(|at| Timestamp::from_millisecond(at).ok())),
    );
    let response = match payload {
        Some(AttributeValue::S(text)) => Some(text),
        Some(AttributeValue::B(gzip)) => inflate(gzip.as_ref()),
        _ => None,
    };
    if let Some(text) = response {
        let response = serde_json::from_str(&text).unwrap_or_else(|_| json!(text));
        record.insert("response".to_owned(), response);
    }
    Value::Object(record)
}

fn inflate(gzip: &[u8]) -> Option<String> {
    std::io::read_to_string(GzDecoder::new(gzip).take(MAX_RESPONSE)).ok()
}

fn show(records: Vec<Value>, out: &mut Output) {
    if out.format() != Format::Text {
        return out.list(SCHEMA, "records", records, &[], Vec::new());
    }
    for (number, record) in records.iter().enumerate() {
        if number > 0 {
            out.line("");
        }
        let members = record.as_object().into_iter().flatten();
        let rows: Vec<(&str, String)> = members
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.as_str(), plain(value).chars().take(SHOWN).collect()))
            .collect();
        out.thing(SCHEMA, record, &rows);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use aws_sdk_dynamodb::primitives::Blob;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn item(payload: AttributeValue) -> Attributes {
        Attributes::from([
            ("pk".to_owned(), AttributeValue::S("PRODUCE#t#k".to_owned())),
            ("attempt".to_owned(), AttributeValue::N("1".to_owned())),
            ("leaseExpiresAt".to_owned(), AttributeValue::N("1764237600000".to_owned())),
            ("responsePayload".to_owned(), payload),
        ])
    }

    #[test]
    fn a_response_is_shown_as_it_was_sent() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(b"{\"count\":1}").unwrap();
        let packed = AttributeValue::B(Blob::new(gzip.finish().unwrap()));
        for payload in [packed, AttributeValue::S("{\"count\":1}".to_owned())] {
            let record = decode(item(payload));
            assert_eq!(record["response"], json!({"count": 1}));
            assert_eq!(record["leaseExpiresAt"], json!("2025-11-27T10:00:00Z"));
            assert_eq!(record["attempt"], json!(1));
        }
        assert_eq!(decode(item(AttributeValue::S("text".to_owned())))["response"], json!("text"));
    }
}
