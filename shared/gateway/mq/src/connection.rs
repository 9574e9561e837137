//! All that a broker needs to connect.

use std::fmt;
use std::sync::Arc;

use secrecy::{SecretSlice, SecretString};
use serde::{Deserialize, Serialize};

use crate::target::Endpoint;

/// A user and a password that were read from where the target's references point.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The target's user, or the one in the password's secret.
    pub user: String,
    /// Shown by no `Debug` or log line.
    pub password: SecretString,
}

/// Treatment of a connection when its request ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdleRule {
    /// Keeps the connection for the next request with the same target.
    #[default]
    Keep,
    /// Ends the connection before the response is sent, so that no function that is frozen holds it
    /// (IBM MQ).
    Close,
}

/// The files of a key repository of IBM MQ, and what opens it. Shown by no `Debug` or log line.
#[derive(Clone, Debug)]
pub struct KeyFiles {
    /// The CMS or PKCS#12 file.
    pub store: Arc<SecretSlice<u8>>,
    /// The stash file that belongs to it.
    pub stash: Option<Arc<SecretSlice<u8>>>,
    /// Password of the file, in place of a stash file.
    pub password: Option<SecretString>,
    /// The client's own certificate.
    pub certificate_label: Option<String>,
}

/// An [`Endpoint`] with its secrets in hand.
#[derive(Clone)]
pub struct Access {
    /// Address and user of the connection.
    pub endpoint: Endpoint,
    /// Absent if the target names no password.
    pub credentials: Option<Credentials>,
    /// PEM certificates of the authorities to trust instead of the system's.
    pub trust_store: Option<SecretString>,
    /// A client certificate with its key, in PEM.
    pub key_store: Option<SecretString>,
    /// IBM MQ: the key repository, if its secret or its object is the file itself.
    pub key_files: Option<KeyFiles>,
    /// The rule of the target's profile.
    pub idle: IdleRule,
    /// Names the versions of all secrets above; a rotated secret is a different connection.
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
