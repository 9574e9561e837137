//! The allow-list of what inline targets may name.

use std::str::FromStr;

use wildmatch::WildMatch;

use crate::names::QueueName;
use crate::target::{Address, BrokerKind, SecretRef};

/// Entries separated by white space, each `<broker>://<host>:<port>/<queue>[?secrets=<reference>,…]`, where host,
/// queue and references may hold `*` and `?`, and the port may be `*`:
/// `rabbitmq://*.mq.example.com:5671/ORDERS.*?secrets=secret://mq/orders-*`. Empty allows nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InlineTargets(Vec<Entry>);

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    broker: BrokerKind,
    host: WildMatch,
    port: Option<u16>,
    queue: WildMatch,
    secrets: Vec<WildMatch>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{entry}` is not <broker>://<host>:<port>/<queue>[?secrets=…]: {problem}")]
pub struct InlineTargetsError {
    entry: String,
    problem: &'static str,
}

impl InlineTargets {
    /// Whether a target at every one of `addresses` is allowed; no queue stands for a connection alone.
    pub fn cover(&self, broker: BrokerKind, addresses: &[Address], queue: Option<&QueueName>) -> bool {
        self.all(addresses, |address| self.0.iter().any(|entry| entry.covers(broker, address, queue)))
    }

    /// Whether `secret` may be sent to every one of `addresses`.
    pub fn grant(
        &self,
        secret: &SecretRef,
        broker: BrokerKind,
        addresses: &[Address],
        queue: Option<&QueueName>,
    ) -> bool {
        let secret = secret.to_string();
        self.all(addresses, |address| {
            self.0.iter().any(|entry| {
                entry.covers(broker, address, queue)
                    && entry.secrets.iter().any(|pattern| pattern.matches(&secret))
            })
        })
    }

    fn all(&self, addresses: &[Address], covers: impl Fn(&Address) -> bool) -> bool {
        !addresses.is_empty() && addresses.iter().all(covers)
    }
}

impl Entry {
    fn covers(&self, broker: BrokerKind, address: &Address, queue: Option<&QueueName>) -> bool {
        self.broker == broker
            && self.host.matches(&address.host)
            && self.port.is_none_or(|port| port == address.port)
            && queue.is_none_or(|queue| self.queue.matches(queue.as_str()))
    }
}

impl FromStr for InlineTargets {
    type Err = InlineTargetsError;

    fn from_str(text: &str) -> Result<Self, InlineTargetsError> {
        text.split_whitespace()
            .map(|entry| {
                entry.parse().map_err(|problem| InlineTargetsError { entry: entry.to_owned(), problem })
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl FromStr for Entry {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (broker, rest) = text.split_once("://").ok_or("the broker is missing")?;
        let broker = match broker {
            "rabbitmq" => BrokerKind::RabbitMq,
            "ibmmq" => BrokerKind::IbmMq,
            _ => return Err("the broker is neither ibmmq nor rabbitmq"),
        };
        let (rest, secrets) = match rest.split_once("?secrets=") {
            Some((rest, secrets)) => (rest, Some(secrets)),
            None => (rest, None),
        };
        let (address, queue) = rest.split_once('/').ok_or("the queue is missing")?;
        let (host, port) = address.rsplit_once(':').ok_or("the port is missing")?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if queue.contains('=') {
            return Err("the only option is secrets=");
        }
        if host.is_empty() || queue.is_empty() {
            return Err("host and queue must not be empty; `*` allows any");
        }
        let port = match port {
            "*" => None,
            port => Some(port.parse().map_err(|_| "the port is neither a number nor `*`")?),
        };
        let secrets = secrets.into_iter().flat_map(|list| list.split(',')).map(WildMatch::new).collect();
        Ok(Self {
            broker,
            host: WildMatch::new(&host.to_ascii_lowercase()),
            port,
            queue: WildMatch::new(queue),
            secrets,
        })
    }
}
