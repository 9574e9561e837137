//! Targets: a queue or exchange, its broker, and the login. A [`Target`] is merged from a request
//! and a profile; it is complete, and the caller may use it.

mod spec;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::allowed_queues::AllowedQueues;
use crate::authorization::Authorization;
use crate::command::BackoutRule;
use crate::connection::{ConnectionLimits, IdleRule};
use crate::exchange::{Exchange, RoutingKey};
use crate::inline::AllowedTargets;
use crate::key_repository::{self, KeyRepositoryAccess};
use crate::names::QueueName;
use crate::origin::PasswordOrigin;
use crate::profile::Profile;
use crate::rules::Judgement;
use crate::secret_ref::SecretRef;
use crate::special_address::SpecialAddresses;
use crate::store_ref::StoreRef;

pub use spec::{AuthSpec, SslSpec, TargetSpec};

/// Product of a target's broker. IBM MQ is the default of the public contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BrokerKind {
    /// IBM MQ, written `ibmmq` in requests, profiles and allow-lists.
    #[default]
    IbmMq,
    /// RabbitMQ, written `rabbitmq` in requests, profiles and allow-lists.
    RabbitMq,
}

impl BrokerKind {
    /// Returns the product's name in requests, profiles and allow-lists.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::IbmMq => "ibmmq",
            Self::RabbitMq => "rabbitmq",
        }
    }

    /// Returns the product's name for error texts and the log.
    #[must_use]
    pub const fn product(self) -> &'static str {
        match self {
            Self::IbmMq => "IBM MQ",
            Self::RabbitMq => "RabbitMQ",
        }
    }

    /// Returns the name of a queue manager or virtual host; `None` if the name may lead to any
    /// queue manager (IBM MQ: empty, or beginning with `*`).
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
    /// The connection uses TLS and verifies the server's certificate. `key_store_ref` is the client
    /// certificate, `trust_store_ref` replaces the system's authorities; `cipher_spec` and
    /// `opening` apply to IBM MQ only.
    #[expect(missing_docs, reason = "the variant's description names its fields")]
    On {
        key_store_ref: Option<StoreRef>,
        trust_store_ref: Option<StoreRef>,
        cipher_spec: Option<String>,
        #[serde(default, skip_serializing_if = "KeyRepositoryAccess::is_empty")]
        opening: Box<KeyRepositoryAccess>,
    },
}

/// Identity of a connection: addresses, user, TLS and references to secrets. The versions of the
/// secrets are in [`Access`](crate::Access).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Product of the broker, which decides which other members apply.
    pub broker: BrokerKind,
    /// Queue manager of IBM MQ, or virtual host of RabbitMQ.
    pub queue_manager: String,
    /// Server-connection channel of IBM MQ; `None` if the target names none.
    pub channel: Option<String>,
    /// Addresses in the order in which they are tried. Empty if there is a `ccdt_url`.
    pub addresses: Vec<Address>,
    /// URL of IBM MQ's client channel definition table, in place of addresses.
    pub ccdt_url: Option<String>,
    /// TLS settings of the connection. They are part of the connection's identity, so that a
    /// connection without TLS is not reused for a target with TLS.
    pub tls: Tls,
    /// User of the login; `None` if the target names none. The password's secret may then name the
    /// user.
    pub user: Option<String>,
    /// Reference to the password; `None` if the target names none. A target never holds the
    /// password itself.
    pub password_ref: Option<SecretRef>,
    /// Addresses that are allowed to be loopback, link-local, multicast or unspecified. They are
    /// part of the connection's identity, so that no target reuses a connection to an address that
    /// the target may not use.
    #[serde(default, skip_serializing_if = "SpecialAddresses::is_empty")]
    pub special: SpecialAddresses,
}

/// Complete target: a broker connection, and the queue or exchange to use there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Addresses, user and TLS settings of the connection.
    pub endpoint: Endpoint,
    /// Queue to use; `None` if there is an exchange, or for a connection test without a queue.
    pub queue: Option<QueueName>,
    /// Exchange to which messages are published; `None` for work on a queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Exchange>,
    /// Origin of the password (request or profile), which errors about the password name.
    #[serde(default)]
    pub password_origin: PasswordOrigin,
    /// Queues that the request may use besides the target's own queue. Filled only for requests
    /// that need other queues, such as a move.
    #[serde(default, skip_serializing_if = "AllowedQueues::is_none")]
    pub reach: AllowedQueues,
    /// Rule of the profile for messages whose backout count has reached their queue's threshold.
    #[serde(default)]
    pub backout: BackoutRule,
    /// Rule of the profile that decides whether a connection is kept open or closed when its
    /// request ends.
    #[serde(default)]
    pub idle_connections: IdleRule,
    /// Time limits of the profile for the target's connections.
    #[serde(default)]
    pub limits: ConnectionLimits,
}

impl fmt::Display for Target {
    /// Writes the target as responses and records name it: `<queueManager>:<queue>`, or
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
    /// A member of the target is missing or contradicts another member.
    #[error("{detail}")]
    #[expect(missing_docs, reason = "a JSON Pointer to the member, and what is wrong with it")]
    Invalid { pointer: &'static str, detail: String },
    /// The profile has a fault, which only a change of the profile corrects.
    #[error("the profile {0}")]
    Profile(String),
    /// Neither the profile nor an allow-list entry covers the target.
    #[error("{0}")]
    NotAllowed(String),
    /// The target is allowed, but no allow-list entry grants it a secret that the request names.
    #[error("{0}")]
    SecretNotAllowed(String),
}

impl Target {
    /// Merges the request's target over its profile, applies the defaults, and checks that the
    /// caller may use the result.
    ///
    /// The profile's own hosts and queues are allowed, and its credentials go only to its hosts.
    /// Every other member that the request sets must be covered by `allowed`, including secrets,
    /// and must not weaken the profile's TLS.
    ///
    /// # Errors
    /// [`TargetError`], which names the member at fault or the rule that forbids the target.
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

    /// Returns the target that [`Self::resolve`] builds from the same arguments, with the result of
    /// each rule about it.
    ///
    /// # Errors
    /// [`TargetError`], if the target is incomplete or contradicts itself. Rules are not checked
    /// then.
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

    /// Merges the request's target over its profile and applies the defaults, without checking the
    /// rules.
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

    /// Adds [`AllowedQueues`], the queues that the caller may name instead of the target's own. The
    /// arguments must be those that the target was resolved with.
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

    /// Checks that the caller may also publish with `key`, the routing key of a single message. The
    /// other arguments must be those that the target was resolved with.
    ///
    /// # Errors
    /// If the caller may not use the key, or the target has no exchange.
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
