//! An entry of an allow-list, and the targets that it covers.

use std::net::Ipv4Addr;
use std::str::FromStr;

use wildmatch::WildMatch;

use super::options::{Options, Tenants, TlsRule};
use crate::address::Address;
use crate::exchange::Exchange;
use crate::host_pattern::HostPattern;
use crate::rules::EntryPart;
use crate::special_address::is_special_literal;
use crate::target::{BrokerKind, Target, Tls};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    broker: BrokerKind,
    host: HostPattern,
    port: Option<u16>,
    queue: WildMatch,
    options: Options,
}

impl Entry {
    /// Parses an entry of a tenant's own allow-list, which must not have the option `tenant=`.
    pub(super) fn of_its_tenant(text: &str) -> Result<Self, &'static str> {
        let mut entry = Self::read(text)?;
        if entry.options.tenants.replace(Tenants::All).is_some() {
            return Err("the list of one tenant names no tenants");
        }
        entry.options.check(entry.broker).map(|()| entry)
    }

    /// Returns the pattern for queue names of the allow-list entry.
    pub(super) fn queue(&self) -> String {
        self.queue.pattern()
    }

    /// True if the allow-list entry applies to the tenant.
    pub(super) fn is_for(&self, tenant: &str) -> bool {
        self.options.tenants.as_ref().is_none_or(|tenants| tenants.contain(tenant))
    }

    /// True if the allow-list entry permits the target's connection by its options for TLS and
    /// login.
    pub(super) fn covers_connection(&self, target: &Target) -> bool {
        self.covers_tls(target) && self.covers_login(target)
    }

    fn covers_tls(&self, target: &Target) -> bool {
        self.options.tls != Some(TlsRule::Required) || has_tls(target)
    }

    fn covers_login(&self, target: &Target) -> bool {
        self.options.needs_no_login || has_login(target)
    }

    pub(super) fn grants(&self, secret: &str, target: &Target) -> bool {
        (self.options.tls == Some(TlsRule::Optional) || has_tls(target))
            && self.options.secrets.iter().any(|pattern| pattern.matches(secret))
    }

    /// True if the allow-list entry covers the target's broker, queue manager, channel, queue and
    /// exchange. TLS, login and addresses are checked separately.
    pub(super) fn covers(&self, target: &Target) -> bool {
        self.is_about(target) && self.covers_queue(target) && self.covers_exchange(target)
    }

    fn covers_queue(&self, target: &Target) -> bool {
        target.queue.as_ref().is_none_or(|queue| self.queue.matches(queue.as_str()))
    }

    fn covers_exchange(&self, target: &Target) -> bool {
        target.exchange.as_ref().is_none_or(|exchange| self.permits(exchange))
    }

    /// True if the allow-list entry covers the target's broker, queue manager and channel.
    pub(super) fn is_about(&self, target: &Target) -> bool {
        self.broker == target.endpoint.broker
            && self.covers_queue_manager(target)
            && self.covers_channel(target)
    }

    fn covers_queue_manager(&self, target: &Target) -> bool {
        let patterns = &self.options.virtual_hosts;
        patterns.is_empty() || any(patterns, &target.endpoint.queue_manager)
    }

    fn covers_channel(&self, target: &Target) -> bool {
        let (patterns, channel) = (&self.options.channels, target.endpoint.channel.as_ref());
        patterns.is_empty() || channel.is_none_or(|channel| any(patterns, channel))
    }

    /// Returns the parts of the allow-list entry that do not match the target; empty if the entry
    /// covers the target.
    pub(super) fn differences(&self, tenant: &str, target: &Target) -> Vec<EntryPart> {
        let addresses = &target.endpoint.addresses;
        let has_addresses = !addresses.is_empty() && addresses.iter().all(|address| self.matches(address));
        let parts = [
            (EntryPart::Tenant, self.is_for(tenant)),
            (EntryPart::Broker, self.broker == target.endpoint.broker),
            (EntryPart::Address, has_addresses),
            (EntryPart::SpecialAddress, addresses.iter().all(|address| self.admits(address))),
            (EntryPart::QueueManager, self.covers_queue_manager(target)),
            (EntryPart::Channel, self.covers_channel(target)),
            (EntryPart::Queue, self.covers_queue(target)),
            (EntryPart::Exchange, self.covers_exchange(target)),
            (EntryPart::Tls, self.covers_tls(target)),
            (EntryPart::Login, self.covers_login(target)),
        ];
        parts.into_iter().filter(|(_, holds)| !holds).map(|(part, _)| part).collect()
    }

    fn permits(&self, exchange: &Exchange) -> bool {
        let Options { exchanges, routing_keys, .. } = &self.options;
        let is_routed = |pattern: &WildMatch| exchange.routing_key.is_covered_by(pattern);
        any(exchanges, &exchange.name) && (routing_keys.is_empty() || routing_keys.iter().any(is_routed))
    }

    pub(super) fn covers_address(&self, address: &Address) -> bool {
        self.matches(address) && self.admits(address)
    }

    fn matches(&self, address: &Address) -> bool {
        self.host.matches(&address.host) && self.port.is_none_or(|port| port == address.port)
    }

    /// True if the allow-list entry lists the address specifically, or the address is an ordinary
    /// one: not loopback, link-local, multicast or unspecified.
    fn admits(&self, address: &Address) -> bool {
        !is_special_literal(&address.host) || self.host.lists(&address.host)
    }

    /// True if the allow-list entry covers the address and lists its host specifically, as
    /// [`HostPattern::lists`](crate::host_pattern::HostPattern::lists) defines.
    pub(super) fn lists(&self, address: &Address) -> bool {
        self.covers_address(address) && self.host.lists(&address.host)
    }

    /// Parses an allow-list entry without checking that its options are consistent.
    fn read(text: &str) -> Result<Self, &'static str> {
        let (broker, rest) = text.split_once("://").ok_or("the broker is missing")?;
        let broker = match broker {
            "rabbitmq" => BrokerKind::RabbitMq,
            "ibmmq" => BrokerKind::IbmMq,
            _ => return Err("the broker is neither ibmmq nor rabbitmq"),
        };
        let (host, port, rest) = split_address(rest)?;
        let (queue, options) = split_options(rest);
        let port = match port {
            "*" => None,
            port => Some(port.parse().map_err(|_| "the port is neither a number nor `*`")?),
        };
        let options = Options::parse(options)?;
        if queue.is_empty() && options.exchanges.is_empty() {
            return Err("the queue must not be empty; `*` allows any");
        }
        Ok(Self { broker, host: host.parse()?, port, queue: WildMatch::new(queue), options })
    }
}

impl FromStr for Entry {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let entry = Self::read(text)?;
        entry.options.check(entry.broker).map(|()| entry)
    }
}

const fn has_tls(target: &Target) -> bool {
    matches!(target.endpoint.tls, Tls::On { .. })
}

/// True if the target has a password or a client certificate, or is RabbitMQ, which requires a
/// login. Without a password and a certificate, IBM MQ would accept the client as the channel's
/// user.
fn has_login(target: &Target) -> bool {
    let endpoint = &target.endpoint;
    let has_certificate = matches!(endpoint.tls, Tls::On { key_store_ref: Some(_), .. });
    endpoint.broker == BrokerKind::RabbitMq || endpoint.password_ref.is_some() || has_certificate
}

fn any(patterns: &[WildMatch], text: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(text))
}

/// Splits the text after `<broker>://` into host, port and the text after the next slash. A range
/// of addresses has a slash too: `10.0.0.0/8:5672/ORDERS` or `[fd00::/8]:5672/ORDERS`.
fn split_address(text: &str) -> Result<(&str, &str, &str), &'static str> {
    const NO_PORT: &str = "the port is missing";
    const NO_QUEUE: &str = "the queue is missing";
    if let Some(bracketed) = text.strip_prefix('[') {
        let (host, rest) = bracketed.split_once(']').ok_or("a bracket is not closed")?;
        let (port, rest) = rest.strip_prefix(':').ok_or(NO_PORT)?.split_once('/').ok_or(NO_QUEUE)?;
        return Ok((host, port, rest));
    }
    let (first, _) = text.split_once('/').ok_or(NO_QUEUE)?;
    let is_range = first.parse::<Ipv4Addr>().is_ok();
    let address = match text.match_indices('/').nth(usize::from(is_range)) {
        Some((end, _)) => text.get(..end).unwrap_or_default(),
        None => return Err(NO_PORT),
    };
    let rest = text.get(address.len() + 1..).unwrap_or_default();
    let (host, port) = address.rsplit_once(':').ok_or(NO_PORT)?;
    Ok((host, port, rest))
}

/// Splits the end of an allow-list entry into its queue pattern and its options. `?` separates the
/// two, and is also a wildcard in queue names. So the options begin after the first `?` that is
/// followed by a name and `=`. A queue pattern cannot contain such a sequence.
fn split_options(text: &str) -> (&str, &str) {
    let marks = text.match_indices('?').map(|(place, _)| place);
    let is_option = |rest: &str| {
        let name = rest.split_once('=').map_or("", |(name, _)| name);
        !name.is_empty() && !name.contains('?')
    };
    let mut splits = marks.filter_map(|place| Some((text.get(..place)?, text.get(place + 1..)?)));
    splits.find(|(_, rest)| is_option(rest)).unwrap_or((text, ""))
}
