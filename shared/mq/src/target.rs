//! Which queue, where, and as whom: from what a request and a profile say to a target that is
//! complete and allowed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use wildmatch::WildMatch;

use crate::authorization::Authorization;
use crate::inline::AllowedTargets;
use crate::names::{
    CcdtUrl, ChannelName, CipherSpec, QueueManagerName, QueueName, UserName, is_of_an_ibm_name,
};
use crate::origin::PasswordOrigin;
use crate::reach::Reach;
use crate::secret_ref::SecretRef;

/// The product behind a target. A target that does not say is IBM MQ, as the contract has it.
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
    /// The name in requests, profiles and allow-lists.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::IbmMq => "ibmmq",
            Self::RabbitMq => "rabbitmq",
        }
    }
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Address {
    /// A name or a literal address, in lower case, without brackets; at most [`Address::MAX_HOST`]
    /// characters.
    pub host: String,
    /// 1 to 65535.
    pub port: u16,
}

impl Address {
    /// The longest name of a host, in characters (RFC 1035, section 2.3.4).
    pub const MAX_HOST: usize = 253;
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Address {
    type Err = String;

    /// Reads `host:port`, `[ipv6]:port` or IBM's `host(port)`.
    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || "must be host:port or host(port)".to_owned();
        let (host, port) = match text.strip_suffix(')') {
            Some(open) => open.split_once('('),
            None => text.rsplit_once(':'),
        }
        .ok_or_else(malformed)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        if host.is_empty() || host.len() > Self::MAX_HOST || !host.chars().all(allowed) {
            return Err(malformed());
        }
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(malformed)?;
        Ok(Self { host: host.to_ascii_lowercase(), port })
    }
}

/// Addresses that are tried in order: 1 to 16, none of them twice. Each that does not answer costs
/// a request time and the broker's network a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ConnName(Vec<Address>);

impl ConnName {
    /// How many addresses one name may list.
    pub const MAX_ADDRESSES: usize = 16;
    /// Sixteen of the longest, as `host(port)`, with commas between them.
    pub const MAX_BYTES: usize = Self::MAX_ADDRESSES * (Address::MAX_HOST + "(65535),".len()) - 1;

    /// In the order in which they are tried; at least one.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.0
    }
}

impl TryFrom<String> for ConnName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.len() > Self::MAX_BYTES {
            return Err(format!("must be at most {} bytes long, not {}", Self::MAX_BYTES, text.len()));
        }
        let mut addresses = Vec::new();
        for address in text.split(',') {
            let address: Address = address.trim().parse()?;
            if addresses.contains(&address) {
                return Err(format!("names {address} more than once"));
            }
            if addresses.len() == Self::MAX_ADDRESSES {
                return Err(format!("must name at most {} addresses", Self::MAX_ADDRESSES));
            }
            addresses.push(address);
        }
        Ok(Self(addresses))
    }
}

impl From<ConnName> for String {
    fn from(name: ConnName) -> Self {
        name.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }
}

/// A target as a request or a profile writes it; every member is optional until the two are merged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "`Target` in openapi.yaml describes each member")]
pub struct TargetSpec {
    pub broker: Option<BrokerKind>,
    pub queue_manager: Option<QueueManagerName>,
    pub queue: Option<QueueName>,
    pub channel: Option<ChannelName>,
    pub conn_name: Option<ConnName>,
    pub ccdt_url: Option<CcdtUrl>,
    pub ssl: Option<SslSpec>,
    pub auth: Option<AuthSpec>,
}

/// The member `ssl` of a [`TargetSpec`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "`Target` in openapi.yaml describes each member")]
pub struct SslSpec {
    pub enabled: Option<bool>,
    pub key_store_ref: Option<SecretRef>,
    pub trust_store_ref: Option<SecretRef>,
    pub cipher_spec: Option<CipherSpec>,
}

/// The member `auth` of a [`TargetSpec`]: a user, and where the password is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "`Target` in openapi.yaml describes each member")]
pub struct AuthSpec {
    pub user: Option<UserName>,
    pub password_ref: Option<SecretRef>,
}

/// A target kept on the server, with patterns (`*`, `?`) of the further queues that a request may
/// name on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Profile {
    /// What a request may leave out. A request's own members take precedence.
    pub target: TargetSpec,
    /// Patterns of queues, beside the target's own.
    #[serde(default)]
    pub queues: Vec<String>,
}

impl Profile {
    pub(crate) fn covers_queue(&self, queue: &QueueName) -> bool {
        self.target.queue.as_ref() == Some(queue)
            || self.queues.iter().any(|pattern| WildMatch::new(pattern).matches(queue.as_str()))
    }

    pub(crate) fn covers_addresses(&self, addresses: &[Address]) -> bool {
        let own = self.target.conn_name.as_ref().map_or(&[][..], ConnName::addresses);
        addresses.iter().all(|address| own.contains(address))
    }
}

/// How the connection is protected.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Tls {
    /// Plain TCP.
    Off,
    /// TLS with the server's certificate verified. `key_store_ref` holds the client certificate;
    /// `trust_store_ref` replaces the system's authorities; `cipher_spec` is IBM MQ's.
    #[expect(missing_docs, reason = "the variant's description names its fields")]
    On { key_store_ref: Option<SecretRef>, trust_store_ref: Option<SecretRef>, cipher_spec: Option<String> },
}

/// Everything that identifies a connection, but for the versions of its secrets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Decides which of the other members have a meaning.
    pub broker: BrokerKind,
    /// RabbitMQ: the virtual host.
    pub queue_manager: String,
    /// IBM MQ's server-connection channel.
    pub channel: Option<String>,
    /// In the order in which they are tried. Empty if there is a `ccdt_url`.
    pub addresses: Vec<Address>,
    /// IBM MQ's client channel definition table, in place of addresses.
    pub ccdt_url: Option<String>,
    /// Part of the identity: a connection without TLS is never reused for a target that has it.
    pub tls: Tls,
    /// The user to log in as. A password's secret may name one, too.
    pub user: Option<String>,
    /// Where the password is kept. The password itself is never part of a target.
    pub password_ref: Option<SecretRef>,
}

/// A complete target that the caller may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Where to connect, and as whom.
    pub endpoint: Endpoint,
    /// Absent only for a connection test, which needs none.
    pub queue: Option<QueueName>,
    /// Who named the password, for the error that says so.
    #[serde(default)]
    pub password_origin: PasswordOrigin,
    /// The queues that the work may use beside its own, if it asked for others.
    #[serde(default, skip_serializing_if = "Reach::is_none")]
    pub reach: Reach,
}

impl fmt::Display for Target {
    /// The form of answers and records: `<queueManager>:<queue>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.endpoint.queue_manager, self.queue.as_ref().map_or("", QueueName::as_str))
    }
}

/// Why a target cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// A member is missing or contradicts another.
    #[error("{detail}")]
    #[expect(missing_docs, reason = "a JSON Pointer to the member, and what is wrong with it")]
    Invalid { pointer: &'static str, detail: String },
    /// The profile has a fault of its own, which no request can mend.
    #[error("the profile {0}")]
    Profile(String),
    /// Neither the profile nor the allow-list covers the target.
    #[error("{0}")]
    NotAllowed(String),
    /// The target may be used, but not with this secret.
    #[error("{0}")]
    SecretNotAllowed(String),
}

impl Target {
    /// Merges what the request says over its profile, applies the defaults, and checks that the
    /// caller may go there.
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
        let base = profile.map_or(&none, |profile| &profile.target);
        if inline.ccdt_url.is_some() {
            return Err(TargetError::invalid("/target/ccdtUrl", "is allowed in profiles only"));
        }
        let target = merge(base, inline).complete(inline)?;
        Authorization { profile, inline, target: &target, allowed }.check()?;
        Ok(target)
    }

    /// The target, which came of [`Self::resolve`] with the same arguments, with the queues that its
    /// caller might as well have named in it.
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
}

impl TargetError {
    fn invalid(pointer: &'static str, detail: &str) -> Self {
        Self::Invalid { pointer, detail: detail.to_owned() }
    }
}

fn merge(base: &TargetSpec, over: &TargetSpec) -> TargetSpec {
    let ssl = |spec: &TargetSpec| spec.ssl.clone().unwrap_or_default();
    let auth = |spec: &TargetSpec| spec.auth.clone().unwrap_or_default();
    TargetSpec {
        broker: over.broker.or(base.broker),
        queue_manager: over.queue_manager.clone().or_else(|| base.queue_manager.clone()),
        queue: over.queue.clone().or_else(|| base.queue.clone()),
        channel: over.channel.clone().or_else(|| base.channel.clone()),
        conn_name: over.conn_name.clone().or_else(|| base.conn_name.clone()),
        ccdt_url: if over.conn_name.is_some() { None } else { base.ccdt_url.clone() },
        ssl: Some(SslSpec {
            enabled: ssl(over).enabled.or(ssl(base).enabled),
            key_store_ref: ssl(over).key_store_ref.or(ssl(base).key_store_ref),
            trust_store_ref: ssl(over).trust_store_ref.or(ssl(base).trust_store_ref),
            cipher_spec: ssl(over).cipher_spec.or(ssl(base).cipher_spec),
        }),
        auth: Some(AuthSpec {
            user: auth(over).user.or(auth(base).user),
            password_ref: auth(over).password_ref.or(auth(base).password_ref),
        }),
    }
}

impl TargetSpec {
    /// Applies the defaults. What comes from the profile and not from `inline` is the profile's
    /// fault.
    fn complete(self, inline: &Self) -> Result<Target, TargetError> {
        let broker = self.broker.unwrap_or_default();
        if broker == BrokerKind::IbmMq {
            self.check_for_ibm_mq(inline)?;
        }
        let queue_manager = match (self.queue_manager.filter(|name| !name.is_empty()), broker) {
            (Some(name), _) => name.into(),
            (None, BrokerKind::RabbitMq) => "/".to_owned(),
            (None, BrokerKind::IbmMq) => {
                return Err(TargetError::invalid("/target/queueManager", "is required for ibmmq"));
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
        };
        let (password_origin, reach) = (PasswordOrigin::default(), Reach::default());
        Ok(Target { endpoint, queue: self.queue, password_origin, reach })
    }

    /// IBM MQ's own limits, which are narrower than AMQP's: MQ_Q_MGR_NAME_LENGTH, MQ_Q_NAME_LENGTH
    /// and MQ_CONN_NAME_LENGTH.
    fn check_for_ibm_mq(&self, inline: &Self) -> Result<(), TargetError> {
        let is_name = |name: &str| name.len() <= 48 && name.chars().all(is_of_an_ibm_name);
        let is_short = |text: String| text.len() <= 264;
        let name_rule = "must be at most 48 letters, digits and ./_% for ibmmq";
        let members = [
            (
                "/target/queueManager",
                self.queue_manager.as_deref().is_none_or(is_name),
                name_rule,
                inline.queue_manager.is_some(),
            ),
            ("/target/queue", self.queue.as_deref().is_none_or(is_name), name_rule, inline.queue.is_some()),
            (
                "/target/connName",
                self.conn_name.clone().map(String::from).is_none_or(is_short),
                "must be at most 264 bytes long for ibmmq",
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
