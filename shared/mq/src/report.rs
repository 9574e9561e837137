//! What a broker answers.

use serde::{Deserialize, Serialize};

use crate::message::ReceivedMessage;
use crate::target::{Address, BrokerKind};

/// Milliseconds from handing a message to the broker to its confirmation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub avg: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
}

/// A produce that was done.
#[derive(Clone, Debug, PartialEq)]
pub struct ProduceReport {
    /// Messages put by this execution.
    pub enqueued: u64,
    pub bytes: u64,
    /// Transactions committed; 0 where none were asked for.
    pub transactions: u64,
    /// Whether each transaction was all or nothing.
    pub atomic: bool,
    pub latency: Latency,
    pub first_id: Option<Vec<u8>>,
    pub last_id: Option<Vec<u8>>,
    pub warnings: Vec<String>,
}

/// Messages in hand, and what could not be taken along.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Consumed {
    pub messages: Vec<ReceivedMessage>,
    /// More messages were there than fit in an answer; they stay on the queue.
    pub truncated: bool,
    /// The wait that was applied, in seconds: the one asked for, or what the time budget left.
    pub wait_seconds_applied: u32,
    pub warnings: Vec<String>,
}

/// The state of a queue; `None` for what the broker does not report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DepthReport {
    pub current_depth: u64,
    pub max_depth: Option<u64>,
    pub open_input_count: Option<u64>,
    pub open_output_count: Option<u64>,
}

/// One step of a connection test: done, failed with a code and a detail, or skipped because an
/// earlier one failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
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

/// A connection test, step by step. `latency_ms` is one round trip on the open connection.
#[derive(Clone, Debug, PartialEq)]
pub struct TestReport {
    pub ok: bool,
    pub product: String,
    pub version: Option<String>,
    pub latency_ms: Option<f64>,
    pub steps: Vec<TestStep>,
}

/// One pool of connections, as `GET /status` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolReport {
    /// Broker, address and virtual host or queue manager; no user, no secret.
    pub target: String,
    pub open: usize,
    pub in_use: usize,
    pub max_size: usize,
}

impl PoolReport {
    /// The `target` of the pool of these addresses, tried in this order.
    pub fn target_of(broker: BrokerKind, addresses: &[Address], queue_manager: &str) -> String {
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        format!("{}://{}/{queue_manager}", broker.as_str(), addresses.join(","))
    }
}
