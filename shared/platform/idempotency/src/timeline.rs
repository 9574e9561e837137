//! Timelines: the history of a request that its idempotency record shows, without the response.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::dynamodb::text;
use crate::error::StoreError;
use crate::protocol::{ProgressLeftBehind, Status};

/// Attributes of a record that a timeline reads. The response, the fingerprints and the owner token
/// are left out.
const ATTRIBUTES: [&str; 22] = [
    "operationType",
    "status",
    "attempt",
    "createdAt",
    "updatedAt",
    "expiresAt",
    "leaseExpiresAt",
    "traceId",
    "firstTraceId",
    "keyName",
    "target",
    "checkpoint",
    "inDoubt",
    "possibleDuplicates",
    "placeName",
    "leftBehind",
    "doubtNotedAt",
    "httpStatus",
    "errorMessage",
    "durationMs",
    "messages",
    "bytes",
];

/// Lowest count that means an unknown number: 2^53, above which JSON numbers are not exact. No work
/// has so many units.
const ANY: u64 = 1 << 53;

/// History of one request, read from its idempotency record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// Name of the operation type of the request.
    #[serde(skip)]
    pub operation: String,
    /// Status of the request's record, for example completed.
    pub status: Status,
    /// Queue of the work, as `<queueManager>:<queue>`; `None` if the work has no queue.
    pub target: Option<String>,
    /// Name of the API key or token of the first request. `None` in a record of an earlier version.
    pub key_name: Option<String>,
    /// Number of attempts at the request.
    pub attempts: u32,
    /// Trace ids of the first and the last attempt; only one if they are equal.
    pub trace_ids: Vec<String>,
    /// Time of the first claim of the key.
    pub claimed_at: Timestamp,
    /// Time of the last write: the start of an attempt, a checkpoint, or the end of an attempt.
    pub updated_at: Timestamp,
    /// Time at which the last attempt ended; `None` if it has not ended.
    pub ended_at: Option<Timestamp>,
    /// End of the last attempt's lease, during which no other attempt can start; `None` if the
    /// attempt has ended.
    pub lease_ends_at: Option<Timestamp>,
    /// Time at which it was recorded that a request whose response was prepared may or may not have
    /// taken effect; `None` if this was never recorded.
    pub doubt_noted_at: Option<Timestamp>,
    /// Time from which the idempotency key may be used again.
    pub expires_at: Timestamp,
    /// Duration of the last attempt that ended, in milliseconds; `None` if the record has none.
    pub duration_ms: Option<u64>,
    /// HTTP status of the stored response; `None` if the record has none.
    pub http_status: Option<u16>,
    /// Reason of the last failure, such as `QUEUE_NOT_FOUND`, as in the response to the client;
    /// `None` if none is recorded.
    pub reason: Option<String>,
    /// Error text of the last failure; `None` if none is recorded.
    pub detail: Option<String>,
    /// Units of work (for example messages) that all attempts have done, or may have done, until
    /// now.
    pub progress: Units,
    /// Number of messages that all attempts put, got or moved; 0 if none is recorded.
    pub messages: u64,
    /// Bytes of the messages that all attempts put or got; 0 if none are recorded.
    pub bytes: u64,
}

/// Units of resumable work (for example messages) that were done, may have been done, or may have
/// been done twice, at the last attempt's place (for example a queue) and at others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Units {
    /// Number of units that are known to be done at `place`, by the last checkpoint. A completed
    /// request may lack its last checkpoint: the number is then that of all its messages, minus the
    /// units done at other places.
    pub done: u64,
    /// Maximum number of further units that may have been done; `None` if there is no known
    /// maximum.
    pub in_doubt: Option<u64>,
    /// Maximum number of units that may have been done twice; `None` if there is no known maximum.
    pub possible_duplicates: Option<u64>,
    /// Display name of the place where the units were done; `None` if it was not recorded.
    pub place: Option<String>,
    /// Units that earlier attempts did, or may have done, at other places.
    pub left_behind: Vec<UnitsLeftBehind>,
}

/// Units of work (for example messages) that an earlier attempt left at another place (for example
/// a queue) than the last attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnitsLeftBehind {
    /// Display name of the place; `None` if it was not recorded, or if the entry sums up several
    /// places.
    pub place: Option<String>,
    /// Number of units that are known to be done at the place.
    pub done: u64,
    /// Maximum number of units that may have been done at the place besides those in `done`; `None`
    /// if there is no known maximum.
    pub in_doubt: Option<u64>,
}

/// Attributes of an idempotency record that a timeline reads, as they are in the table.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    operation_type: String,
    status: Status,
    attempt: u32,
    created_at: Timestamp,
    updated_at: Timestamp,
    expires_at: Timestamp,
    lease_expires_at: i64,
    trace_id: Option<String>,
    first_trace_id: Option<String>,
    key_name: Option<String>,
    target: Option<String>,
    #[serde(default)]
    checkpoint: u64,
    #[serde(default)]
    in_doubt: u64,
    #[serde(default)]
    possible_duplicates: u64,
    place_name: Option<String>,
    #[serde(default)]
    left_behind: Vec<ProgressLeftBehind>,
    doubt_noted_at: Option<Timestamp>,
    http_status: Option<u16>,
    error_message: Option<String>,
    duration_ms: Option<u64>,
    #[serde(default)]
    messages: u64,
    #[serde(default)]
    bytes: u64,
}

impl Timeline {
    /// True if a new claim may replace the record, because both its retention and its lease have
    /// ended.
    pub(crate) fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at <= now && self.lease_ends_at.is_none_or(|end| end <= now)
    }
}

impl From<Stored> for Timeline {
    fn from(stored: Stored) -> Self {
        let is_open = stored.status.is_open();
        let (reason, detail) = stored.error_message.map_or((None, None), failed_for);
        let last = stored.trace_id.into_iter().filter(|last| Some(last) != stored.first_trace_id.as_ref());
        let trace_ids = last.collect::<Vec<_>>();
        let left_behind = stored.left_behind.into_iter().map(|left| UnitsLeftBehind {
            place: left.name,
            done: left.done,
            in_doubt: counted(left.in_doubt),
        });
        let left_behind = left_behind.collect::<Vec<_>>();
        let done = match stored.status {
            Status::Completed => {
                let elsewhere = left_behind.iter().fold(0, |sum: u64, left| sum.saturating_add(left.done));
                stored.checkpoint.max(stored.messages.saturating_sub(elsewhere))
            }
            // A retry goes on from the checkpoint.
            Status::InProgress | Status::Prepared | Status::Failed => stored.checkpoint,
        };
        Self {
            operation: stored.operation_type,
            status: stored.status,
            target: stored.target,
            key_name: stored.key_name,
            attempts: stored.attempt,
            trace_ids: stored.first_trace_id.into_iter().chain(trace_ids).collect(),
            claimed_at: stored.created_at,
            updated_at: stored.updated_at,
            ended_at: (!is_open).then_some(stored.updated_at),
            lease_ends_at: is_open
                .then(|| Timestamp::from_millisecond(stored.lease_expires_at).ok())
                .flatten(),
            doubt_noted_at: stored.doubt_noted_at,
            expires_at: stored.expires_at,
            duration_ms: stored.duration_ms,
            http_status: stored.http_status,
            reason,
            detail,
            progress: Units {
                done,
                in_doubt: counted(stored.in_doubt),
                possible_duplicates: counted(stored.possible_duplicates),
                place: stored.place_name,
                left_behind,
            },
            messages: stored.messages,
            bytes: stored.bytes,
        }
    }
}

/// Reads the timeline of a record with strong consistency; `None` if the record does not exist.
pub(crate) async fn read(dynamodb: &Client, table: &str, pk: &str) -> Result<Option<Timeline>, StoreError> {
    let marked = ATTRIBUTES.map(|name| format!("#{name}"));
    let mut get = dynamodb
        .get_item()
        .table_name(table)
        .key("pk", text(pk))
        .consistent_read(true)
        .projection_expression(marked.join(", "));
    for (mark, name) in marked.into_iter().zip(ATTRIBUTES) {
        get = get.expression_attribute_names(mark, name);
    }
    let item = get.send().await.map_err(StoreError::unavailable)?.item;
    item.map(timeline).transpose()
}

fn timeline(item: HashMap<String, AttributeValue>) -> Result<Timeline, StoreError> {
    let stored: Stored = attempt::malformed::from_item(item).map_err(StoreError::unreadable)?;
    Ok(stored.into())
}

/// Splits an error text such as `QUEUE_NOT_FOUND: the queue does not exist` into its reason, if it
/// begins with one, and its detail.
fn failed_for(text: String) -> (Option<String>, Option<String>) {
    let is_reason =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    match text.split_once(": ") {
        Some((reason, detail)) if is_reason(reason) => (Some(reason.to_owned()), Some(detail.to_owned())),
        _ => (None, Some(text)),
    }
}

/// Returns `units`, or `None` if the value means an unknown number.
fn counted(units: u64) -> Option<u64> {
    (units < ANY).then_some(units)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::dynamodb::number;

    fn item(more: &[(&str, AttributeValue)]) -> HashMap<String, AttributeValue> {
        let own = [
            ("operationType", text("PRODUCE")),
            ("status", text("COMPLETED")),
            ("attempt", number(1)),
            ("createdAt", text("2026-11-27T10:00:00.000Z")),
            ("updatedAt", text("2026-11-27T10:00:01.500Z")),
            ("expiresAt", text("2026-11-28T10:00:01.500Z")),
            ("leaseExpiresAt", number(0)),
        ];
        own.iter().chain(more).map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    fn shown(more: &[(&str, AttributeValue)]) -> Value {
        serde_json::to_value(timeline(item(more)).unwrap()).unwrap()
    }

    #[test]
    fn a_completed_request_has_its_times_its_volume_and_no_body() {
        let found = shown(&[
            ("keyName", text("till 1")),
            ("target", text("QM1:ORDERS")),
            ("traceId", text("trace-1")),
            ("httpStatus", number(201)),
            ("durationMs", number(1500)),
            ("messages", number(3)),
            ("bytes", number(42)),
            ("requestHash", text("hash")),
            ("owner", text("owner")),
            ("responsePayload", text("{\"secret\":1}")),
        ]);
        let expected = json!({
            "status": "COMPLETED", "target": "QM1:ORDERS", "keyName": "till 1", "attempts": 1,
            "traceIds": ["trace-1"],
            "claimedAt": "2026-11-27T10:00:00Z", "updatedAt": "2026-11-27T10:00:01.5Z",
            "endedAt": "2026-11-27T10:00:01.5Z", "leaseEndsAt": null, "doubtNotedAt": null,
            "expiresAt": "2026-11-28T10:00:01.5Z", "durationMs": 1500,
            "httpStatus": 201, "reason": null, "detail": null,
            "progress": {"done": 3, "inDoubt": 0, "possibleDuplicates": 0, "place": null, "leftBehind": []},
            "messages": 3, "bytes": 42,
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn a_failed_request_says_why_and_what_is_in_doubt() {
        let left = AttributeValue::M(HashMap::from([
            ("name".to_owned(), text("QM2")),
            ("done".to_owned(), number(5)),
            ("inDoubt".to_owned(), number(u64::MAX)),
        ]));
        let found = shown(&[
            ("status", text("FAILED")),
            ("attempt", number(2)),
            ("traceId", text("trace-2")),
            ("firstTraceId", text("trace-1")),
            ("errorMessage", text("QUEUE_NOT_FOUND: there is no queue: ORDERS")),
            ("checkpoint", number(50)),
            ("inDoubt", number(7)),
            ("possibleDuplicates", number(u64::MAX / 2)),
            ("placeName", text("QM1")),
            ("leftBehind", AttributeValue::L(vec![left])),
        ]);
        assert_eq!(found["traceIds"], json!(["trace-1", "trace-2"]));
        assert_eq!(
            (&found["reason"], &found["detail"]),
            (&json!("QUEUE_NOT_FOUND"), &json!("there is no queue: ORDERS"))
        );
        let progress = json!({
            "done": 50, "inDoubt": 7, "possibleDuplicates": null, "place": "QM1",
            "leftBehind": [{"place": "QM2", "done": 5, "inDoubt": null}],
        });
        assert_eq!(found["progress"], progress);
        let other = shown(&[("errorMessage", text("the broker: closed"))]);
        assert_eq!((&other["reason"], &other["detail"]), (&Value::Null, &json!("the broker: closed")));
    }

    #[test]
    fn what_is_done_once_the_work_is_completed_is_all_but_what_is_left_behind() {
        let left = |done: u64| {
            let left = HashMap::from([("done".to_owned(), number(done)), ("inDoubt".to_owned(), number(0))]);
            ("leftBehind", AttributeValue::L(vec![AttributeValue::M(left)]))
        };
        let done = |more: &[(&str, AttributeValue)]| shown(more)["progress"]["done"].clone();
        assert_eq!(done(&[("messages", number(100)), ("checkpoint", number(50))]), 100);
        assert_eq!(done(&[("messages", number(100)), ("checkpoint", number(50)), left(30)]), 70);
        assert_eq!(done(&[("checkpoint", number(50))]), 50, "an earlier version noted no messages");
        let failed = ("status", text("FAILED"));
        assert_eq!(done(&[failed, ("messages", number(60)), ("checkpoint", number(50))]), 50);
    }

    #[test]
    fn a_request_under_way_has_a_lease_and_no_end() {
        let more = [("status", text("IN_PROGRESS")), ("leaseExpiresAt", number(1_795_255_232_000_i64))];
        let found = timeline(item(&more)).unwrap();
        assert_eq!((found.ended_at, found.lease_ends_at.is_some()), (None, true));
        let lease = found.lease_ends_at.unwrap();
        let late = found.expires_at.max(lease);
        assert!(found.has_expired(late) && !found.has_expired(found.claimed_at));
    }

    #[test]
    fn what_no_version_wrote_is_unreadable() {
        let broken = timeline(item(&[("status", text("LOST"))]));
        assert!(matches!(broken, Err(StoreError::Unreadable(_))), "{broken:?}");
    }
}
