//! Results of a broker.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::address::Address;
use crate::message::ReceivedMessage;
use crate::target::BrokerKind;
use crate::warnings::Warnings;

/// Latency of puts in milliseconds, from handing a message to the broker to its confirmation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the mean and three percentiles, as their names say")]
pub struct Latency {
    pub avg: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
}

/// Result of a completed produce.
#[derive(Clone, Debug, PartialEq)]
pub struct ProduceReport {
    /// Number of messages that this execution put.
    pub enqueued: u64,
    /// Bytes of the bodies of the messages that this execution put.
    pub bytes: u64,
    /// Number of transactions that were committed; 0 if none were asked for.
    pub transactions: u64,
    /// True if each transaction was all or nothing.
    pub atomic: bool,
    /// Latency of the messages that this execution put; all 0 if there were none.
    pub latency: Latency,
    /// Id of the first message that this execution put, as the broker carries it.
    pub first_id: Option<Vec<u8>>,
    /// Id of the last message that this execution put.
    pub last_id: Option<Vec<u8>>,
    /// Warnings about behaviour of the broker that the caller may not expect.
    pub warnings: Warnings,
}

/// Consumed messages, with facts about the messages left on the queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Consumed {
    /// Messages in the order in which the queue gave them.
    pub messages: Vec<ReceivedMessage>,
    /// True if there were more messages than fit in a response; they stay on the queue.
    pub truncated: bool,
    /// Wait that was applied, in seconds: the requested one, or the rest of the time budget.
    pub wait_seconds_applied: u32,
    /// Warnings about behaviour of the broker that the caller may not expect.
    pub warnings: Warnings,
}

/// State of a queue; a number that the broker does not report is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DepthReport {
    /// Number of messages that can be consumed now. RabbitMQ does not count unacknowledged ones.
    pub current_depth: u64,
    /// Number of messages that the queue can hold.
    pub max_depth: Option<u64>,
    /// Number of clients that have the queue open to get messages: RabbitMQ's consumers.
    pub open_input_count: Option<u64>,
    /// Number of clients that have the queue open to put messages.
    pub open_output_count: Option<u64>,
}

/// Step of a connection test: done, failed with a code and a detail, or skipped because an earlier
/// step failed.
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

/// Result of a connection test, step by step. `latency_ms` is one round trip on the open
/// connection.
#[derive(Clone, Debug, PartialEq)]
pub struct TestReport {
    /// True if every step succeeded or was not needed.
    pub ok: bool,
    /// Product name that the broker reports of itself.
    pub product: String,
    /// Version of the broker, which is known after its greeting.
    pub version: Option<String>,
    /// Round-trip time in milliseconds; `None` if no connection was opened.
    pub latency_ms: Option<f64>,
    /// Reason why the broker accepts no messages for now, if it reports one.
    pub blocked: Option<String>,
    /// All steps in order, skipped ones included.
    pub steps: Vec<TestStep>,
}

impl TestReport {
    /// True if the broker refused the user, the password or the certificate, or TLS failed.
    #[must_use]
    pub fn is_login_refused(&self) -> bool {
        let is_of_secrets = |step: &TestStep| ["tls", "authenticate"].contains(&step.name);
        self.steps.iter().any(|step| is_of_secrets(step) && step.ok == Some(false))
    }
}

/// Pool of connections, as `GET /status` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolReport {
    /// Broker, address and virtual host or queue manager; without user and secrets.
    pub target: String,
    /// Number of connections that are open, in use or idle.
    pub open: usize,
    /// Number of connections that a request uses now.
    pub in_use: usize,
    /// Maximum number of connections that are open at once, over all pools of the execution
    /// environment.
    pub max_size: usize,
}

impl PoolReport {
    /// Groups connections into pools. Each connection is given by its target and true if a request
    /// uses it.
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

    /// Returns the `target` of the pool of these addresses, tried in this order.
    pub fn target_of(broker: BrokerKind, addresses: &[Address], queue_manager: &str) -> String {
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        format!("{}://{}/{queue_manager}", broker.as_str(), addresses.join(","))
    }
}
