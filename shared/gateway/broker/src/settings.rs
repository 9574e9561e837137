//! Time limits of connections.

use std::time::Duration;

use mq::ConnectionLimits;

/// Time limits of connections, with the defaults of the connection model.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionSettings {
    /// Time for one address to connect and log in. IBM MQ's client has a limit of its own.
    pub timeout: Duration,
    /// Time between heartbeats. The broker may ask for fewer.
    pub heartbeat: Duration,
    /// Time to wait for a connection while all are in use.
    pub pool_timeout: Duration,
    /// Time for which a broker that cannot be reached is tried again; at most half of the time that
    /// a request has left.
    pub retry_for: Duration,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            heartbeat: Duration::from_secs(60),
            pool_timeout: Duration::from_secs(10),
            retry_for: Duration::from_secs(8),
        }
    }
}

impl ConnectionSettings {
    /// Returns these settings with the limits that a target's profile sets.
    #[must_use]
    pub fn within(self, limits: &ConnectionLimits) -> Self {
        let ConnectionLimits { timeout_seconds, heartbeat_seconds, pool_timeout_seconds, retry_seconds } =
            limits;
        let seconds = |value: u16| Duration::from_secs(value.into());
        Self {
            timeout: timeout_seconds.map_or(self.timeout, |value| seconds(value.get())),
            heartbeat: heartbeat_seconds.map_or(self.heartbeat, |value| seconds(value.get())),
            pool_timeout: pool_timeout_seconds.map_or(self.pool_timeout, |value| seconds(value.get())),
            retry_for: retry_seconds.map_or(self.retry_for, |value| seconds(value.get())),
        }
    }
}
