//! Configuration of a connection from these sources, the first of which takes precedence:
//! arguments, environment variables, `config.toml`, defaults.

use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mq::Address;
use secrecy::{ExposeSecret as _, SecretString};
use toml::Value;

use super::tls_files;
use crate::config::faults::Faults;
use crate::{ConfigError, ConnectionConfig, Host, Login, TlsConfig};

const FILE: &str = "config.toml";
/// Name of the table in `config.toml` that contains the settings.
const TABLE: &str = "amqp";

const AMQP_PORT: i64 = 5_672;
const AMQPS_PORT: i64 = 5_671;

/// Connection settings of a program, for example from its command line. They take precedence over
/// all other sources. A setting that is `None` is read from those.
#[derive(Clone, Debug, Default)]
pub struct ConnectionArguments {
    /// Host name or IP address of the broker; `None` reads it from another source.
    pub host: Option<String>,
    /// Port of the broker, 1 to 65535; `None` reads it from another source.
    pub port: Option<i64>,
    /// User name with which the program logs in; `None` reads it from another source.
    pub user: Option<String>,
    /// Password of the login; `None` reads it from another source. `Debug` and errors do not show
    /// it.
    pub password: Option<SecretString>,
    /// Name of the virtual host, at most 255 bytes; `None` reads it from another source.
    pub vhost: Option<String>,
    /// Time limit for connecting in seconds, 1 to 300; `None` reads it from another source.
    pub timeout: Option<i64>,
    /// Interval of heartbeats in seconds, 0 (no heartbeats) to 3600; `None` reads it from another
    /// source.
    pub heartbeat: Option<i64>,
    /// True to connect with TLS; `None` reads it from another source. The broker's certificate is
    /// always verified.
    pub tls: Option<bool>,
    /// Path of a PEM file with the authorities to trust instead of the system's; `None` reads it
    /// from another source.
    pub ca_file: Option<PathBuf>,
    /// Path of a PEM file with the client certificate, and its intermediate certificates if it has
    /// any; `None` reads it from another source.
    pub cert_file: Option<PathBuf>,
    /// Path of a PEM file with the private key of the client certificate; `None` reads it from
    /// another source.
    pub key_file: Option<PathBuf>,
}

impl ConnectionArguments {
    /// Builds the configuration. A setting that these arguments lack is read from the environment
    /// (`AMQP_HOST`, `AMQP_PORT`, `AMQP_USER`, `AMQP_PASSWORD`, `AMQP_VHOST`, `AMQP_TIMEOUT`,
    /// `AMQP_HEARTBEAT`, `AMQP_TLS`, `AMQP_CA_FILE`, `AMQP_CERT_FILE`, `AMQP_KEY_FILE`), then from
    /// the table `[amqp]` of `config.toml` in the working directory; otherwise it has its default.
    ///
    /// With TLS the default port is 5671. A client certificate without user and password is the
    /// login (SASL EXTERNAL).
    ///
    /// # Errors
    /// If settings are wrong. The error lists all of them.
    pub fn load(&self) -> Result<ConnectionConfig, ConfigError> {
        self.load_from(|name| std::env::var(name).ok(), Path::new(FILE))
    }

    /// Builds the configuration as [`load`](Self::load) does, from this environment and file. A
    /// missing file counts as empty.
    ///
    /// # Errors
    /// If settings are wrong. The error lists all of them.
    pub fn load_from(
        &self,
        environment: impl Fn(&str) -> Option<String>,
        file: &Path,
    ) -> Result<ConnectionConfig, ConfigError> {
        let mut faults = Faults::default();
        let given = self.settings();
        let table = read(file, &given, &mut faults);
        let mut reader = Reader { given, environment, table, faults };
        let host = reader.text("host", "localhost");
        let tls = reader.tls();
        let default_port = if tls.is_some() { AMQPS_PORT } else { AMQP_PORT };
        let port = reader.number("port", 1..=65_535, default_port);
        let has_certificate = tls.as_ref().is_some_and(|tls| tls.key_store.is_some());
        let has_login = ["user", "password"].iter().any(|setting| reader.find(setting).is_some());
        let login = if has_certificate && !has_login {
            Login::Certificate
        } else {
            let password = SecretString::from(reader.text("password", "guest"));
            Login::Password { user: reader.text("user", "guest"), password }
        };
        let vhost = reader.text("vhost", "/");
        let timeout = reader.number("timeout", 1..=300, 30);
        let heartbeat = reader.number("heartbeat", 0..=3_600, 60);
        reader.faults.into_result()?;
        let config = ConnectionConfig {
            addresses: vec![Address { host, port: u16::try_from(port).unwrap_or_default() }],
            special: None,
            vhost,
            login,
            tls,
            timeout: Duration::from_secs(timeout.unsigned_abs()),
            heartbeat: u16::try_from(heartbeat).unwrap_or_default(),
            host: Host::Process,
        };
        config.checked()
    }

    /// Returns all settings by name, with the values of these arguments.
    fn settings(&self) -> Settings {
        let text = |value: &Option<String>| value.clone().map(Value::String);
        let path = |value: &Option<PathBuf>| {
            value.as_ref().map(|path| Value::String(path.to_string_lossy().into_owned()))
        };
        let password = self.password.as_ref().map(|secret| secret.expose_secret().to_owned());
        [
            ("host", text(&self.host)),
            ("port", self.port.map(Value::Integer)),
            ("user", text(&self.user)),
            ("password", password.map(Value::String)),
            ("vhost", text(&self.vhost)),
            ("timeout", self.timeout.map(Value::Integer)),
            ("heartbeat", self.heartbeat.map(Value::Integer)),
            ("tls", self.tls.map(Value::Boolean)),
            ("ca_file", path(&self.ca_file)),
            ("cert_file", path(&self.cert_file)),
            ("key_file", path(&self.key_file)),
        ]
    }
}

/// Values of all settings by name, `None` if absent. The password may be among the values.
type Settings = [(&'static str, Option<Value>); 11];

struct Reader<E> {
    given: Settings,
    environment: E,
    table: toml::Table,
    faults: Faults,
}

impl<E: Fn(&str) -> Option<String>> Reader<E> {
    /// Returns the value of a setting from the first source that has it, with the setting's name in
    /// that source; `None` if no source has it.
    fn find(&self, setting: &str) -> Option<(String, Value)> {
        let given = self.given.iter().find(|(name, _)| *name == setting);
        if let Some((name, Some(value))) = given {
            return Some((format!("argument {name}"), value.clone()));
        }
        let variable = format!("AMQP_{}", setting.to_ascii_uppercase());
        if let Some(text) = (self.environment)(&variable) {
            return Some((variable, Value::String(text)));
        }
        Some((format!("{FILE}: {TABLE}.{setting}"), self.table.get(setting)?.clone()))
    }

    fn text(&mut self, setting: &str, default: &str) -> String {
        match self.find(setting) {
            None => default.to_owned(),
            Some((_, Value::String(text))) if !text.is_empty() => text,
            Some((place, Value::String(_))) => self.fault(place, "is empty", String::new()),
            Some((place, _)) => self.fault(place, "is not text", String::new()),
        }
    }

    fn number(&mut self, setting: &str, range: RangeInclusive<i64>, default: i64) -> i64 {
        let Some((place, value)) = self.find(setting) else {
            return default;
        };
        let number = match value {
            Value::Integer(number) => Some(number),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        match number {
            Some(number) if range.contains(&number) => number,
            Some(number) => {
                let (least, most) = range.into_inner();
                self.fault(place, format!("is {number}, which is not within {least} to {most}"), default)
            }
            None => self.fault(place, "is not a whole number", default),
        }
    }

    fn switch(&mut self, setting: &str) -> bool {
        match self.find(setting) {
            None => false,
            Some((_, Value::Boolean(switch))) => switch,
            Some((_, Value::String(text))) if text == "true" => true,
            Some((_, Value::String(text))) if text == "false" => false,
            Some((place, _)) => self.fault(place, "is neither true nor false", false),
        }
    }

    /// Reads the TLS settings; `None` if TLS is off.
    fn tls(&mut self) -> Option<TlsConfig> {
        let is_on = self.switch("tls");
        let files = ["ca_file", "cert_file", "key_file"].map(|setting| {
            let place = self.find(setting)?.0;
            let path = PathBuf::from(self.text(setting, ""));
            // An empty path is a fault that was noted before.
            (!path.as_os_str().is_empty()).then_some((place, path))
        });
        tls_files::read(files, is_on, &mut self.faults)
    }

    fn fault<T>(&mut self, setting: String, reason: impl Into<String>, value: T) -> T {
        self.faults.push(setting, reason);
        value
    }
}

/// Reads the table of settings from the file; empty if the file or the table is missing. Adds to
/// `faults` a file that cannot be read, and names in the table that are not in `settings`.
fn read(file: &Path, settings: &Settings, faults: &mut Faults) -> toml::Table {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return toml::Table::default(),
        Err(error) => {
            faults.push(FILE, format!("cannot be read: {error}"));
            return toml::Table::default();
        }
    };
    let mut document = match text.parse::<toml::Table>() {
        Ok(document) => document,
        // The error's full text quotes the line, in which a password may stand.
        Err(error) => {
            faults.push(FILE, format!("is not TOML: {}", error.message()));
            return toml::Table::default();
        }
    };
    match document.remove(TABLE) {
        None => toml::Table::default(),
        Some(Value::Table(table)) => {
            let is_unknown = |key: &&String| settings.iter().all(|(name, _)| name != key);
            for unknown in table.keys().filter(is_unknown) {
                faults.push(format!("{FILE}: {TABLE}.{unknown}"), "is not a setting");
            }
            table
        }
        Some(_) => {
            faults.push(format!("{FILE}: {TABLE}"), "is not a table");
            toml::Table::default()
        }
    }
}
