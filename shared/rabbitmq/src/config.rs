//! What a connection is made of.

use std::fmt;
use std::time::Duration;

use lapin::types::Heartbeat;
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo, SASLMechanism};
use mq::{Access, Address, BrokerError, Tls};
use secrecy::{ExposeSecret as _, SecretString};

/// How every connection of a [`RabbitMq`](crate::RabbitMq) behaves.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How many connections may be open at once, over all targets.
    pub cap: usize,
    /// How long a caller waits for one of them to become free.
    pub pool_timeout: Duration,
    /// How long a single address may take to connect and log in.
    pub connect_timeout: Duration,
    /// Seconds between heartbeats. The broker may ask for less.
    pub heartbeat: Heartbeat,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cap: 5,
            pool_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(30),
            heartbeat: 60,
        }
    }
}

/// The parameters of one connection.
#[derive(Clone)]
pub(crate) struct ConnectionConfig {
    pub(crate) addresses: Vec<Address>,
    pub(crate) vhost: String,
    pub(crate) user: String,
    password: SecretString,
    pub(crate) tls: Option<TlsConfig>,
    pub(crate) timeout: Duration,
    pub(crate) heartbeat: Heartbeat,
    mechanism: SASLMechanism,
}

/// PEM material of a connection under TLS.
#[derive(Clone)]
pub(crate) struct TlsConfig {
    pub(crate) trust_store: Option<SecretString>,
    pub(crate) key_store: Option<SecretString>,
}

impl ConnectionConfig {
    /// # Errors
    /// When the target has what AMQP cannot carry.
    pub(crate) fn new(access: &Access, settings: &Settings) -> Result<Self, BrokerError> {
        let endpoint = &access.endpoint;
        let unsupported = |detail: &str| BrokerError::Unsupported { detail: detail.to_owned() };
        if endpoint.queue_manager.len() > 255 {
            return Err(unsupported("a virtual host's name has at most 255 bytes"));
        }
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
        // A client certificate alone is an identity; without either, RabbitMQ's own default applies.
        let has_key = tls.as_ref().is_some_and(|tls| tls.key_store.is_some());
        let (user, password, mechanism) = match &access.credentials {
            Some(credentials) => {
                (credentials.user.clone(), credentials.password.clone(), SASLMechanism::Plain)
            }
            None if has_key => (String::new(), SecretString::default(), SASLMechanism::External),
            None => ("guest".to_owned(), SecretString::from("guest"), SASLMechanism::Plain),
        };
        if user.contains('\0') || password.expose_secret().contains('\0') {
            return Err(unsupported("user and password cannot contain NUL"));
        }
        Ok(Self {
            addresses: endpoint.addresses.clone(),
            vhost: endpoint.queue_manager.clone(),
            user,
            password,
            tls,
            timeout: settings.connect_timeout,
            heartbeat: settings.heartbeat,
            mechanism,
        })
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
            .field("heartbeat", &self.heartbeat)
            .finish_non_exhaustive()
    }
}
