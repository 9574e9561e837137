//! Results of a broker's operations: produce, consume, depth, connection test, and the connection
//! pools.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::address::Address;
use crate::message::ReceivedMessage;
use crate::target::BrokerKind;
use crate::warnings::Warnings;

/// Latency of puts in milliseconds, from sending a message to the broker to its confirmation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the mean and three percentiles, as their names say")]
pub struct Latency {
    pub avg: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
}

/// Result of a produce that put all of its messages.
#[derive(Clone, Debug, PartialEq)]
pub struct ProduceReport {
    /// Number of messages that this execution of the request put.
    pub enqueued: u64,
    /// Bytes of the bodies of the messages that this execution of the request put.
    pub bytes: u64,
    /// Number of transactions that this execution of the request committed; 0 if the request asked
    /// for none.
    pub transactions: u64,
    /// True if each transaction was committed atomically.
    pub atomic: bool,
    /// Latency of the messages that this execution of the request put; all 0 if it put none.
    pub latency: Latency,
    /// Id of the first message that this execution of the request put, in the broker's form; `None`
    /// if it put none.
    pub first_id: Option<Vec<u8>>,
    /// Id of the last message that this execution of the request put, in the broker's form; `None`
    /// if it put none.
    pub last_id: Option<Vec<u8>>,
    /// Warnings about behaviour of the broker that the caller may not expect.
    pub warnings: Warnings,
}

/// Result of a consume: the messages that it took, and whether the queue has more of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Consumed {
    /// Consumed messages, in the order in which the broker delivered them.
    pub messages: Vec<ReceivedMessage>,
    /// True if the queue had more messages than fit in the response. The others stay on the queue.
    pub truncated: bool,
    /// Seconds that the consume was allowed to wait: `waitSeconds` of the request, or less if its
    /// time budget was shorter.
    pub wait_seconds_applied: u32,
    /// Warnings about behaviour of the broker that the caller may not expect.
    pub warnings: Warnings,
}

/// Depth of a queue, with its limit and the number of clients that use it. A number that the broker
/// does not report is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DepthReport {
    /// Number of messages that can be consumed now. RabbitMQ's unacknowledged messages do not
    /// count.
    pub current_depth: u64,
    /// Maximum number of messages that the queue can hold.
    pub max_depth: Option<u64>,
    /// Number of clients that have the queue open for input; for RabbitMQ, the number of consumers.
    /// `None` if the broker does not report it.
    pub open_input_count: Option<u64>,
    /// Number of clients that have the queue open for output; `None` if the broker does not report
    /// it.
    pub open_output_count: Option<u64>,
}

/// Step of a connection test, such as the login. A step was done, failed with a code and a detail,
/// or was skipped because an earlier step failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "`steps` of `ConnectionTestResult` in openapi.yaml describes each member")]
pub struct TestStep {
    pub name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
}

/// Result of a connection test, with all of its steps.
#[derive(Clone, Debug, PartialEq)]
pub struct TestReport {
    /// True if no step of the connection test failed.
    pub ok: bool,
    /// Product name that the broker reports of itself, such as `RabbitMQ`; the usual name if it
    /// reports none.
    pub product: String,
    /// Version that the broker reports; `None` if no connection was opened.
    pub version: Option<String>,
    /// Round-trip time on the open connection, in milliseconds; `None` if no connection was opened.
    pub latency_ms: Option<f64>,
    /// Reason why the broker accepts no messages at present, if it reports one.
    pub blocked: Option<String>,
    /// All steps of the connection test in order, including skipped ones.
    pub steps: Vec<TestStep>,
}

impl TestReport {
    /// True if the TLS or the login step failed: the broker refused the user, password or
    /// certificate, or TLS could not be set up.
    #[must_use]
    pub fn is_login_refused(&self) -> bool {
        let is_of_secrets = |step: &TestStep| ["tls", "authenticate"].contains(&step.name);
        self.steps.iter().any(|step| is_of_secrets(step) && step.ok == Some(false))
    }
}

/// Numbers of broker connections to one target, in the form of the response to `GET /status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionCounts {
    /// Target of the connections, as `<broker>://<addresses>/<virtual host or queue manager>`,
    /// without user and secrets.
    pub target: String,
    /// Number of open connections to the target, in use or idle.
    pub open: usize,
    /// Number of connections to the target that a request uses now.
    pub in_use: usize,
    /// Maximum number of open connections to all targets together, in one execution environment.
    pub max_size: usize,
}

impl ConnectionCounts {
    /// Counts connections by target. Each connection is given as its target, and true if a request
    /// uses it. `max_size` is the limit on open connections to all targets together.
    #[must_use]
    pub fn by_target(connections: impl Iterator<Item = (String, bool)>, max_size: usize) -> Vec<Self> {
        let mut reports = BTreeMap::new();
        for (target, is_used) in connections {
            let report = reports.entry(target).or_insert_with_key(|target: &String| Self {
                target: target.clone(),
                open: 0,
                in_use: 0,
                max_size,
            });
            report.open += 1;
            report.in_use += usize::from(is_used);
        }
        reports.into_values().collect()
    }

    /// Builds [`Self::target`] from the broker's product, its addresses in the order in which they
    /// are tried, and its queue manager or virtual host.
    pub fn target_of(broker: BrokerKind, addresses: &[Address], queue_manager: &str) -> String {
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        format!("{}://{}/{queue_manager}", broker.as_str(), addresses.join(","))
    }
}
