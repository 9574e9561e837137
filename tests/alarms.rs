//! Tests that the functions emit the metrics which alarms read, with the right dimensions and
//! beyond the threshold. The tests cause the conditions on the stack. The alarms themselves are not
//! tested, since there is no CloudWatch.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use end_to_end::{Broker, Gateway, Queue, Records, leaks};
use futures_util::future::join_all;
use runtime::metrics::{self, Emf, Kind, Metric};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::template;

const NAMESPACE: &str = "IntegraHub";
/// Maximum time until a log line is in the stack's log file, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Log lines that the stack's functions have written since a test began.
pub(crate) struct Emitted {
    log: PathBuf,
    begin: usize,
}

impl Emitted {
    pub(crate) fn from_now() -> Self {
        let logs = leaks::logs().unwrap_or_else(|| panic!("tests run by `make test`"));
        let log = logs.join("functions.log");
        let begin = std::fs::read(&log).unwrap().len();
        Self { log, begin }
    }

    /// Waits until the values of a metric reach the threshold of an alarm. Counts only log lines
    /// about these idempotency keys; all lines if `keys` is empty, as for metrics whose lines have
    /// no key.
    pub(crate) async fn reach(&self, alarm: &str, metric: Metric, keys: &[Uuid]) {
        let emf = metric.emf.unwrap();
        let (services, threshold) = read_by(alarm, emf);
        let begin = Instant::now();
        loop {
            let values = self.values(emf, &services, keys);
            let value = match metric.kind {
                Kind::Counter => values.iter().sum::<u64>(),
                Kind::Gauge | Kind::Histogram => values.iter().copied().max().unwrap_or_default(),
            };
            if value >= threshold {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{alarm}: {} is {value}, below {threshold}", emf.name);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Returns the values of a metric that these functions have emitted since the test began.
    fn values(&self, emf: Emf, services: &[String], keys: &[Uuid]) -> Vec<u64> {
        let bytes = std::fs::read(&self.log).unwrap();
        let text = String::from_utf8_lossy(&bytes[self.begin..]);
        let lines = text.lines().filter(|line| line.contains(emf.name));
        let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let lines = lines.filter(|line| declares(line, emf, services) && is_about(line, keys));
        lines.map(|line| line[emf.name].as_u64().unwrap()).collect()
    }
}

/// Returns true if CloudWatch would read this metric from a log line, and the line is of one of
/// these functions.
fn declares(line: &Value, emf: Emf, services: &[String]) -> bool {
    let directive = &line["_aws"]["CloudWatchMetrics"][0];
    let declared = directive["Metrics"].as_array();
    let service = line["service"].as_str().unwrap_or_default();
    declared.is_some_and(|metrics| metrics.iter().any(|metric| metric["Name"] == emf.name))
        && directive["Namespace"] == NAMESPACE
        && directive["Dimensions"] == json!([["stack", "service"]])
        && line["stack"].is_string()
        && services.iter().any(|read| read == service)
}

fn is_about(line: &Value, keys: &[Uuid]) -> bool {
    let key = line["idempotency_key"].as_str();
    keys.is_empty() || keys.iter().any(|one| key == Some(one.to_string().as_str()))
}

/// Reads from the template the functions whose metric an alarm watches, and the alarm's threshold.
fn read_by(alarm: &str, emf: Emf) -> (Vec<String>, u64) {
    let alarms = template::resources("AWS::CloudWatch::Alarm");
    let alarm = &alarms[format!("{alarm}Alarm").as_str()];
    let mut services = Vec::new();
    for metric in template::watched(alarm) {
        if metric["Namespace"] == NAMESPACE && metric["MetricName"] == emf.name {
            let dimensions = &metric["Dimensions"];
            assert_eq!(
                (dimensions[0]["Name"].as_str(), dimensions[1]["Name"].as_str()),
                (Some("stack"), Some("service"))
            );
            services.push(dimensions[1]["Value"].as_str().unwrap().to_owned());
        }
    }
    assert!(!services.is_empty(), "the alarm does not read {}", emf.name);
    (services, alarm["Properties"]["Threshold"].as_u64().unwrap())
}

/// Sends a consume, and makes its record belong to another execution while the consume waits for a
/// message. Returns its idempotency key.
async fn outlived(gateway: &Gateway, queue: &Queue) -> Uuid {
    let (records, key) = (Records::open().await, Uuid::new_v4());
    let taken_over = async {
        while records.find("CONSUME", key).await.is_none() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let owner = AttributeValue::S("another attempt".to_owned());
        records.set("CONSUME", key, &[("owner", owner)]).await;
        gateway.produce(Uuid::new_v4(), &queue.target()).await.expect(201);
    };
    let body = queue.request(json!({"maxMessages": 1, "waitSeconds": 20}));
    let (answer, ()) = tokio::join!(gateway.consume(key, &body), taken_over);
    assert!(answer.status >= 400, "it has an answer of its own: {}", answer.status);
    key
}

#[tokio::test]
async fn records_that_are_taken_over_or_damaged_reach_the_thresholds_of_their_alarms() {
    let (emitted, gateway, broker) = (Emitted::from_now(), Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    let fenced = join_all((0..3).map(|_| outlived(&gateway, &queue))).await;
    let damaged = Uuid::new_v4();
    gateway.produce(damaged, &queue.target()).await.expect(201);
    let status = AttributeValue::S("STRANGE".to_owned());
    Records::open().await.set("PRODUCE", damaged, &[("status", status)]).await;
    gateway.produce(damaged, &queue.target()).await.expect_problem(503, "STORE_UNAVAILABLE");
    let expected: [(&str, Metric, &[Uuid]); 3] = [
        ("FencedWrites", metrics::IDEMPOTENCY_FENCED, &fenced),
        ("UnreadableResults", metrics::IDEMPOTENCY_UNREADABLE, &[damaged]),
        ("StoreUnavailable", metrics::STORE_UNAVAILABLE, &[]),
    ];
    for (alarm, metric, keys) in expected {
        emitted.reach(alarm, metric, keys).await;
    }
    broker.delete(&queue).await;
}
