//! Results of dropped objects: the JSON in S3 that tells an object's owner what became of it.

use crate::payload::Source;
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::drops::errors_key;

/// Counts of the file with a dropped object's items in error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCounts {
    /// Number of items in error that the file lists.
    pub listed: u64,
    /// Number of items in error that the file leaves out. The API may list more of them.
    pub omitted: u64,
}

/// Builds the result of a dropped object that became a batch, which is in progress.
#[must_use]
pub fn received(source: &Source, batch_id: Uuid) -> Value {
    json!({"object": source, "status": "RECEIVED", "batch_id": batch_id})
}

/// Builds the result of a dropped object that was accepted as a batch, but was gone or replaced
/// before it was copied.
#[must_use]
pub fn expired(source: &Source, batch_id: Uuid) -> Value {
    json!({"object": source, "status": "EXPIRED", "batch_id": batch_id})
}

/// Builds the result of a dropped object that was refused. The object stays where it is.
#[must_use]
pub fn refused(source: &Source, reason: &str, detail: &str) -> Value {
    json!({"object": source, "status": "REFUSED", "reason": reason, "detail": detail})
}

/// Builds the result of a dropped object whose batch is final. `batch` has the form of the API's
/// response, with its `status`.
#[must_use]
pub fn final_result(source: &Source, batch_id: Uuid, batch: &impl Serialize, errors: ErrorCounts) -> Value {
    let batch = serde_json::to_value(batch).unwrap_or_default();
    let file = (errors.listed > 0).then(|| errors_key(&source.key));
    json!({
        "object": source,
        "status": batch.get("status"),
        "batch_id": batch_id,
        "batch": batch,
        // The API's file has all items that the payload had in error, with their text.
        "errors": {
            "key": file,
            "listed": errors.listed,
            "omitted": errors.omitted,
            "url": batch.get("errors_url"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_says_what_it_is_about_and_where_the_errors_are() {
        let source = Source {
            bucket: "payloads".to_owned(),
            key: "drop/1/full/a.json".to_owned(),
            etag: "\"ab\"".to_owned(),
            version_id: None,
        };
        let object =
            json!({"bucket": "payloads", "key": "drop/1/full/a.json", "etag": "\"ab\"", "version_id": null});
        let url = "/v1/inovafarma/batches/00000000-0000-0000-0000-000000000000/errors.ndjson";
        let batch = json!({"status": "PARTIAL_FAIL", "items_failed": 3, "errors_url": url});
        let ended = final_result(&source, Uuid::nil(), &batch, ErrorCounts { listed: 2, omitted: 1 });
        assert_eq!(
            (&ended["object"], &ended["status"], &ended["batch"]),
            (&object, &json!("PARTIAL_FAIL"), &batch)
        );
        assert_eq!(
            ended["errors"],
            json!({"key": "drop-results/1/full/a.json.errors.ndjson", "listed": 2, "omitted": 1, "url": url})
        );
        let batch = json!({"status": "COMPLETED", "items_failed": 0, "errors_url": null});
        let without = final_result(&source, Uuid::nil(), &batch, ErrorCounts { listed: 0, omitted: 0 });
        assert_eq!((&without["errors"]["key"], &without["errors"]["url"]), (&Value::Null, &Value::Null));
        assert_eq!(received(&source, Uuid::nil())["status"], "RECEIVED");
        assert_eq!(expired(&source, Uuid::nil())["status"], "EXPIRED");
        let refused = refused(&Source { version_id: Some("v1".to_owned()), ..source }, "EMPTY", "no bytes");
        assert_eq!((&refused["reason"], &refused["object"]["version_id"]), (&json!("EMPTY"), &json!("v1")));
    }
}
