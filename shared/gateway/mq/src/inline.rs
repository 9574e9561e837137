//! The allow-list for inline targets.

use std::collections::BTreeSet;
use std::str::FromStr;

use wildmatch::WildMatch;

use crate::address::Address;
use crate::exchange::Exchange;
use crate::host_pattern::HostPattern;
use crate::reach::ByAddress;
use crate::secret_ref::SecretRef;
use crate::target::{BrokerKind, Target, Tls};

/// Entries separated by white space, each `<broker>://<host>:<port>/<queue>[?<option>&<option>…]`:
/// `rabbitmq://*.mq.example.com:5671/ORDERS.*?tenant=1…,2…&vhost=/&secrets=secret://mq/orders-*`.
///
/// In a host `*` and `?` stay within one label, and `**` goes across labels; elsewhere `*` is any
/// text. The port may be `*`. The options, in any order:
///
/// | option | the entry holds |
/// |---|---|
/// | `tenant=` | for these tenants, or with `*` for all; without it for all |
/// | `vhost=` | for these virtual hosts (or queue managers), with `*` and `?`; without it for any |
/// | `tls=` | `required`: only for connections with TLS; `optional`: also without |
/// | `secrets=` | also for requests that name these secrets, with `*` and `?` |
/// | `exchanges=` | also for these exchanges, with `*` and `?`; without it for queues alone |
/// | `routingKeys=` | for these routing keys of an exchange, with `*` and `?`; without it for any |
///
/// The queue may be left out where exchanges are given: `rabbitmq://host:5671/?exchanges=orders`.
/// An entry with secrets has to name its tenants. Its secrets go out over TLS only, unless it says
/// `tls=optional`. Empty allows nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InlineTargets(Vec<Entry>);

/// Targets that the list allows one tenant.
#[derive(Clone, Copy, Debug)]
pub struct AllowedTargets<'a> {
    list: &'a InlineTargets,
    tenant: &'a str,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    broker: BrokerKind,
    host: HostPattern,
    port: Option<u16>,
    queue: WildMatch,
    tenants: Tenants,
    /// Virtual hosts that the entry covers; empty is any.
    virtual_hosts: Vec<WildMatch>,
    tls: Option<TlsRule>,
    secrets: Vec<WildMatch>,
    exchanges: Vec<WildMatch>,
    /// Routing keys that the entry covers; empty is any.
    routing_keys: Vec<WildMatch>,
}

#[derive(Clone, Debug, PartialEq)]
enum Tenants {
    All,
    Only(BTreeSet<String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TlsRule {
    Required,
    Optional,
}

/// Error of an entry of the allow-list that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{entry}` is not <broker>://<host>:<port>/<queue>[?<option>&…]: {problem}")]
pub struct InlineTargetsError {
    entry: String,
    problem: &'static str,
}

impl InlineTargets {
    /// Returns the part of the list that holds for `tenant`.
    #[must_use]
    pub const fn of<'a>(&'a self, tenant: &'a str) -> AllowedTargets<'a> {
        AllowedTargets { list: self, tenant }
    }
}

impl AllowedTargets<'_> {
    /// True if `target` is allowed at every one of its addresses. Without a queue and an exchange
    /// it stands for a connection alone.
    pub(crate) fn cover(&self, target: &Target) -> bool {
        self.everywhere(target, |entry| entry.covers_connection(target))
    }

    /// True if `secret` may be sent to every one of the addresses of `target`.
    pub(crate) fn grant(&self, secret: &SecretRef, target: &Target) -> bool {
        let secret = secret.to_string();
        self.everywhere(target, |entry| entry.grants(&secret, target))
    }

    /// Returns the queues that are covered at each of the addresses of `target`, apart from its own
    /// queue.
    pub(crate) fn covered_queues(&self, target: &Target) -> ByAddress {
        self.queues(target, |entry| entry.covers_connection(target))
    }

    /// Returns the queues with which `secret` may be sent to each of the addresses of `target`.
    pub(crate) fn granted_queues(&self, secret: &SecretRef, target: &Target) -> ByAddress {
        let secret = secret.to_string();
        self.queues(target, |entry| entry.grants(&secret, target))
    }

    fn queues(&self, target: &Target, also: impl Fn(&Entry) -> bool) -> ByAddress {
        let usable: Vec<_> =
            self.list.0.iter().filter(|entry| entry.is_about(self.tenant, target) && also(entry)).collect();
        let of_address = |address: &Address| {
            let entries = usable.iter().filter(|entry| entry.covers_address(&address.host, address.port));
            entries.map(|entry| entry.queue.pattern()).collect()
        };
        target.endpoint.addresses.iter().map(of_address).collect()
    }

    /// True if each address has an entry that covers it and for which `also` holds. A target
    /// without addresses is covered by no entry: its client finds its hosts itself.
    fn everywhere(&self, target: &Target, also: impl Fn(&Entry) -> bool) -> bool {
        let addresses = &target.endpoint.addresses;
        let entries = self.list.0.iter().filter(|entry| entry.covers(self.tenant, target) && also(entry));
        let usable: Vec<_> = entries.collect();
        let is_covered = |host: &str, port| usable.iter().any(|entry| entry.covers_address(host, port));
        !addresses.is_empty() && addresses.iter().all(|address| is_covered(&address.host, address.port))
    }
}

const fn has_tls(target: &Target) -> bool {
    matches!(target.endpoint.tls, Tls::On { .. })
}

impl Entry {
    fn covers_connection(&self, target: &Target) -> bool {
        self.tls != Some(TlsRule::Required) || has_tls(target)
    }

    fn grants(&self, secret: &str, target: &Target) -> bool {
        (self.tls == Some(TlsRule::Optional) || has_tls(target))
            && self.secrets.iter().any(|pattern| pattern.matches(secret))
    }

    /// True if the entry covers the target, apart from its addresses.
    fn covers(&self, tenant: &str, target: &Target) -> bool {
        self.is_about(tenant, target)
            && target.queue.as_ref().is_none_or(|queue| self.queue.matches(queue.as_str()))
            && target.exchange.as_ref().is_none_or(|exchange| self.covers_exchange(exchange))
    }

    /// True if the entry covers the target, apart from its addresses, its queue and its exchange.
    fn is_about(&self, tenant: &str, target: &Target) -> bool {
        let endpoint = &target.endpoint;
        let is_for_tenant = match &self.tenants {
            Tenants::All => true,
            Tenants::Only(tenants) => tenants.contains(tenant),
        };
        is_for_tenant
            && self.broker == endpoint.broker
            && (self.virtual_hosts.is_empty()
                || self.virtual_hosts.iter().any(|pattern| pattern.matches(&endpoint.queue_manager)))
    }

    fn covers_exchange(&self, exchange: &Exchange) -> bool {
        let is_named = |patterns: &[WildMatch]| patterns.iter().any(|name| name.matches(&exchange.name));
        let is_routed = |pattern: &WildMatch| exchange.routing_key.is_covered_by(pattern);
        is_named(&self.exchanges) && (self.routing_keys.is_empty() || self.routing_keys.iter().any(is_routed))
    }

    fn covers_address(&self, host: &str, port: u16) -> bool {
        self.host.matches(host) && self.port.is_none_or(|expected| expected == port)
    }
}

impl FromStr for InlineTargets {
    type Err = InlineTargetsError;

    fn from_str(text: &str) -> Result<Self, InlineTargetsError> {
        text.split(|c: char| c.is_whitespace() || c == ';')
            .filter(|entry| !entry.is_empty())
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
        let (address, rest) = rest.split_once('/').ok_or("the queue is missing")?;
        let (queue, options) = split_options(rest);
        let (host, port) = address.rsplit_once(':').ok_or("the port is missing")?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = match port {
            "*" => None,
            port => Some(port.parse().map_err(|_| "the port is neither a number nor `*`")?),
        };
        let options = Options::parse(options)?;
        if queue.is_empty() && options.exchanges.is_empty() {
            return Err("the queue must not be empty; `*` allows any");
        }
        Ok(Self {
            broker,
            host: host.parse()?,
            port,
            queue: WildMatch::new(queue),
            tenants: options.tenants.unwrap_or(Tenants::All),
            virtual_hosts: options.virtual_hosts,
            tls: options.tls,
            secrets: options.secrets,
            exchanges: options.exchanges,
            routing_keys: options.routing_keys,
        })
    }
}

/// Splits an entry into the queue and the options after it. A `?` may also stand for a character of
/// the queue; the one before the options has a name and `=` behind it, which no queue of the list
/// has.
fn split_options(text: &str) -> (&str, &str) {
    let marks = text.match_indices('?').map(|(place, _)| place);
    let is_option = |rest: &str| {
        let name = rest.split_once('=').map_or("", |(name, _)| name);
        !name.is_empty() && !name.contains('?')
    };
    let mut splits = marks.filter_map(|place| Some((text.get(..place)?, text.get(place + 1..)?)));
    splits.find(|(_, rest)| is_option(rest)).unwrap_or((text, ""))
}

#[derive(Default)]
struct Options {
    tenants: Option<Tenants>,
    virtual_hosts: Vec<WildMatch>,
    tls: Option<TlsRule>,
    secrets: Vec<WildMatch>,
    exchanges: Vec<WildMatch>,
    routing_keys: Vec<WildMatch>,
}

impl Options {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let mut options = Self::default();
        let mut names = BTreeSet::new();
        for option in text.split('&').filter(|_| !text.is_empty()) {
            let (name, value) = option.split_once('=').ok_or("an option is name=value")?;
            if !names.insert(name) {
                return Err("an option is given twice");
            }
            let values = || value.split(',').map(WildMatch::new).collect();
            if value.split(',').any(str::is_empty) {
                return Err("an option's value is empty");
            }
            match name {
                "tenant" if value == "*" => options.tenants = Some(Tenants::All),
                "tenant" if value.contains('*') => {
                    return Err("a tenant is named in full, or all are by `*`");
                }
                "tenant" => {
                    options.tenants = Some(Tenants::Only(value.split(',').map(str::to_owned).collect()));
                }
                "vhost" => options.virtual_hosts = values(),
                "secrets" => options.secrets = values(),
                "exchanges" => options.exchanges = values(),
                "routingKeys" => options.routing_keys = values(),
                "tls" => {
                    options.tls = Some(match value {
                        "required" => TlsRule::Required,
                        "optional" => TlsRule::Optional,
                        _ => return Err("tls is neither required nor optional"),
                    });
                }
                _ => {
                    return Err(
                        "the options are tenant=, vhost=, tls=, secrets=, exchanges= and routingKeys=",
                    );
                }
            }
        }
        if options.exchanges.is_empty() && !options.routing_keys.is_empty() {
            return Err("routingKeys= goes with exchanges=");
        }
        if !options.secrets.is_empty() && options.tenants.is_none() {
            return Err("an entry with secrets= names its tenants (tenant=…), or all of them (tenant=*)");
        }
        Ok(options)
    }
}
