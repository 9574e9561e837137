//! Targets: a queue, its broker, and the login. They are made of a request and a profile, and are
//! complete and allowed.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::address::{Address, ConnName};
use crate::authorization::Authorization;
use crate::command::BackoutRule;
use crate::connection::{ConnectionLimits, IdleRule};
use crate::exchange::{Exchange, ExchangeName, RoutingKey};
use crate::inline::AllowedTargets;
use crate::key_repository::{self, Opening};
use crate::names::{
    CcdtUrl, CertificateLabel, ChannelName, CipherSpec, QueueManagerName, QueueName, UserName,
    is_of_an_ibm_name,
};
use crate::origin::PasswordOrigin;
use crate::profile::Profile;
use crate::reach::Reach;
use crate::rules::Judgement;
use crate::secret_ref::SecretRef;
use crate::special_address::SpecialAddresses;
use crate::store_ref::StoreRef;

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

/// A target as a request or a profile writes it; every member is optional until the two are merged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "`TargetFull` in openapi.yaml describes each member")]
pub struct TargetSpec {
    pub broker: Option<BrokerKind>,
    pub queue_manager: Option<QueueManagerName>,
    pub queue: Option<QueueName>,
    /// Exchange in place of a queue, to put messages.
    pub exchange: Option<ExchangeName>,
    pub routing_key: Option<RoutingKey>,
    pub channel: Option<ChannelName>,
    pub conn_name: Option<ConnName>,
    pub ccdt_url: Option<CcdtUrl>,
    pub ssl: Option<SslSpec>,
    pub auth: Option<AuthSpec>,
}

/// Member `ssl` of a [`TargetSpec`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "`TargetSsl` in openapi.yaml describes each member")]
pub struct SslSpec {
    pub enabled: Option<bool>,
    pub key_store_ref: Option<StoreRef>,
    pub trust_store_ref: Option<StoreRef>,
    pub cipher_spec: Option<CipherSpec>,
    pub stash_ref: Option<StoreRef>,
    pub store_password_ref: Option<SecretRef>,
    pub certificate_label: Option<CertificateLabel>,
}

/// Member `auth` of a [`TargetSpec`]: a user, and the reference to the password.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "`TargetAuth` in openapi.yaml describes each member")]
pub struct AuthSpec {
    pub user: Option<UserName>,
    pub password_ref: Option<SecretRef>,
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
            ..merge(base, inline).complete(inline)?
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

fn merge(base: &TargetSpec, over: &TargetSpec) -> TargetSpec {
    let ssl = |spec: &TargetSpec| spec.ssl.clone().unwrap_or_default();
    let auth = |spec: &TargetSpec| spec.auth.clone().unwrap_or_default();
    TargetSpec {
        broker: over.broker.or(base.broker),
        queue_manager: over.queue_manager.clone().or_else(|| base.queue_manager.clone()),
        queue: over.queue.clone().or_else(|| base.queue.clone().filter(|_| over.exchange.is_none())),
        exchange: over.exchange.clone().or_else(|| base.exchange.clone().filter(|_| over.queue.is_none())),
        routing_key: over
            .routing_key
            .clone()
            .or_else(|| base.routing_key.clone().filter(|_| over.queue.is_none())),
        channel: over.channel.clone().or_else(|| base.channel.clone()),
        conn_name: over.conn_name.clone().or_else(|| base.conn_name.clone()),
        ccdt_url: if over.conn_name.is_some() { None } else { base.ccdt_url.clone() },
        ssl: Some(key_repository::merge(ssl(base), ssl(over))),
        auth: Some(AuthSpec {
            user: auth(over).user.or(auth(base).user),
            password_ref: auth(over).password_ref.or(auth(base).password_ref),
        }),
    }
}

impl TargetSpec {
    /// Applies the defaults. A fault of a member that comes from the profile and not from `inline`
    /// is the profile's fault.
    fn complete(self, inline: &Self) -> Result<Target, TargetError> {
        let broker = self.broker.unwrap_or_default();
        if broker == BrokerKind::IbmMq {
            self.check_for_ibm_mq(inline)?;
        }
        let exchange = self.exchange(inline)?;
        let queue_manager = match (self.queue_manager, broker) {
            // Empty or `*` and a name at IBM MQ: any queue manager to which the channel leads.
            (Some(name), BrokerKind::IbmMq) => name.into(),
            (Some(name), BrokerKind::RabbitMq) if !name.is_empty() => name.into(),
            (_, BrokerKind::RabbitMq) => "/".to_owned(),
            (None, BrokerKind::IbmMq) => {
                return Err(TargetError::invalid(
                    "/target/queueManager",
                    "is required for ibmmq, which is the broker unless `broker` says rabbitmq",
                ));
            }
        };
        let addresses = self.conn_name.map(|name| name.addresses().to_vec()).unwrap_or_default();
        match (addresses.is_empty(), &self.ccdt_url) {
            (true, None) => return Err(TargetError::invalid("/target/connName", "is required")),
            // A request cannot name a table, and its addresses replace the profile's.
            (false, Some(_)) => {
                return Err(TargetError::Profile("names both connName and ccdtUrl".to_owned()));
            }
            _ => {}
        }
        let ssl = self.ssl.unwrap_or_default();
        let auth = self.auth.unwrap_or_default();
        let tls = if ssl.enabled.unwrap_or_default() {
            Tls::On {
                key_store_ref: ssl.key_store_ref,
                trust_store_ref: ssl.trust_store_ref,
                cipher_spec: ssl.cipher_spec.map(String::from),
                opening: Box::new(Opening {
                    stash_ref: ssl.stash_ref,
                    password_ref: ssl.store_password_ref,
                    certificate_label: ssl.certificate_label.map(String::from),
                }),
            }
        } else {
            Tls::Off
        };
        let endpoint = Endpoint {
            broker,
            queue_manager,
            channel: self.channel.map(String::from),
            addresses,
            ccdt_url: self.ccdt_url.map(String::from),
            tls,
            user: auth.user.map(String::from),
            password_ref: auth.password_ref,
            special: SpecialAddresses::default(),
        };
        Ok(Target { endpoint, queue: self.queue, exchange, ..Target::default() })
    }

    /// Returns the exchange with its routing key. A target names either a queue or an exchange.
    fn exchange(&self, inline: &Self) -> Result<Option<Exchange>, TargetError> {
        let fault = |pointer, is_inline: bool, detail: &str| match is_inline {
            true => Err(TargetError::invalid(pointer, detail)),
            false => Err(TargetError::Profile(format!("names an exchange wrongly: {pointer} {detail}"))),
        };
        let routing_key = self.routing_key.clone();
        match (&self.exchange, &self.queue, routing_key) {
            (Some(_), Some(_), _) => {
                fault("/target/exchange", inline.exchange.is_some(), "cannot be used together with queue")
            }
            (None, _, Some(_)) => {
                fault("/target/routingKey", inline.routing_key.is_some(), "goes with exchange only")
            }
            (None, _, None) => Ok(None),
            (Some(name), None, key) => {
                Ok(Some(Exchange { name: name.clone(), routing_key: key.unwrap_or_default() }))
            }
        }
    }

    /// Checks IBM MQ's own limits, which are narrower than AMQP's: MQ_Q_MGR_NAME_LENGTH,
    /// MQ_Q_NAME_LENGTH and MQ_CONN_NAME_LENGTH.
    fn check_for_ibm_mq(&self, inline: &Self) -> Result<(), TargetError> {
        let is_name = |name: &str| name.len() <= 48 && name.chars().all(is_of_an_ibm_name);
        let is_short = |name: &ConnName| Address::in_ibm_form(name.addresses()).len() <= 264;
        let is_manager = |name: &str| name.len() <= 48 && is_name(name.strip_prefix('*').unwrap_or(name));
        let name_rule = "must be at most 48 letters, digits and ./_% for ibmmq";
        let members = [
            (
                "/target/queueManager",
                self.queue_manager.as_deref().is_none_or(is_manager),
                name_rule,
                inline.queue_manager.is_some(),
            ),
            ("/target/queue", self.queue.as_deref().is_none_or(is_name), name_rule, inline.queue.is_some()),
            (
                "/target/connName",
                self.conn_name.as_ref().is_none_or(is_short),
                "must be at most 264 bytes long for ibmmq, with each port in parentheses",
                inline.conn_name.is_some(),
            ),
        ];
        let at_fault = members.into_iter().find(|(_, is_fine, ..)| !is_fine);
        match at_fault {
            None => Ok(()),
            Some((pointer, _, rule, true)) => Err(TargetError::invalid(pointer, rule)),
            Some((pointer, _, rule, false)) => {
                let member = pointer.trim_start_matches("/target/");
                Err(TargetError::Profile(format!("has a {member} that {rule}")))
            }
        }
    }
}
