//! Faults in the configuration of a connection, and the rules that every configuration must keep.

use std::fmt;

use secrecy::ExposeSecret as _;

use super::{ConnectionConfig, Login};

/// Maximum length in bytes of a virtual host's name, which AMQP carries as a short string.
const VHOST_MAX: usize = 255;

/// Fault of one setting of a connection. Its text never contains a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFault {
    /// Name of the setting as its source has it: `AMQP_HOST`, for example, or `argument host`.
    pub setting: String,
    /// Description of the fault, which continues a sentence that begins with the setting's name.
    pub reason: String,
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.setting, self.reason)
    }
}

/// Error of a configuration, with all of its faults.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct ConfigError(pub Vec<ConfigFault>);

/// Collector of the faults of a configuration, so that its error reports all of them.
#[derive(Default)]
pub(crate) struct Faults(Vec<ConfigFault>);

impl Faults {
    pub(crate) fn push(&mut self, setting: impl Into<String>, reason: impl Into<String>) {
        self.0.push(ConfigFault { setting: setting.into(), reason: reason.into() });
    }

    pub(crate) fn into_result(self) -> Result<(), ConfigError> {
        if self.0.is_empty() { Ok(()) } else { Err(ConfigError(self.0)) }
    }
}

/// Checks the rules that apply to every configuration, from a target or from a program's arguments.
/// The types of both sources already check the ranges of port, timeout and heartbeat.
pub(super) fn check(config: &ConnectionConfig) -> Result<(), ConfigError> {
    let mut faults = Faults::default();
    if let Login::Password { user, password } = &config.login {
        for (setting, value) in [("user", user.as_str()), ("password", password.expose_secret())] {
            if value.is_empty() {
                faults.push(setting, "is empty");
            }
            if value.contains('\0') {
                faults.push(setting, "contains NUL");
            }
        }
    }
    if config.vhost.is_empty() {
        faults.push("vhost", "is empty");
    }
    if config.vhost.len() > VHOST_MAX {
        faults.push("vhost", format!("has more than {VHOST_MAX} bytes"));
    }
    faults.into_result()
}
