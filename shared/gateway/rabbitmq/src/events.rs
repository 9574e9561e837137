//! The connection events of the log, with the names and fields of the connection model. No password
//! ever gets here. What happens in every request is for debugging.

use std::error::Error;
use std::time::Duration;

use broker::milliseconds;
use mq::{Address, BrokerError};
use tracing::{debug, info, warn};

use crate::config::ConnectionConfig;
use crate::health::HealthStatus;

/// What stands where the model has a password.
const REDACTED: &str = "***REDACTED***";

/// How many connections a pool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStats {
    /// Connections that are open.
    pub total: usize,
    /// Those that were acquired and not released.
    pub in_use: usize,
    /// Those that are idle.
    pub available: usize,
    /// How many may be open at once.
    pub max_size: usize,
}

/// The other end of a connection and who asked for it, as the log names them.
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

/// An event with the fields that all of them have.
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

/// A round of attempts failed, of which `peer` was the last. There is one line for all of them: how
/// many addresses a target has is its caller's to say.
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

/// The connection to `peer` is given up.
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

/// The broker reads nothing more from the connection, because it is short of memory or disk space.
/// It says so to connections that publish.
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

/// Another attempt to connect begins after `delay`.
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

/// A connection of a pool is used, after a wait.
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

/// A connection goes back to its pool.
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

/// No connection of a pool became free in time.
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
