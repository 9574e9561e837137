//! Parser of the DynamoDB items of idempotency records.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;
use serde::Deserialize;

use super::Item;
use crate::error::StoreError;
use crate::protocol::{
    Body, Place, PlaceHistory, Progress, ProgressLeftBehind, Record, Status, StoredResponse,
};

/// Attributes of an idempotency record in the table, without the body of the response.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    request_hash: String,
    request_rights: Option<String>,
    status: Status,
    owner: String,
    attempt: u32,
    lease_expires_at: i64,
    created_at: Timestamp,
    trace_id: Option<String>,
    first_trace_id: Option<String>,
    updated_at: Timestamp,
    expires_at: Timestamp,
    #[serde(default)]
    checkpoint: u64,
    #[serde(default)]
    in_doubt: u64,
    #[serde(default)]
    possible_duplicates: u64,
    place_id: Option<String>,
    place_name: Option<String>,
    #[serde(default)]
    left_behind: Vec<ProgressLeftBehind>,
    http_status: Option<u16>,
    response_headers: Option<BTreeMap<String, String>>,
    response_digest: Option<String>,
    response_location: Option<String>,
}

/// Parses the DynamoDB item of an idempotency record.
pub(crate) fn record(mut item: Item) -> Result<Record, StoreError> {
    let payload = item.remove("responsePayload");
    let stored: Stored = attempt::malformed::from_item(item).map_err(StoreError::unreadable)?;
    let body = match (payload, stored.response_location) {
        (Some(AttributeValue::S(body)), _) => Some(Body::Text(body)),
        (Some(AttributeValue::B(body)), _) => Some(Body::Gzip(body.into_inner())),
        (_, Some(key)) => Some(Body::Object(key)),
        (_, None) => None,
    };
    let response = match (stored.http_status, stored.response_headers, stored.response_digest, body) {
        (Some(status), Some(headers), Some(digest), Some(body)) => {
            Some(StoredResponse { status, headers, digest, body })
        }
        _ => None,
    };
    Ok(Record {
        request_hash: stored.request_hash,
        rights: stored.request_rights,
        status: stored.status,
        owner: stored.owner,
        attempt: stored.attempt,
        lease_expires_at: stored.lease_expires_at,
        created_at: stored.created_at,
        trace_id: stored.first_trace_id.or(stored.trace_id),
        updated_at: stored.updated_at,
        expires_at: stored.expires_at,
        progress: Progress {
            done: stored.checkpoint,
            in_doubt: stored.in_doubt,
            repeated: stored.possible_duplicates,
        },
        place_history: PlaceHistory {
            place: stored.place_id.map(|id| Place { id, name: stored.place_name.unwrap_or_default() }),
            left_behind: stored.left_behind,
        },
        response,
    })
}
