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
pub const IDEMPOTENT_REPLAYS: &str = "IdempotentReplays";
pub const IDEMPOTENCY_CONFLICTS: &str = "IdempotencyConflicts";

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
