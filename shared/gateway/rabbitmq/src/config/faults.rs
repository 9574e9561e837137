//! Faults of a configuration.

use std::fmt;
use std::ops::RangeInclusive;

use secrecy::ExposeSecret as _;

use super::{ConnectionConfig, Login};

/// Maximum length of a virtual host's name in bytes: AMQP carries it as a short string.
const VHOST_MAX: usize = 255;

/// A fault of a configuration. It never contains a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFault {
    /// Name of the setting, as in the source that it comes from.
    pub setting: String,
    /// Description of the fault, which completes a sentence that begins with the setting's name.
    pub reason: String,
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.setting, self.reason)
    }
}

/// All faults of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct ConfigError(pub Vec<ConfigFault>);

struct Faults(Vec<ConfigFault>);

impl Faults {
    fn push(&mut self, setting: &str, reason: impl Into<String>) {
        self.0.push(ConfigFault { setting: setting.to_owned(), reason: reason.into() });
    }
}

/// Checks the rules that apply to every configuration, whatever its source.
pub(super) fn check(config: &ConnectionConfig) -> Result<(), ConfigError> {
    let mut faults = Faults(Vec::new());
    for address in &config.addresses {
        if address.host.is_empty() {
            faults.push("host", "is empty");
        }
        if address.port == 0 {
            faults.push("port", "is not within 1 to 65535");
        }
    }
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
    if !within(&ConnectionConfig::TIMEOUT_SECONDS, config.timeout.as_secs()) {
        faults.push("timeout", "is not within 1 to 300");
    }
    if !within(&ConnectionConfig::HEARTBEAT_SECONDS, config.heartbeat.into()) {
        faults.push("heartbeat", "is not within 0 to 3600");
    }
    if faults.0.is_empty() { Ok(()) } else { Err(ConfigError(faults.0)) }
}

fn within(range: &RangeInclusive<i64>, value: u64) -> bool {
    i64::try_from(value).is_ok_and(|value| range.contains(&value))
}
