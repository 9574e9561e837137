//! Targets: a queue, its broker, and the login. They are made of a request and a profile, and are
//! complete and allowed.

mod spec;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::authorization::Authorization;
use crate::command::BackoutRule;
use crate::connection::{ConnectionLimits, IdleRule};
use crate::exchange::{Exchange, RoutingKey};
use crate::inline::AllowedTargets;
use crate::key_repository::{self, Opening};
use crate::names::QueueName;
use crate::origin::PasswordOrigin;
use crate::profile::Profile;
use crate::reach::Reach;
use crate::rules::Judgement;
use crate::secret_ref::SecretRef;
use crate::special_address::SpecialAddresses;
use crate::store_ref::StoreRef;

pub use spec::{AuthSpec, SslSpec, TargetSpec};

/// Product of a target's broker. A target without it is IBM MQ, as the contract says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BrokerKind {
    /// IBM MQ, named `ibmmq`.
    #[default]
    IbmMq,
    /// RabbitMQ, named `rabbitmq`.
    RabbitMq,
}

impl BrokerKind {
    /// Returns the name in requests, profiles and allow-lists.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::IbmMq => "ibmmq",
            Self::RabbitMq => "rabbitmq",
        }
    }

    /// Returns the product's name, for texts and the log.
    #[must_use]
    pub const fn product(self) -> &'static str {
        match self {
            Self::IbmMq => "IBM MQ",
            Self::RabbitMq => "RabbitMQ",
        }
    }

    /// Returns the name of a queue manager or a virtual host, or `None` if it leads to any: at IBM
    /// MQ an empty name and each that begins with `*` do.
    #[must_use]
    pub fn certain_queue_manager(self, name: &str) -> Option<&str> {
        let is_any = self == Self::IbmMq && (name.is_empty() || name.starts_with('*'));
        (!is_any).then_some(name)
    }
}

/// TLS settings of a broker connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Tls {
    /// The connection uses plain TCP, without TLS.
    #[default]
    Off,
    /// TLS with the server's certificate verified. `key_store_ref` holds the client certificate;
    /// `trust_store_ref` replaces the system's authorities; `cipher_spec` and `opening` are IBM
    /// MQ's.
    #[expect(missing_docs, reason = "the variant's description names its fields")]
    On {
        key_store_ref: Option<StoreRef>,
        trust_store_ref: Option<StoreRef>,
        cipher_spec: Option<String>,
        #[serde(default, skip_serializing_if = "Opening::is_empty")]
        opening: Box<Opening>,
    },
}

/// All data that identify a connection, apart from the versions of its secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Kind of the broker. It decides which of the other members have a meaning.
    pub broker: BrokerKind,
    /// Queue manager of IBM MQ, or virtual host of RabbitMQ.
    pub queue_manager: String,
    /// Server-connection channel of IBM MQ.
    pub channel: Option<String>,
    /// Addresses in the order of the attempts. Empty if there is a `ccdt_url`.
    pub addresses: Vec<Address>,
    /// URL of IBM MQ's client channel definition table, in place of addresses.
    pub ccdt_url: Option<String>,
    /// Protection of the connection. It is part of the identity: a connection without TLS is never
    /// reused for a target that has it.
    pub tls: Tls,
    /// User of the login. A password's secret may name one, too.
    pub user: Option<String>,
    /// Location of the password. The password itself is never part of a target.
    pub password_ref: Option<SecretRef>,
    /// Addresses that may be of a special kind, such as a loopback address. They are part of the
    /// identity: no target uses the connection of another one that may go further.
    #[serde(default, skip_serializing_if = "SpecialAddresses::is_empty")]
    pub special: SpecialAddresses,
}

/// A complete target that the caller may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Address and user of the connection.
    pub endpoint: Endpoint,
    /// Queue of the work; `None` only for a connection test, which needs none.
    pub queue: Option<QueueName>,
    /// Exchange to which messages are published; `None` if the work is about a queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Exchange>,
    /// Origin of the password, which an error about it names.
    #[serde(default)]
    pub password_origin: PasswordOrigin,
    /// Queues that the work may use besides its own, if it asked for others.
    #[serde(default, skip_serializing_if = "Reach::is_none")]
    pub reach: Reach,
    /// Rule of the profile for messages past a backout threshold.
    #[serde(default)]
    pub backout: BackoutRule,
    /// Rule of the profile for connections when requests end.
    #[serde(default)]
    pub idle_connections: IdleRule,
    /// Time limits of the profile for connections.
    #[serde(default)]
    pub limits: ConnectionLimits,
}

impl fmt::Display for Target {
    /// Writes the target as in responses and records: `<queueManager>:<queue>`, or
    /// `<queueManager>:<exchange>/<routingKey>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Exchange { name, routing_key }) = &self.exchange {
            return write!(f, "{}:{name}/{}", self.endpoint.queue_manager, routing_key.as_str());
        }
        write!(f, "{}:{}", self.endpoint.queue_manager, self.queue.as_ref().map_or("", QueueName::as_str))
    }
}

/// Reason why a target cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// A member is missing or contradicts another.
    #[error("{detail}")]
    #[expect(missing_docs, reason = "a JSON Pointer to the member, and what is wrong with it")]
    Invalid { pointer: &'static str, detail: String },
    /// The profile has a fault of its own, which no request can correct.
    #[error("the profile {0}")]
    Profile(String),
    /// Neither the profile nor the allow-list covers the target.
    #[error("{0}")]
    NotAllowed(String),
    /// The target is allowed, but not with this secret.
    #[error("{0}")]
    SecretNotAllowed(String),
}

impl Target {
    /// Merges the request's members over its profile, applies the defaults, and checks that the
    /// caller may use the target.
    ///
    /// A profile's own hosts and queues are allowed, and its credentials go nowhere else. Whatever
    /// a request adds beyond a queue that the profile covers must be covered by `allowed`, secrets
    /// included, and may not weaken the profile's TLS.
    ///
    /// # Errors
    /// [`TargetError`], which names the member at fault or the rule that forbids it.
    pub fn resolve(
        profile: Option<&Profile>,
        inline: Option<&TargetSpec>,
        allowed: AllowedTargets<'_>,
    ) -> Result<Self, TargetError> {
        let none = TargetSpec::default();
        let inline = inline.unwrap_or(&none);
        let mut target = Self::merged(profile, inline)?;
        let authorization = Authorization { profile, inline, target: &target, allowed };
        authorization.check()?;
        target.endpoint.special = authorization.special_addresses();
        Ok(target)
    }

    /// Returns the target that [`Self::resolve`] makes of the same arguments, with the result of
    /// each rule about it.
    ///
    /// # Errors
    /// [`TargetError`] of a target that is incomplete or contradicts itself: no rule is asked.
    pub fn judge(
        profile: Option<&Profile>,
        inline: Option<&TargetSpec>,
        allowed: AllowedTargets<'_>,
    ) -> Result<Judgement, TargetError> {
        let none = TargetSpec::default();
        let inline = inline.unwrap_or(&none);
        let target = Self::merged(profile, inline)?;
        let rules = Authorization { profile, inline, target: &target, allowed }.judge();
        Ok(Judgement { target, rules })
    }

    /// Merges the request's members over its profile, and applies the defaults.
    fn merged(profile: Option<&Profile>, inline: &TargetSpec) -> Result<Self, TargetError> {
        let none = Profile::default();
        let Profile { target: base, backout, idle_connections, connection, .. } = profile.unwrap_or(&none);
        if inline.ccdt_url.is_some() {
            return Err(TargetError::invalid("/target/ccdtUrl", "is allowed in profiles only"));
        }
        key_repository::check_request(inline.ssl.as_ref())?;
        key_repository::check_profile(base)?;
        Ok(Self {
            backout: *backout,
            idle_connections: *idle_connections,
            limits: *connection,
            ..spec::merge(base, inline).complete(inline)?
        })
    }

    /// Adds to a target, which [`Self::resolve`] made with the same arguments, the queues that its
    /// caller might have named in it instead.
    #[must_use]
    pub fn with_reach(
        self,
        profile: Option<&Profile>,
        inline: Option<&TargetSpec>,
        allowed: AllowedTargets<'_>,
    ) -> Self {
        let none = TargetSpec::default();
        let inline = inline.unwrap_or(&none);
        let reach = Authorization { profile, inline, target: &self, allowed }.reach();
        Self { reach, ..self }
    }

    /// Checks that the caller may also publish with `key`, a message's own routing key. The other
    /// arguments are those that the target was resolved with.
    ///
    /// # Errors
    /// If the key is not allowed, or the target has no exchange.
    pub fn check_routing_key(
        &self,
        key: &RoutingKey,
        profile: Option<&Profile>,
        inline: Option<&TargetSpec>,
        allowed: AllowedTargets<'_>,
    ) -> Result<(), TargetError> {
        let Some(exchange) = &self.exchange else {
            return Err(TargetError::invalid("/target/exchange", "is required with a message's routingKey"));
        };
        let exchange = Exchange { name: exchange.name.clone(), routing_key: key.clone() };
        let target = Self { exchange: Some(exchange), ..self.clone() };
        let inline = TargetSpec { routing_key: Some(key.clone()), ..inline.cloned().unwrap_or_default() };
        Authorization { profile, inline: &inline, target: &target, allowed }.check()
    }
}

impl TargetError {
    pub(crate) fn invalid(pointer: &'static str, detail: &str) -> Self {
        Self::Invalid { pointer, detail: detail.to_owned() }
    }
}
