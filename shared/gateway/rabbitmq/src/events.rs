//! Connection events of the log, with the names and fields of the connection model. The password
//! never reaches this module. Events of every request have the level `debug`.

use std::error::Error;
use std::time::Duration;

use broker::milliseconds;
use mq::{Address, BrokerError};
use tracing::{debug, info, warn};

use crate::config::ConnectionConfig;
use crate::health::HealthStatus;

/// Value of the field `password`, which the connection model asks for.
const REDACTED: &str = "***REDACTED***";

/// Connection counts of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStats {
    /// Open connections.
    pub total: usize,
    /// Connections that were acquired and not released.
    pub in_use: usize,
    /// Idle connections.
    pub available: usize,
    /// Maximum number of connections that may be open at once.
    pub max_size: usize,
}

/// The broker's address, virtual host, user and TLS use of a connection, as the log names them.
#[derive(Clone, Debug)]
pub struct Peer {
    pub(crate) address: Address,
    vhost: String,
    user: String,
    tls: bool,
}

impl Peer {
    pub(crate) fn new(config: &ConnectionConfig, address: &Address) -> Self {
        Self {
            address: address.clone(),
            vhost: config.vhost().to_owned(),
            user: config.user().to_owned(),
            tls: config.is_tls(),
        }
    }
}

/// Logs an event with the fields that all connection events have.
macro_rules! event {
    ($level:ident, $event_type:literal, $peer:expr, $($rest:tt)+) => {
        $level!(
            event_type = $event_type,
            host = %$peer.address.host,
            port = $peer.address.port,
            vhost = %$peer.vhost,
            user = %$peer.user,
            password = REDACTED,
            tls = $peer.tls,
            $($rest)+
        )
    };
}

pub(crate) fn established(peer: &Peer, took: Duration) {
    event!(
        info,
        "connection.established",
        peer,
        latency_ms = milliseconds(took),
        "Connected to RabbitMQ at {}",
        peer.address
    );
}

/// Logs that a round of attempts to connect failed, of which `peer` was the last. There is one line
/// for the whole round, because a caller can give a target any number of addresses.
pub(crate) fn failed(peer: &Peer, step: &str, error: &BrokerError, addresses_tried: usize) {
    event!(
        warn,
        "connection.failed",
        peer,
        step,
        addresses_tried,
        error = error as &dyn Error,
        "Cannot connect to RabbitMQ at {}: {error}",
        peer.address
    );
}

/// Logs that the connection to `peer` is given up.
pub fn lost(peer: &Peer, why: &str) {
    event!(
        warn,
        "connection.lost",
        peer,
        reason = why,
        "Gave up the connection to RabbitMQ at {}: {why}",
        peer.address
    );
}

/// Logs that the broker blocks the connection, because it is short of memory or disk space: it
/// reads nothing from it. The broker reports this only to connections that publish.
pub(crate) fn blocked(peer: &Peer, reason: &str) {
    event!(
        warn,
        "connection.blocked",
        peer,
        reason,
        "RabbitMQ at {} has blocked the connection: {reason}",
        peer.address
    );
}

pub(crate) fn unblocked(peer: &Peer) {
    event!(
        info,
        "connection.unblocked",
        peer,
        "RabbitMQ at {} reads from the connection again",
        peer.address
    );
}

/// Logs that another attempt to connect begins after `delay`.
pub fn reconnecting(peer: &Peer, attempt: u64, delay: Duration) {
    event!(
        warn,
        "connection.reconnecting",
        peer,
        attempt,
        delay_ms = milliseconds(delay),
        "Connecting to RabbitMQ at {} again, attempt {attempt}",
        peer.address
    );
}

pub(crate) fn disconnected(peer: &Peer, polite: bool) {
    event!(
        info,
        "connection.disconnected",
        peer,
        polite,
        "Closed the connection to RabbitMQ at {}",
        peer.address
    );
}

/// Logs that a connection was taken from a pool after the wait `waited`.
pub fn acquired(peer: &Peer, waited: Duration, is_new: bool, stats: PoolStats) {
    event!(
        debug,
        "pool.connection_acquired",
        peer,
        latency_ms = milliseconds(waited),
        is_new,
        total = stats.total,
        in_use = stats.in_use,
        available = stats.available,
        max_size = stats.max_size,
        "Took a connection to RabbitMQ at {} from the pool",
        peer.address
    );
}

/// Logs that a connection was returned to its pool.
pub fn released(peer: &Peer, stats: PoolStats) {
    event!(
        debug,
        "pool.connection_released",
        peer,
        total = stats.total,
        in_use = stats.in_use,
        available = stats.available,
        max_size = stats.max_size,
        "Gave a connection to RabbitMQ at {} back to the pool",
        peer.address
    );
}

/// Logs that no connection of a pool became free in time.
pub fn pool_timeout(peer: &Peer, waited: Duration, max_size: usize) {
    event!(
        warn,
        "pool.timeout",
        peer,
        latency_ms = milliseconds(waited),
        max_size,
        "No connection to RabbitMQ at {} became free in time",
        peer.address
    );
}

pub(crate) fn health_checked(peer: &Peer, health: &HealthStatus) {
    let latency_ms = health.latency_ms;
    match &health.error_message {
        None => {
            event!(info, "health_check.success", peer, latency_ms, "RabbitMQ at {} answers", peer.address);
        }
        Some(error) => event!(
            warn,
            "health_check.failed",
            peer,
            latency_ms,
            is_connected = health.is_connected,
            error = %error,
            "RabbitMQ at {} does not answer: {error}",
            peer.address
        ),
    }
}
