//! Where a configuration comes from: arguments, before environment variables, before `config.toml`, before defaults.

use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use lapin::uri::SASLMechanism;
use mq::Address;
use secrecy::{ExposeSecret as _, SecretString};

use super::faults::{self, ConfigError, Faults, HEARTBEAT, PORT, TIMEOUT};
use super::{ConnectionConfig, Host};

const FILE: &str = "config.toml";
/// The table of `config.toml` that holds the settings.
const TABLE: &str = "amqp";

const SETTINGS: [&str; 7] = ["host", "port", "user", "password", "vhost", "timeout", "heartbeat"];

/// Settings that a program was given, for example on its command line. They precede every other source.
#[derive(Clone, Debug, Default)]
pub struct ConnectionArguments {
    pub host: Option<String>,
    pub port: Option<i64>,
    pub user: Option<String>,
    pub password: Option<SecretString>,
    pub vhost: Option<String>,
    /// In seconds.
    pub timeout: Option<i64>,
    /// In seconds.
    pub heartbeat: Option<i64>,
}

impl ConnectionConfig {
    /// Reads what `arguments` leaves open from the environment (`AMQP_HOST`, `AMQP_PORT`, `AMQP_USER`,
    /// `AMQP_PASSWORD`, `AMQP_VHOST`, `AMQP_TIMEOUT`, `AMQP_HEARTBEAT`), the table `[amqp]` of `config.toml` in the
    /// working directory, and the defaults, in this order.
    ///
    /// # Errors
    /// With every setting that is wrong.
    pub fn load(arguments: &ConnectionArguments) -> Result<Self, ConfigError> {
        Self::load_from(arguments, |name| std::env::var(name).ok(), Path::new(FILE))
    }

    /// As [`load`](Self::load), from an environment and a file of the caller's choice. A file that does not exist is none.
    ///
    /// # Errors
    /// With every setting that is wrong.
    pub fn load_from(
        arguments: &ConnectionArguments,
        environment: impl Fn(&str) -> Option<String>,
        file: &Path,
    ) -> Result<Self, ConfigError> {
        let mut faults = Faults::default();
        let table = read(file, &mut faults);
        let mut reader = Reader { arguments, environment, table, faults };
        let host = reader.text("host", "localhost");
        let port = reader.number("port", PORT, 5_672);
        let user = reader.text("user", "guest");
        let password = SecretString::from(reader.text("password", "guest"));
        let vhost = reader.text("vhost", "/");
        let timeout = reader.number("timeout", TIMEOUT, 30);
        let heartbeat = reader.number("heartbeat", HEARTBEAT, 60);
        reader.faults.into_result()?;
        let config = Self {
            addresses: vec![Address { host, port: u16::try_from(port).unwrap_or_default() }],
            vhost,
            user,
            password,
            tls: None,
            timeout: Duration::from_secs(timeout.unsigned_abs()),
            heartbeat: u16::try_from(heartbeat).unwrap_or_default(),
            mechanism: SASLMechanism::Plain,
            host: Host::Process,
        };
        faults::check(&config).map(|()| config)
    }
}

/// A value as its source spells it. It may be a password, so it is not `Debug`.
enum Raw {
    Text(String),
    Number(i64),
    Other,
}

struct Reader<'a, E> {
    arguments: &'a ConnectionArguments,
    environment: E,
    table: toml::Table,
    faults: Faults,
}

impl<E: Fn(&str) -> Option<String>> Reader<'_, E> {
    /// The first source's value, and how that source names the setting.
    fn find(&self, setting: &str) -> Option<(String, Raw)> {
        if let Some(raw) = self.argument(setting) {
            return Some((format!("argument {setting}"), raw));
        }
        let variable = format!("AMQP_{}", setting.to_ascii_uppercase());
        if let Some(text) = (self.environment)(&variable) {
            return Some((variable, Raw::Text(text)));
        }
        let raw = match self.table.get(setting)? {
            toml::Value::String(text) => Raw::Text(text.clone()),
            toml::Value::Integer(number) => Raw::Number(*number),
            _ => Raw::Other,
        };
        Some((format!("{FILE}: {TABLE}.{setting}"), raw))
    }

    fn argument(&self, setting: &str) -> Option<Raw> {
        let arguments = self.arguments;
        let text = |value: &Option<String>| value.clone().map(Raw::Text);
        match setting {
            "host" => text(&arguments.host),
            "port" => arguments.port.map(Raw::Number),
            "user" => text(&arguments.user),
            "password" => {
                arguments.password.as_ref().map(|secret| Raw::Text(secret.expose_secret().to_owned()))
            }
            "vhost" => text(&arguments.vhost),
            "timeout" => arguments.timeout.map(Raw::Number),
            "heartbeat" => arguments.heartbeat.map(Raw::Number),
            _ => None,
        }
    }

    fn text(&mut self, setting: &str, default: &str) -> String {
        match self.find(setting) {
            None => default.to_owned(),
            Some((_, Raw::Text(text))) if !text.is_empty() => text,
            Some((place, Raw::Text(_))) => self.fault(place, "is empty", String::new()),
            Some((place, _)) => self.fault(place, "is not text", String::new()),
        }
    }

    fn number(&mut self, setting: &str, range: RangeInclusive<i64>, default: i64) -> i64 {
        let Some((place, raw)) = self.find(setting) else {
            return default;
        };
        let number = match raw {
            Raw::Number(number) => Some(number),
            Raw::Text(text) => text.parse().ok(),
            Raw::Other => None,
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

    fn fault<T>(&mut self, setting: String, reason: impl Into<String>, value: T) -> T {
        self.faults.push(setting, reason);
        value
    }
}

/// The table of the settings, empty where there is none.
fn read(file: &Path, faults: &mut Faults) -> toml::Table {
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
        // Its other form quotes the line, in which a password may stand.
        Err(error) => {
            faults.push(FILE, format!("is not TOML: {}", error.message()));
            return toml::Table::default();
        }
    };
    match document.remove(TABLE) {
        None => toml::Table::default(),
        Some(toml::Value::Table(table)) => {
            for unknown in table.keys().filter(|key| !SETTINGS.contains(&key.as_str())) {
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
