//! How every connection of an [`IbmMq`](crate::IbmMq) behaves.

use std::path::PathBuf;
use std::time::Duration;

/// How every connection of an [`IbmMq`](crate::IbmMq) behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// IBM's client library, by an absolute path. It is loaded when the first connection is made.
    pub library: PathBuf,
    /// Where the client keeps its files, as `MQ_OVERRIDE_DATA_PATH` names it. The client needs it
    /// to be there, so it is made before the library is loaded.
    pub data_path: Option<PathBuf>,
    /// Where key repositories are written, for the client to read.
    pub secrets: PathBuf,
    /// What an administrator sees beside a connection; at most 28 bytes.
    pub application: String,
    /// How long a caller waits for a place under the cap.
    pub pool_timeout: Duration,
    /// Between the heartbeats that we ask for; the queue manager's are used if they are further
    /// apart.
    pub heartbeat: Duration,
    /// For how long a queue manager that cannot be reached is tried again, within half of the time
    /// that a request has.
    pub retry_for: Duration,
}

impl Settings {
    /// Where `layers/ibm-mq-client` puts the library.
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
