//! What can be wrong with a configuration.

use std::fmt;
use std::ops::RangeInclusive;

use lapin::uri::SASLMechanism;
use secrecy::ExposeSecret as _;

use super::ConnectionConfig;

pub(super) const PORT: RangeInclusive<i64> = 1..=65_535;
pub(super) const TIMEOUT: RangeInclusive<i64> = 1..=300;
pub(super) const HEARTBEAT: RangeInclusive<i64> = 0..=3_600;

/// AMQP carries a virtual host as a short string.
const VHOST_MAX: usize = 255;

/// One thing that is wrong. It never shows a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFault {
    /// The setting, as the source that gave it calls it.
    pub setting: String,
    /// Completes the sentence that begins with the setting.
    pub reason: String,
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.setting, self.reason)
    }
}

/// Everything that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct ConfigError(pub Vec<ConfigFault>);

/// Collects faults, so that all are told at once.
#[derive(Default)]
pub(super) struct Faults(Vec<ConfigFault>);

impl Faults {
    pub(super) fn push(&mut self, setting: impl Into<String>, reason: impl Into<String>) {
        self.0.push(ConfigFault { setting: setting.into(), reason: reason.into() });
    }

    pub(super) fn into_result(self) -> Result<(), ConfigError> {
        if self.0.is_empty() { Ok(()) } else { Err(ConfigError(self.0)) }
    }
}

/// The rules that hold whatever the source.
pub(super) fn check(config: &ConnectionConfig) -> Result<(), ConfigError> {
    let mut faults = Faults::default();
    for address in &config.addresses {
        if address.host.is_empty() {
            faults.push("host", "is empty");
        }
        if address.port == 0 {
            faults.push("port", "is not within 1 to 65535");
        }
    }
    let password = config.password.expose_secret();
    if config.mechanism == SASLMechanism::Plain {
        for (setting, value) in [("user", config.user.as_str()), ("password", password)] {
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
    if !within(&TIMEOUT, config.timeout.as_secs()) {
        faults.push("timeout", "is not within 1 to 300");
    }
    if !within(&HEARTBEAT, config.heartbeat.into()) {
        faults.push("heartbeat", "is not within 0 to 3600");
    }
    faults.into_result()
}

fn within(range: &RangeInclusive<i64>, value: u64) -> bool {
    i64::try_from(value).is_ok_and(|value| range.contains(&value))
}
