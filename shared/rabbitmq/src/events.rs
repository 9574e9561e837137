//! The connection events of the log. No user's secret ever gets here.

use std::time::Duration;

use mq::{Address, BrokerError};
use tracing::{info, warn};

use crate::config::ConnectionConfig;

pub(crate) fn established(config: &ConnectionConfig, address: &Address, took: Duration) {
    info!(
        event_type = "connection.established",
        host = %address.host,
        port = address.port,
        vhost = %config.vhost(),
        user = %config.user(),
        tls = config.is_tls(),
        latency_ms = took.as_secs_f64() * 1e3,
        "Connected to RabbitMQ at {address}"
    );
}

pub(crate) fn failed(config: &ConnectionConfig, address: &Address, step: &str, error: &BrokerError) {
    warn!(
        event_type = "connection.failed",
        host = %address.host,
        port = address.port,
        vhost = %config.vhost(),
        user = %config.user(),
        tls = config.is_tls(),
        step,
        error = %error,
        "Cannot connect to RabbitMQ at {address}: {error}"
    );
}

pub(crate) fn lost(address: &Address, why: &str) {
    warn!(
        event_type = "connection.lost",
        host = %address.host,
        port = address.port,
        reason = why,
        "Gave up the connection to RabbitMQ at {address}: {why}"
    );
}

pub(crate) fn disconnected(address: &Address, polite: bool) {
    info!(
        event_type = "connection.disconnected",
        host = %address.host,
        port = address.port,
        polite,
        "Closed the connection to RabbitMQ at {address}"
    );
}
