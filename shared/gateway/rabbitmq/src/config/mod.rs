//! What a connection is made of.

mod faults;

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use lapin::types::Heartbeat;
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo, SASLMechanism};
use mq::{Access, Address, BrokerError, Credentials, Tls};
use secrecy::{ExposeSecret as _, SecretString};
use tracing::warn;

use crate::frame_filter::FRAME_MAX;
use crate::intake::MOST_HELD;
use crate::tls;

pub use self::faults::{ConfigError, ConfigFault};

/// How long a single address may take to connect and log in, unless somebody says otherwise.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Likewise the seconds between heartbeats.
const HEARTBEAT: Heartbeat = 60;

/// What replaces a heartbeat of 0 in a function, in seconds.
const FUNCTION_HEARTBEAT: Heartbeat = 60;

/// RabbitMQ's default user and its password, whom it lets in from its own machine only.
const GUEST: &str = "guest";

fn is_loopback(address: &Address) -> bool {
    let ip: Option<IpAddr> = address.host.parse().ok();
    ip.map_or(address.host == "localhost", |ip| ip.is_loopback())
}

/// Where the program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Host {
    /// In a function that is frozen between invocations: what happened meanwhile is not known, and
    /// nothing may hang.
    #[default]
    Function,
    /// In a process that runs all the time, where heartbeats tell whether a connection lives.
    Process,
}

/// How every connection of a [`RabbitMq`](crate::RabbitMq) behaves.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How many connections may be open at once, over all targets.
    pub cap: usize,
    /// How long a single address may take to connect and log in.
    pub connect_timeout: Duration,
    /// Seconds between heartbeats. The broker may ask for less.
    pub heartbeat: Heartbeat,
    /// How many bytes the messages of one fetch may take in memory.
    pub most_held: usize,
    /// For how long a broker that cannot be reached is tried again, within half of the time that a
    /// request has.
    pub retry_for: Duration,
    /// What a heartbeat of 0 means depends on it.
    pub host: Host,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cap: 5,
            connect_timeout: TIMEOUT,
            heartbeat: HEARTBEAT,
            most_held: MOST_HELD,
            retry_for: Duration::from_secs(8),
            host: Host::default(),
        }
    }
}

/// The parameters of a connection, `ConnectionConfig` of the connection model. The password is
/// shown by nothing that this type can be asked for.
#[derive(Clone)]
pub struct ConnectionConfig {
    addresses: Vec<Address>,
    vhost: String,
    user: String,
    password: SecretString,
    tls: Option<TlsConfig>,
    timeout: Duration,
    heartbeat: Heartbeat,
    mechanism: SASLMechanism,
    host: Host,
}

/// How a client shows who it is.
#[derive(Clone, Debug)]
pub enum Login {
    /// SASL PLAIN.
    Password {
        /// Not empty, and without NUL.
        user: String,
        /// Not empty, and without NUL.
        password: SecretString,
    },
    /// SASL EXTERNAL: the client's certificate is the login.
    Certificate,
}

impl Login {
    fn into_parts(self) -> (String, SecretString, SASLMechanism) {
        match self {
            Self::Password { user, password } => (user, password, SASLMechanism::Plain),
            Self::Certificate => (String::new(), SecretString::default(), SASLMechanism::External),
        }
    }
}

/// PEM material of a connection under TLS. The broker's certificate is always verified.
#[derive(Clone, Debug, Default)]
pub struct TlsConfig {
    /// The authorities to trust instead of the system's.
    pub trust_store: Option<SecretString>,
    /// A client certificate with its key.
    pub key_store: Option<SecretString>,
}

impl TlsConfig {
    /// Checks that the material can be used.
    ///
    /// # Errors
    /// What is wrong with it, without showing any of it.
    pub fn check(&self) -> Result<(), BrokerError> {
        tls::connector(self).map(drop)
    }
}

impl ConnectionConfig {
    /// What a port may be.
    pub const PORT: RangeInclusive<i64> = 1..=65_535;
    /// What a timeout may be, in seconds.
    pub const TIMEOUT_SECONDS: RangeInclusive<i64> = 1..=300;
    /// What a heartbeat may be, in seconds.
    pub const HEARTBEAT_SECONDS: RangeInclusive<i64> = 0..=3_600;

    /// A connection to this address and virtual host, without TLS, with a timeout of 30 s and a
    /// heartbeat of 60 s, in a process that runs all the time.
    ///
    /// # Errors
    /// With everything that is wrong.
    pub fn new(address: Address, vhost: String, login: Login) -> Result<Self, ConfigError> {
        let (user, password, mechanism) = login.into_parts();
        let config = Self {
            addresses: vec![address],
            vhost,
            user,
            password,
            tls: None,
            timeout: TIMEOUT,
            heartbeat: HEARTBEAT,
            mechanism,
            host: Host::Process,
        };
        config.checked()
    }

    fn checked(self) -> Result<Self, ConfigError> {
        faults::check(&self).map(|()| self)
    }

    /// # Errors
    /// It is out of its range.
    pub fn with_timeout(mut self, timeout: Duration) -> Result<Self, ConfigError> {
        self.timeout = timeout;
        self.checked()
    }

    /// Seconds between heartbeats; 0 is none.
    ///
    /// # Errors
    /// It is out of its range.
    pub fn with_heartbeat(mut self, heartbeat: Heartbeat) -> Result<Self, ConfigError> {
        self.heartbeat = heartbeat;
        self.checked()
    }

    /// The configuration of the gateway's connections to a target.
    ///
    /// # Errors
    /// When the target has what AMQP cannot carry.
    pub(crate) fn for_target(access: &Access, settings: &Settings) -> Result<Self, BrokerError> {
        let endpoint = &access.endpoint;
        let unsupported = |detail: &str| BrokerError::unsupported(detail);
        if endpoint.addresses.is_empty() {
            return Err(unsupported("RabbitMQ is reached by connName, not by ccdtUrl"));
        }
        let tls = match &endpoint.tls {
            Tls::Off => None,
            Tls::On { cipher_spec: Some(_), .. } => {
                return Err(unsupported(
                    "a cipherSpec can be chosen for IBM MQ only; RabbitMQ and this client agree on one",
                ));
            }
            Tls::On { .. } => Some(TlsConfig {
                trust_store: access.trust_store.clone(),
                key_store: access.key_store.clone(),
            }),
        };
        // A client certificate alone is an identity. RabbitMQ's own default user is for its own
        // machine.
        let has_key = tls.as_ref().is_some_and(|tls| tls.key_store.is_some());
        let login = match &access.credentials {
            Some(Credentials { user, password }) => {
                Login::Password { user: user.clone(), password: password.clone() }
            }
            None if has_key => Login::Certificate,
            None if endpoint.addresses.iter().all(is_loopback) => {
                Login::Password { user: GUEST.to_owned(), password: SecretString::from(GUEST) }
            }
            None => {
                return Err(unsupported(
                    "RabbitMQ needs a login here: name auth.user and auth.passwordRef, or a client certificate; its user `guest` is for loopback addresses",
                ));
            }
        };
        let (user, password, mechanism) = login.into_parts();
        let config = Self {
            addresses: endpoint.addresses.clone(),
            vhost: endpoint.queue_manager.clone(),
            user,
            password,
            tls,
            timeout: settings.connect_timeout,
            heartbeat: settings.heartbeat,
            mechanism,
            host: Host::Process,
        };
        let config = config.checked().map_err(|error| unsupported(&error.to_string()))?;
        Ok(config.running_in(settings.host))
    }

    /// Raises a heartbeat of 0 where the program runs in a function: a cut network would hang it
    /// for ever.
    #[must_use]
    pub fn running_in(mut self, host: Host) -> Self {
        self.host = host;
        if host == Host::Function && self.heartbeat == 0 {
            self.heartbeat = FUNCTION_HEARTBEAT;
            warn!(
                event_type = "connection.heartbeat_raised",
                heartbeat = FUNCTION_HEARTBEAT,
                "A heartbeat of 0 would let a cut network hang the function; it is {FUNCTION_HEARTBEAT} s"
            );
        }
        self
    }

    /// Connects under TLS. The login stays as it is.
    #[must_use]
    pub fn with_tls(mut self, tls: TlsConfig) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Adds an address that is tried when those before it cannot be reached.
    ///
    /// # Errors
    /// When the host is empty or the port 0.
    pub fn with_fallback(mut self, address: Address) -> Result<Self, ConfigError> {
        self.addresses.push(address);
        self.checked()
    }

    /// Where connections go, in order. There is at least one address.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The first host to try.
    #[must_use]
    pub fn host(&self) -> &str {
        self.addresses.first().map_or("", |address| &address.host)
    }

    /// The first host's port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.addresses.first().map_or(0, |address| address.port)
    }

    /// The virtual host, by default `/`.
    #[must_use]
    pub fn vhost(&self) -> &str {
        &self.vhost
    }

    /// The user to log in as; empty if the client certificate is the login.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// How long one address may take to connect and log in.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Between heartbeats; 0 is none.
    #[must_use]
    pub fn heartbeat(&self) -> Duration {
        Duration::from_secs(self.heartbeat.into())
    }

    /// Whether connections are made under TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The URL of the first address, with `***` for a password.
    #[must_use]
    pub fn connection_url(&self) -> String {
        let scheme = if self.is_tls() { "amqps" } else { "amqp" };
        // A certificate that is the whole identity has neither.
        let login = if self.user.is_empty() { String::new() } else { format!("{}:***@", self.user) };
        let vhost = if self.vhost.starts_with('/') { self.vhost.clone() } else { format!("/{}", self.vhost) };
        format!("{scheme}://{login}{}:{}{vhost}", self.host(), self.port())
    }

    pub(crate) fn tls(&self) -> Option<&TlsConfig> {
        self.tls.as_ref()
    }

    pub(crate) fn runs_in(&self) -> Host {
        self.host
    }

    pub(crate) fn uri(&self, address: &Address) -> AMQPUri {
        AMQPUri {
            scheme: if self.tls.is_some() { AMQPScheme::AMQPS } else { AMQPScheme::AMQP },
            authority: AMQPAuthority {
                userinfo: AMQPUserInfo {
                    username: self.user.clone(),
                    password: self.password.expose_secret().to_owned(),
                },
                host: address.host.clone(),
                port: address.port,
            },
            vhost: self.vhost.clone(),
            query: AMQPQueryString {
                frame_max: Some(FRAME_MAX),
                heartbeat: Some(self.heartbeat),
                auth_mechanism: Some(self.mechanism),
                ..AMQPQueryString::default()
            },
        }
    }
}

impl fmt::Debug for ConnectionConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionConfig")
            .field("addresses", &self.addresses)
            .field("vhost", &self.vhost)
            .field("user", &self.user)
            .field("tls", &self.tls.is_some())
            .field("timeout", &self.timeout)
            .field("heartbeat", &self.heartbeat)
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}
