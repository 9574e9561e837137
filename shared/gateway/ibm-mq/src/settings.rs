//! Settings of all connections of an [`IbmMq`](crate::IbmMq).

use std::path::PathBuf;
use std::time::Duration;

/// Settings of all connections of an [`IbmMq`](crate::IbmMq).
#[derive(Clone, Debug)]
pub struct Settings {
    /// Absolute path of IBM's client library. It is loaded when the first connection is made.
    pub library: PathBuf,
    /// Directory for the client's files, as in `MQ_OVERRIDE_DATA_PATH`. The client requires that it
    /// exists, so it is created before the library is loaded.
    pub data_path: Option<PathBuf>,
    /// Directory to which key repositories are written, for the client to read.
    pub secrets: PathBuf,
    /// Application name that an administrator sees for a connection; at most 28 bytes.
    pub application: String,
    /// Maximum time to wait for a permit under the cap.
    pub pool_timeout: Duration,
    /// Interval between the heartbeats that we ask for; the queue manager's interval is used if it
    /// is longer.
    pub heartbeat: Duration,
    /// Time for which a queue manager that cannot be reached is tried again; at most half of the
    /// time that a request has left.
    pub retry_for: Duration,
}

impl Settings {
    /// Path at which `layers/ibm-mq-client` installs the library.
    pub const LIBRARY: &str = "/opt/mqm/lib64/libmqm_r.so";
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            library: PathBuf::from(Self::LIBRARY),
            data_path: None,
            secrets: PathBuf::from("/tmp/ibm-mq"),
            application: "integrahub".to_owned(),
            pool_timeout: Duration::from_secs(10),
            heartbeat: Duration::from_secs(60),
            retry_for: Duration::from_secs(8),
        }
    }
}
