//! Result of a health check of a connection.

use std::time::Duration;

use jiff::Timestamp;

use crate::latencies::milliseconds;

/// Result of one health check of a connection: `HealthStatus` of the specified connection model.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthStatus {
    /// True if the client library considers the connection open.
    pub is_connected: bool,
    /// True if the broker answered the health check.
    pub broker_available: bool,
    /// Duration of the health check, in milliseconds.
    pub latency_ms: f64,
    /// Time at which the health check ended.
    pub last_check: Timestamp,
    /// Reason why the connection is unhealthy; `None` if it is healthy.
    pub error_message: Option<String>,
}

impl HealthStatus {
    /// Creates the result of a check that the broker answered after `latency`.
    #[must_use]
    pub fn healthy(latency: Duration) -> Self {
        Self {
            is_connected: true,
            broker_available: true,
            latency_ms: milliseconds(latency),
            last_check: Timestamp::now(),
            error_message: None,
        }
    }

    /// Creates the result of a check that the broker did not answer. `latency` is the duration of
    /// the check, and `error` the reason.
    pub fn unhealthy(is_connected: bool, latency: Duration, error: impl Into<String>) -> Self {
        Self {
            is_connected,
            broker_available: false,
            latency_ms: milliseconds(latency),
            last_check: Timestamp::now(),
            error_message: Some(error.into()),
        }
    }

    /// True if the connection is open and the broker answered.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.is_connected && self.broker_available
    }
}
