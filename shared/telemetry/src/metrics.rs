//! Metrics in CloudWatch's embedded metric format: log lines that CloudWatch turns into metrics without a call.
//!
//! Every dimension is a metric of its own and paid for, so the only one is `service`; tenant, key and target are
//! properties, which can be searched and cost nothing.

use std::io::Write as _;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

const NAMESPACE: &str = "IntegraHub";

/// Names of the metrics, each a count.
pub const REQUESTS: &str = "Requests";
pub const IDEMPOTENCY_CLAIMS: &str = "IdempotencyClaims";
pub const IDEMPOTENT_REPLAYS: &str = "IdempotentReplays";
pub const IDEMPOTENCY_CONFLICTS: &str = "IdempotencyConflicts";
/// Conflicts that were refused because there were too many.
pub const IDEMPOTENCY_KEY_REUSE_ABUSE: &str = "IdempotencyKeyReuseAbuse";
pub const IDEMPOTENCY_IN_PROGRESS: &str = "IdempotencyInProgress";
pub const IDEMPOTENCY_TAKEOVERS: &str = "IdempotencyTakeovers";
/// Answers of an execution that died between storing its result and saying that it was done.
pub const IDEMPOTENCY_IN_DOUBT: &str = "IdempotencyInDoubt";
/// Writes that came too late and changed nothing.
pub const IDEMPOTENCY_FENCED: &str = "IdempotencyFenced";
/// Results that are missing or altered.
pub const IDEMPOTENCY_UNREADABLE: &str = "IdempotencyUnreadable";

/// Counts one occurrence of each of `names`, with `properties` beside them.
pub fn count(service: &str, names: &[&str], properties: Map<String, Value>) {
    let line = line(service, names, properties, Timestamp::now());
    // A metric that cannot be written must not end the request it counts.
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn line(service: &str, names: &[&str], properties: Map<String, Value>, now: Timestamp) -> Value {
    let metrics: Vec<_> = names.iter().map(|name| json!({"Name": name, "Unit": "Count"})).collect();
    let mut line = properties;
    line.insert("service".to_owned(), json!(service));
    for name in names {
        line.insert((*name).to_owned(), json!(1));
    }
    line.insert(
        "_aws".to_owned(),
        json!({
            "Timestamp": now.as_millisecond(),
            "CloudWatchMetrics": [{"Namespace": NAMESPACE, "Dimensions": [["service"]], "Metrics": metrics}],
        }),
    );
    Value::Object(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_declares_its_metrics_and_keeps_properties_out_of_the_dimensions() {
        let properties = Map::from_iter([("tenant".to_owned(), json!("t"))]);
        let line = line("produce", &[REQUESTS, IDEMPOTENT_REPLAYS], properties, Timestamp::UNIX_EPOCH);
        assert_eq!(line["Requests"], 1);
        assert_eq!(line["tenant"], "t");
        let directive = &line["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(directive["Dimensions"], json!([["service"]]));
        assert_eq!(directive["Metrics"][1], json!({"Name": "IdempotentReplays", "Unit": "Count"}));
    }
}
