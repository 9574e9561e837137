//! Targets as requests and profiles write them, with the merge of the two and the defaults.

use serde::{Deserialize, Serialize};

use super::{BrokerKind, Endpoint, Target, TargetError, Tls};
use crate::address::{Address, ConnName};
use crate::exchange::{Exchange, ExchangeName, RoutingKey};
use crate::key_repository::{self, KeyRepositoryAccess};
use crate::names::{
    CcdtUrl, CertificateLabel, ChannelName, CipherSpec, QueueManagerName, QueueName, UserName,
    is_of_an_ibm_name,
};
use crate::secret_ref::SecretRef;
use crate::special_address::SpecialAddresses;
use crate::store_ref::StoreRef;

/// Target as a request or a profile writes it. Every member is optional, because the request is
/// merged over the profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "`TargetFull` in openapi.yaml describes each member")]
pub struct TargetSpec {
    pub broker: Option<BrokerKind>,
    pub queue_manager: Option<QueueManagerName>,
    pub queue: Option<QueueName>,
    /// Exchange to publish to, in place of a queue.
    pub exchange: Option<ExchangeName>,
    pub routing_key: Option<RoutingKey>,
    pub channel: Option<ChannelName>,
    pub conn_name: Option<ConnName>,
    pub ccdt_url: Option<CcdtUrl>,
    pub ssl: Option<SslSpec>,
    pub auth: Option<AuthSpec>,
}

/// TLS settings of a [`TargetSpec`] (its member `ssl`).
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

/// Login of a [`TargetSpec`] (its member `auth`): a user, and the reference to the password.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "`TargetAuth` in openapi.yaml describes each member")]
pub struct AuthSpec {
    pub user: Option<UserName>,
    pub password_ref: Option<SecretRef>,
}

/// Merges the members of a request over those of its profile.
pub(super) fn merge(base: &TargetSpec, over: &TargetSpec) -> TargetSpec {
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
    /// Applies the defaults to the merged target. A fault in a member that is not in `inline` (the
    /// request's own members) is reported as a fault of the profile.
    pub(super) fn complete(self, inline: &Self) -> Result<Target, TargetError> {
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
                opening: Box::new(KeyRepositoryAccess {
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

    /// Returns the exchange with its routing key; `None` for a target without one. A target cannot
    /// have both a queue and an exchange.
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

    /// Checks the lengths that IBM MQ limits more than AMQP does: MQ_Q_MGR_NAME_LENGTH,
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
