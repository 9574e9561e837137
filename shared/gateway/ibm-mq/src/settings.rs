//! Settings of all connections of an [`IbmMq`](crate::IbmMq).

use std::path::PathBuf;

use broker::ConnectionSettings;

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
    /// Time limits of connections, unless a target's profile sets others. The queue manager's
    /// heartbeat interval is used if it is longer.
    pub connections: ConnectionSettings,
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
            connections: ConnectionSettings::default(),
        }
    }
}
