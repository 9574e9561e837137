//! Time limits of broker connections.

use std::time::Duration;

use mq::{ConnectSeconds, ConnectionLimits, HeartbeatSeconds, PoolSeconds, RetrySeconds};

/// Time limits of broker connections; the default values are those of the specified connection
/// model.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionSettings {
    /// Time limit for connecting and logging in at one address. IBM MQ's client has a limit of its
    /// own.
    pub timeout: Duration,
    /// Requested interval of heartbeats. The broker may choose another interval.
    pub heartbeat: Duration,
    /// Maximum time to wait for a connection while all connections are in use.
    pub pool_timeout: Duration,
    /// Time for which connecting to an unreachable broker is retried, at most half of the time that
    /// the request has left.
    pub retry_for: Duration,
}

fn seconds(value: u16) -> Duration {
    Duration::from_secs(value.into())
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self {
            timeout: seconds(ConnectSeconds::default().get()),
            heartbeat: seconds(HeartbeatSeconds::default().get()),
            pool_timeout: seconds(PoolSeconds::default().get()),
            retry_for: seconds(RetrySeconds::default().get()),
        }
    }
}

impl ConnectionSettings {
    /// Returns these settings, with the time limits that the target's profile sets in place of the
    /// defaults.
    #[must_use]
    pub fn within(self, limits: &ConnectionLimits) -> Self {
        let ConnectionLimits { timeout_seconds, heartbeat_seconds, pool_timeout_seconds, retry_seconds } =
            limits;
        Self {
            timeout: timeout_seconds.map_or(self.timeout, |value| seconds(value.get())),
            heartbeat: heartbeat_seconds.map_or(self.heartbeat, |value| seconds(value.get())),
            pool_timeout: pool_timeout_seconds.map_or(self.pool_timeout, |value| seconds(value.get())),
            retry_for: retry_seconds.map_or(self.retry_for, |value| seconds(value.get())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_changes_the_limits_that_it_names() {
        let limits = serde_json::from_str(
            r#"{"timeoutSeconds": 5, "heartbeatSeconds": 20, "poolTimeoutSeconds": 3, "retrySeconds": 0}"#,
        );
        let settings = ConnectionSettings::default().within(&limits.unwrap());
        let all = [settings.timeout, settings.heartbeat, settings.pool_timeout, settings.retry_for];
        assert_eq!(all.map(|limit| limit.as_secs()), [5, 20, 3, 0]);
        let none = ConnectionSettings::default().within(&ConnectionLimits::default());
        let all = [none.timeout, none.heartbeat, none.pool_timeout, none.retry_for];
        assert_eq!(all.map(|limit| limit.as_secs()), [30, 60, 10, 8]);
    }

    #[test]
    fn a_limit_out_of_its_range_is_refused() {
        for limits in [
            r#"{"timeoutSeconds": 0}"#,
            r#"{"timeoutSeconds": 301}"#,
            r#"{"heartbeatSeconds": 0}"#,
            r#"{"heartbeatSeconds": 3601}"#,
            r#"{"poolTimeoutSeconds": 0}"#,
            r#"{"retrySeconds": -1}"#,
            r#"{"retries": 3}"#,
        ] {
            assert!(serde_json::from_str::<ConnectionLimits>(limits).is_err(), "{limits}");
        }
    }
}
