//! What a look at a connection found.

use std::time::Duration;

use broker::milliseconds;
use jiff::Timestamp;

/// The health of a connection and of the broker behind it, `HealthStatus` of the connection model.
/// It is a record: it does not change, and a later look gives another one.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthStatus {
    /// Whether the connection is open, as far as this side knows.
    pub is_connected: bool,
    /// Whether the broker answered.
    pub broker_available: bool,
    /// How long the look took, in milliseconds.
    pub latency_ms: f64,
    /// When the look ended.
    pub last_check: Timestamp,
    /// Why the connection is unhealthy.
    pub error_message: Option<String>,
}

impl HealthStatus {
    pub(crate) fn healthy(latency: Duration) -> Self {
        Self {
            is_connected: true,
            broker_available: true,
            latency_ms: milliseconds(latency),
            last_check: Timestamp::now(),
            error_message: None,
        }
    }

    /// A look that found no answer.
    pub fn unhealthy(is_connected: bool, latency: Duration, error: impl Into<String>) -> Self {
        Self {
            is_connected,
            broker_available: false,
            latency_ms: milliseconds(latency),
            last_check: Timestamp::now(),
            error_message: Some(error.into()),
        }
    }

    /// Whether the connection is open and the broker answered.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.is_connected && self.broker_available
    }
}
