//! Settings of all connections of an [`IbmMq`](crate::IbmMq).

use std::path::PathBuf;

use broker::ConnectionSettings;

/// Settings of an [`IbmMq`](crate::IbmMq) broker, for all of its connections.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Absolute path of IBM's client library, which is loaded when the first connection is opened.
    pub library: PathBuf,
    /// Directory for the client's files (`MQ_OVERRIDE_DATA_PATH`). It is created before the library
    /// is loaded, because the client requires it. `None` creates no directory.
    pub data_path: Option<PathBuf>,
    /// Directory in which key repositories are written for the client to read.
    pub key_repository_dir: PathBuf,
    /// Application name that administrators see for a connection; at most 28 bytes.
    pub application: String,
    /// Time limits of connections, unless the target's profile sets others. A longer heartbeat
    /// interval of the queue manager takes precedence.
    pub connections: ConnectionSettings,
}

impl Settings {
    /// Path at which the Lambda layer `layers/ibm-mq-client` installs IBM's client library.
    pub const LIBRARY: &str = "/opt/mqm/lib64/libmqm_r.so";
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            library: PathBuf::from(Self::LIBRARY),
            data_path: None,
            key_repository_dir: PathBuf::from("/tmp/ibm-mq"),
            application: "integrahub".to_owned(),
            connections: ConnectionSettings::default(),
        }
    }
}
