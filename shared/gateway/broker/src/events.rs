//! Connection events: log lines with the names and fields of the specified connection model, the
//! same for every kind of broker. The password never reaches this module. Events that occur in
//! every request have the level `debug`.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use mq::{Address, BrokerError, BrokerKind};
use tracing::{Level, debug, enabled, info, warn};

use crate::health::HealthStatus;
use crate::latencies::milliseconds;
use crate::pool::PoolStats;

/// Value of the log field `password`, which the specified connection model requires in each
/// connection event.
const REDACTED: &str = "***REDACTED***";

/// Broker connection as log lines describe it: broker, address, virtual host or queue manager,
/// user, and whether it uses TLS.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Product of the broker: RabbitMQ or IBM MQ.
    pub broker: BrokerKind,
    /// Address of the connection, or the target's first address if the client does not report which
    /// one answered. `None` if a channel table contains the addresses.
    pub address: Option<Address>,
    /// Queue manager of IBM MQ, or virtual host of RabbitMQ.
    pub queue_manager: String,
    /// User of the login; empty if a client certificate is the login.
    pub user: String,
    /// True if the connection uses TLS.
    pub tls: bool,
}

impl Peer {
    fn queue_manager_of(&self, broker: BrokerKind) -> Option<&str> {
        (self.broker == broker).then_some(self.queue_manager.as_str())
    }
}

impl fmt::Display for Peer {
    /// Writes the product and the address; with a channel table, the queue manager in place of the
    /// address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Some(address) => write!(f, "{} at {address}", self.broker.product()),
            None => write!(f, "{} {}", self.broker.product(), self.queue_manager),
        }
    }
}

/// Logs a connection event with the fields that all connection events have.
macro_rules! event {
    ($level:ident, $event_type:literal, $peer:expr, $($rest:tt)+) => {
        $level!(
            event_type = $event_type,
            broker = $peer.broker.product(),
            host = $peer.address.as_ref().map(|address| address.host.as_str()),
            port = $peer.address.as_ref().map(|address| address.port),
            vhost = $peer.queue_manager_of(BrokerKind::RabbitMq),
            queue_manager = $peer.queue_manager_of(BrokerKind::IbmMq),
            user = %$peer.user,
            password = REDACTED,
            tls = $peer.tls,
            $($rest)+
        )
    };
}

/// Logs that a connection was opened, and that this took `took`.
pub fn established(peer: &Peer, took: Duration) {
    event!(info, "connection.established", peer, latency_ms = milliseconds(took), "Connected to {peer}");
}

/// Logs that connecting to a target failed at `step`. All addresses of the target that were tried,
/// up to 16, share this one log line; `peer` is the last of them.
pub fn failed(peer: &Peer, step: &str, error: &BrokerError, addresses_tried: usize) {
    event!(
        warn,
        "connection.failed",
        peer,
        step,
        addresses_tried,
        error = error as &dyn Error,
        "Cannot connect to {peer}: {error}"
    );
}

/// Logs that the connection to `peer` is given up for the reason `why`.
pub fn lost(peer: &Peer, why: &str) {
    event!(warn, "connection.lost", peer, reason = why, "Gave up the connection to {peer}: {why}");
}

/// Logs that the broker has blocked the connection: it is short of memory or disk space, and reads
/// nothing from the connection. The broker reports this only to publishing connections.
pub fn blocked(peer: &Peer, reason: &str) {
    event!(warn, "connection.blocked", peer, reason, "{peer} has blocked the connection: {reason}");
}

/// Logs that the broker reads from the connection again, after it had blocked it.
pub fn unblocked(peer: &Peer) {
    event!(info, "connection.unblocked", peer, "{peer} reads from the connection again");
}

/// Logs that the attempt number `attempt` to connect begins after `delay`.
pub fn reconnecting(peer: &Peer, attempt: u64, delay: Duration) {
    event!(
        warn,
        "connection.reconnecting",
        peer,
        attempt,
        delay_ms = milliseconds(delay),
        "Connecting to {peer} again, attempt {attempt}"
    );
}

/// Logs that a connection was closed. `polite` is true if the broker confirmed the close.
pub fn disconnected(peer: &Peer, polite: bool) {
    event!(info, "connection.disconnected", peer, polite, "Closed the connection to {peer}");
}

/// Logs that a caller acquired a connection from a pool after waiting for `waited`. `is_new` is
/// true if the connection was opened for this caller. `count` returns the pool's numbers of
/// connections, and is called only if level `debug` is logged.
pub fn acquired(peer: &Peer, waited: Duration, is_new: bool, count: impl FnOnce() -> PoolStats) {
    if !enabled!(Level::DEBUG) {
        return;
    }
    let stats = count();
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
        "Took a connection to {peer} from the pool"
    );
}

/// Logs that a connection was returned to its pool. `count` returns the pool's numbers of
/// connections, and is called only if level `debug` is logged.
pub fn released(peer: &Peer, count: impl FnOnce() -> PoolStats) {
    if !enabled!(Level::DEBUG) {
        return;
    }
    let stats = count();
    event!(
        debug,
        "pool.connection_released",
        peer,
        total = stats.total,
        in_use = stats.in_use,
        available = stats.available,
        max_size = stats.max_size,
        "Gave a connection to {peer} back to the pool"
    );
}

/// Logs that a caller waited for `waited` in vain, because all `max_size` connections that the cap
/// allows stayed in use.
pub fn pool_timeout(peer: &Peer, waited: Duration, max_size: usize) {
    event!(
        warn,
        "pool.timeout",
        peer,
        latency_ms = milliseconds(waited),
        max_size,
        "No connection to {peer} became free in time"
    );
}

/// Logs the result of a health check of the connection to `peer`.
pub fn health_checked(peer: &Peer, health: &HealthStatus) {
    let latency_ms = health.latency_ms;
    match &health.error_message {
        None => {
            event!(info, "health_check.success", peer, latency_ms, "{peer} answers");
        }
        Some(error) => event!(
            warn,
            "health_check.failed",
            peer,
            latency_ms,
            is_connected = health.is_connected,
            error = %error,
            "{peer} does not answer: {error}"
        ),
    }
}
