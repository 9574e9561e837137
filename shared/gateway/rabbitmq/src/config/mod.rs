//! Configuration of a connection to RabbitMQ.

pub(crate) mod faults;

use std::net::IpAddr;
use std::time::Duration;

use broker::{ConnectionSettings, Peer};
use lapin::types::Heartbeat;
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo, SASLMechanism};
use mq::{Access, Address, BrokerError, BrokerKind, Credentials, SpecialAddresses, Tls};
use secrecy::{ExposeSecret as _, SecretString};
use tracing::warn;

use crate::frame_filter::FRAME_MAX;
use crate::intake::MOST_HELD;
use crate::tls;

pub use self::faults::{ConfigError, ConfigFault};

/// Interval of heartbeats in seconds that a Lambda function uses if 0 (no heartbeats) is
/// configured.
const FUNCTION_HEARTBEAT: Heartbeat = 60;

/// Name and password of RabbitMQ's default user, which may log in only from the broker's own host.
const GUEST: &str = "guest";

fn is_loopback(address: &Address) -> bool {
    let ip: Option<IpAddr> = address.host.parse().ok();
    ip.map_or(address.host == "localhost", |ip| ip.is_loopback())
}

/// Kind of process that uses a connection: a Lambda function, or a long-running program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// Lambda function, which is frozen between invocations and notices no events while it is
    /// frozen. It must not block forever.
    Function,
    /// Long-running process, in which heartbeats show whether a connection is alive.
    Process,
}

/// Settings of a [`RabbitMq`](crate::RabbitMq) broker.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Maximum number of open connections, over all targets.
    pub cap: usize,
    /// Time limits of connections, unless a target's profile sets others.
    pub connections: ConnectionSettings,
    /// Maximum number of bytes of memory for the messages of one fetch.
    pub most_held: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { cap: 5, connections: ConnectionSettings::default(), most_held: MOST_HELD }
    }
}

/// Parameters of a connection: `ConnectionConfig` of the specified connection model. No output of
/// this type contains the password.
#[derive(Clone, Debug)]
pub struct ConnectionConfig {
    pub(crate) addresses: Vec<Address>,
    /// Addresses (host and port) that may be, or resolve to, a loopback, link-local, multicast or
    /// unspecified IP address; `None` allows all.
    pub(crate) special: Option<SpecialAddresses>,
    pub(crate) vhost: String,
    pub(crate) login: Login,
    pub(crate) tls: Option<TlsConfig>,
    pub(crate) timeout: Duration,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) host: Host,
}

/// Method and credentials with which a connection logs in.
#[derive(Clone, Debug)]
pub enum Login {
    /// Login by user and password (SASL PLAIN).
    Password {
        /// User name, which is not empty and contains no NUL.
        user: String,
        /// Password, which is not empty and contains no NUL.
        password: SecretString,
    },
    /// Login by the client certificate (SASL EXTERNAL).
    Certificate,
}

/// PEM certificates and key of a TLS connection. The broker's certificate is always verified.
#[derive(Clone, Debug, Default)]
pub struct TlsConfig {
    /// PEM certificates of the authorities to trust; `None` to trust those of the system.
    pub trust_store: Option<SecretString>,
    /// Client certificate with its private key, in PEM; `None` without a client certificate.
    pub key_store: Option<SecretString>,
}

impl TlsConfig {
    /// Checks that the certificates and the key can be used.
    ///
    /// # Errors
    /// If they cannot be used. The error describes the fault without quoting the PEM text.
    pub fn check(&self) -> Result<(), BrokerError> {
        tls::connector(self).map(drop)
    }
}

impl ConnectionConfig {
    /// Returns this configuration if it keeps the rules that apply to every configuration, such as
    /// the maximum length of the virtual host's name.
    ///
    /// # Errors
    /// All faults of the parameters.
    pub(crate) fn checked(self) -> Result<Self, ConfigError> {
        faults::check(&self).map(|()| self)
    }

    /// Creates the configuration of connections to a gateway's target, with the time limits
    /// `limits`.
    ///
    /// # Errors
    /// If the target has a setting that RabbitMQ does not support.
    pub(crate) fn for_target(access: &Access, limits: &ConnectionSettings) -> Result<Self, BrokerError> {
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
        // A client certificate alone identifies the client. RabbitMQ's own default user is accepted
        // only from the broker's machine.
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
        let config = Self {
            addresses: endpoint.addresses.clone(),
            special: Some(endpoint.special.clone()),
            vhost: endpoint.queue_manager.clone(),
            login,
            tls,
            timeout: limits.timeout,
            heartbeat: Heartbeat::try_from(limits.heartbeat.as_secs()).unwrap_or(Heartbeat::MAX),
            host: Host::Process,
        };
        let config = config.checked().map_err(|error| unsupported(&error.to_string()))?;
        Ok(config.running_in(Host::Function))
    }

    /// Sets the kind of process. For [`Host::Function`], a heartbeat of 0 becomes 60 s, because
    /// without heartbeats a broken network connection would block the function forever.
    #[must_use]
    pub fn running_in(mut self, host: Host) -> Self {
        self.host = host;
        if host == Host::Function && self.heartbeat == 0 {
            self.heartbeat = FUNCTION_HEARTBEAT;
            warn!(
                event_type = "connection.heartbeat_raised",
                heartbeat = FUNCTION_HEARTBEAT,
                "The configured heartbeat of 0 is raised to {FUNCTION_HEARTBEAT} s: without heartbeats, a cut network would hang the function"
            );
        }
        self
    }

    /// Enables TLS with these certificates. The login does not change.
    #[must_use]
    pub fn with_tls(mut self, tls: TlsConfig) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Returns the addresses to connect to, in order; at least one.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Returns the host of the first address.
    #[must_use]
    pub fn host(&self) -> &str {
        self.addresses.first().map_or("", |address| &address.host)
    }

    /// Returns the port of the first address.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.addresses.first().map_or(0, |address| address.port)
    }

    /// Returns the virtual host, which is `/` by default.
    #[must_use]
    pub fn vhost(&self) -> &str {
        &self.vhost
    }

    /// Returns the user to log in as; empty if the client certificate is the login.
    #[must_use]
    pub fn user(&self) -> &str {
        match &self.login {
            Login::Password { user, .. } => user,
            Login::Certificate => "",
        }
    }

    /// Returns the time limit for connecting and logging in at one address.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the requested interval of heartbeats; 0 means no heartbeats.
    #[must_use]
    pub fn heartbeat(&self) -> Duration {
        Duration::from_secs(self.heartbeat.into())
    }

    /// True if connections use TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the AMQP URL of the first address, with `***` in place of the password.
    #[must_use]
    pub fn get_connection_url(&self) -> String {
        let scheme = if self.is_tls() { "amqps" } else { "amqp" };
        let login = match &self.login {
            Login::Password { user, .. } => format!("{user}:***@"),
            Login::Certificate => String::new(),
        };
        let vhost = if self.vhost.starts_with('/') { self.vhost.clone() } else { format!("/{}", self.vhost) };
        format!("{scheme}://{login}{}:{}{vhost}", self.host(), self.port())
    }

    /// Returns the description of a connection to `address` for log lines.
    pub(crate) fn peer(&self, address: &Address) -> Peer {
        Peer { address: Some(address.clone()), ..self.unconnected_peer() }
    }

    /// Returns the description of a connection for log lines, before its address is known.
    pub(crate) fn unconnected_peer(&self) -> Peer {
        Peer {
            broker: BrokerKind::RabbitMq,
            address: None,
            queue_manager: self.vhost.clone(),
            user: self.user().to_owned(),
            tls: self.is_tls(),
        }
    }

    pub(crate) fn uri(&self, address: &Address) -> AMQPUri {
        let (password, mechanism) = match &self.login {
            Login::Password { password, .. } => (password.expose_secret(), SASLMechanism::Plain),
            Login::Certificate => ("", SASLMechanism::External),
        };
        AMQPUri {
            scheme: if self.is_tls() { AMQPScheme::AMQPS } else { AMQPScheme::AMQP },
            authority: AMQPAuthority {
                userinfo: AMQPUserInfo { username: self.user().to_owned(), password: password.to_owned() },
                host: address.host.clone(),
                port: address.port,
            },
            vhost: self.vhost.clone(),
            query: AMQPQueryString {
                frame_max: Some(FRAME_MAX),
                heartbeat: Some(self.heartbeat),
                auth_mechanism: Some(mechanism),
                ..AMQPQueryString::default()
            },
        }
    }
}
