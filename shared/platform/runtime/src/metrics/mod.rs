//! The catalogue of metrics, and the two forms in which they are published: CloudWatch's embedded
//! metric format, which is log lines that CloudWatch turns into metrics without a call, and the
//! text that Prometheus scrapes.
//!
//! AWS charges for each combination of values of the dimensions. So there are only two dimensions:
//! `stack`, without which the alarms of two deployments in an account would raise each other, and
//! `service`. Tenant, key and target are properties, which can be searched and cost nothing.

mod catalogue;
mod metric;
mod scrape;

pub use catalogue::*;
pub use metric::{Emf, EmfUnit, Kind, Metric};
pub use scrape::{CONTENT_TYPE, Scrape};

use std::sync::LazyLock;

use jiff::Timestamp;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::json_line;

const NAMESPACE: &str = "IntegraHub";
/// Name of the CloudFormation stack, for the dimension `stack`: `STACK_NAME`, or `local`.
static STACK: LazyLock<String> =
    LazyLock::new(|| std::env::var("STACK_NAME").unwrap_or_else(|_| "local".to_owned()));

/// Converts a duration to whole milliseconds, as the value of a metric.
#[must_use]
pub fn milliseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Writes values of metrics of the function `service`, and the fields `properties`, as a log line
/// in CloudWatch's embedded metric format. Metrics without CloudWatch properties are skipped.
pub fn measure(service: &str, measures: &[(Metric, u64)], properties: Map<String, Value>) {
    let line = Line { stack: &STACK, service, measures, properties, now: Timestamp::now() };
    json_line::write(&line, std::io::stdout());
}

/// Writes the value 1 for each of `metrics` of the function `service`, and the fields `properties`,
/// as a log line in CloudWatch's embedded metric format.
pub fn count(service: &str, metrics: &[Metric], properties: Map<String, Value>) {
    let counts: Vec<_> = metrics.iter().map(|metric| (*metric, 1)).collect();
    measure(service, &counts, properties);
}

/// Log line with values of metrics, in the embedded metric format.
struct Line<'a> {
    stack: &'a str,
    service: &'a str,
    measures: &'a [(Metric, u64)],
    properties: Map<String, Value>,
    now: Timestamp,
}

impl Line<'_> {
    /// Returns the metrics of the line that have CloudWatch properties, with their values.
    fn emitted(&self) -> impl Iterator<Item = (Emf, u64)> {
        self.measures.iter().filter_map(|(metric, value)| Some((metric.emf?, *value)))
    }
}

/// Declaration of the metrics in a log line: an element of `_aws.CloudWatchMetrics` in the embedded
/// metric format.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Directive {
    namespace: &'static str,
    dimensions: [[&'static str; 2]; 1],
    metrics: Vec<DeclaredMetric>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct DeclaredMetric {
    name: &'static str,
    unit: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Declared {
    timestamp: i64,
    cloud_watch_metrics: [Directive; 1],
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { stack, service, measures: _, properties, now } = self;
        let metrics =
            self.emitted().map(|(emf, _)| DeclaredMetric { name: emf.name, unit: emf.unit.as_str() });
        let directive = Directive {
            namespace: NAMESPACE,
            dimensions: [["stack", "service"]],
            metrics: metrics.collect(),
        };
        let declared = Declared { timestamp: now.as_millisecond(), cloud_watch_metrics: [directive] };
        let mut line = serializer.serialize_map(None)?;
        for (name, value) in properties {
            line.serialize_entry(name, value)?;
        }
        line.serialize_entry("stack", stack)?;
        line.serialize_entry("service", service)?;
        for (emf, value) in self.emitted() {
            line.serialize_entry(emf.name, &value)?;
        }
        line.serialize_entry("_aws", &declared)?;
        line.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_declares_its_metrics_and_keeps_properties_out_of_the_dimensions() {
        let properties = Map::from_iter([("tenant".to_owned(), json!("t"))]);
        let measures =
            [(REQUESTS, 1), (UP, 1), (CHUNKING_TIME, milliseconds(std::time::Duration::from_secs(2)))];
        let (stack, service, now) = ("integrahub-dev", "produce", Timestamp::UNIX_EPOCH);
        let line = json!(Line { stack, service, measures: &measures, properties, now });
        assert_eq!(line["Requests"], 1);
        assert_eq!(line["tenant"], "t");
        let directive = &line["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(directive["Dimensions"], json!([["stack", "service"]]));
        assert_eq!((&line["stack"], &line["service"]), (&json!("integrahub-dev"), &json!("produce")));
        assert_eq!(directive["Metrics"].as_array().unwrap().len(), 2, "UP is not for CloudWatch");
        assert_eq!(directive["Metrics"][1], json!({"Name": "ChunkingTime", "Unit": "Milliseconds"}));
        assert_eq!(line["ChunkingTime"], 2000);
    }
}
