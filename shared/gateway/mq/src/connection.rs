//! Data that a broker's client needs for a connection: the target, and the values of its secrets.

use std::fmt;
use std::sync::Arc;

use secrecy::{SecretSlice, SecretString};
use serde::{Deserialize, Serialize};

use crate::bounded::bounded;
use crate::target::Endpoint;

/// User and password for a broker, read from the secrets that the target refers to.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// User that logs in: the target's `user`, or the user in the password's secret.
    pub user: String,
    /// Password of the login. `Debug` and log lines do not show it.
    pub password: SecretString,
}

/// Rule for an open broker connection: whether it is kept or closed when the request that used it
/// ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdleRule {
    /// Keeps the connection in the pool for the next request with the same target.
    #[default]
    Keep,
    /// Closes the connection before the response is sent, so that a frozen Lambda execution
    /// environment holds no connection (IBM MQ).
    Close,
}

bounded! {
    /// Time limit in seconds for connecting and logging in at one address.
    ConnectSeconds: u16, 1..=300, default 30;
    /// Seconds between heartbeats. 0, which would switch heartbeats off, is refused: without them,
    /// a broken network connection would block the function.
    HeartbeatSeconds: u16, 1..=3_600, default 60;
    /// Maximum time in seconds for which a request waits for a connection while all connections
    /// that the pool may open are in use.
    PoolSeconds: u16, 1..=60, default 10;
    /// Maximum time in seconds for which connecting to an unreachable broker is retried.
    RetrySeconds: u16, 0..=60, default 8;
}

/// Time limits of a target's connections, set by its profile. An absent limit means the default of
/// the function that connects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConnectionLimits {
    /// Time limit in seconds for connecting and logging in at one address; `None` for the default
    /// of the function that connects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<ConnectSeconds>,
    /// Interval in seconds at which heartbeats are requested; `None` for the default of the
    /// function that connects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_seconds: Option<HeartbeatSeconds>,
    /// Maximum time in seconds to wait for a connection while all connections that the pool may
    /// open are in use; `None` for the default of the function that connects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool_timeout_seconds: Option<PoolSeconds>,
    /// Time in seconds for which connecting to an unreachable broker is retried, at most half of
    /// the time that the request has left. `None` for the default of the function that connects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_seconds: Option<RetrySeconds>,
}

/// Key repository of IBM MQ as files: the key store, and the stash file or the password that opens
/// it. `Debug` and log lines do not show them.
#[derive(Clone, Debug)]
pub struct KeyFiles {
    /// Bytes of the key store: a CMS or PKCS#12 file.
    pub store: Arc<SecretSlice<u8>>,
    /// Stash file that holds the key store's password; `None` if the target names none.
    pub stash: Option<Arc<SecretSlice<u8>>>,
    /// Password of the key store, in place of a stash file; `None` if the target names none.
    pub password: Option<SecretString>,
    /// Label of the client's certificate in the key store; `None` if the target names no
    /// certificate.
    pub certificate_label: Option<String>,
}

/// [`Endpoint`] of a target, with the values of the secrets that the target refers to.
#[derive(Clone, Default)]
pub struct Access {
    /// Addresses, user and TLS settings of the connection.
    pub endpoint: Endpoint,
    /// User and password; `None` if the target names no password.
    pub credentials: Option<Credentials>,
    /// Trust store as text: PEM certificates of the authorities to trust instead of the system's,
    /// or a key repository of IBM MQ. `None` if the target names no trust store, or its content is
    /// not text.
    pub trust_store: Option<SecretString>,
    /// Key store as text: a client certificate with its private key in PEM, or a key repository of
    /// IBM MQ. `None` if the target names no key store, or its content is not text.
    pub key_store: Option<SecretString>,
    /// Key repository of IBM MQ, if the target's key store or trust store is a binary file;
    /// otherwise `None`.
    pub key_files: Option<KeyFiles>,
    /// Rule of the target's profile that decides whether the connection is kept open or closed when
    /// the request ends.
    pub idle: IdleRule,
    /// Time limits that the target's profile sets for the connection.
    pub limits: ConnectionLimits,
    /// Versions of all secrets in this struct, as part of the connection's identity: after a secret
    /// is rotated, no old connection is reused.
    pub secret_version: String,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("endpoint", &self.endpoint)
            .field("secret_version", &self.secret_version)
            .finish_non_exhaustive()
    }
}
