//! Allow-lists for inline targets, the targets that a request itself describes: the deployment's
//! list, and beside it a tenant's own list.

mod entry;
mod options;

use std::str::FromStr;

use crate::address::Address;
use crate::allowed_queues::ByAddress;
use crate::rules::EntryPart;
use crate::secret_ref::SecretRef;
use crate::target::Target;
use entry::Entry;

/// Allow-list: the targets that requests may use without a profile that allows them.
///
/// The list as text has entries separated by white space or semicolons, each
/// `<broker>://<host>:<port>/<queue>[?<option>&<option>…]`:
/// `rabbitmq://*.mq.example.com:5671/ORDERS.*?tenant=1…,2…&vhost=/&secrets=secret://mq/orders-*`.
///
/// In a host `*` and `?` stay within one label, and `**` goes across labels; elsewhere `*` is any
/// text. A host may also be a range of addresses, such as `10.0.0.0/8`. The port may be `*`. The
/// options, in any order:
///
/// | option | the entry applies |
/// |---|---|
/// | `tenant=` | for these tenants, or with `*` for all; without it for all |
/// | `vhost=` | for these virtual hosts (or queue managers), with `*` and `?`; without it for any |
/// | `channel=` | for these channels of IBM MQ, with `*` and `?`; every entry of IBM MQ has it |
/// | `login=` | `none`: also for a request to IBM MQ without a login |
/// | `tls=` | `required`: only for connections with TLS; `optional`: also without |
/// | `secrets=` | also for requests that name these secrets, with `*` and `?` |
/// | `exchanges=` | also for these exchanges, with `*` and `?`; without it for queues alone |
/// | `routingKeys=` | for these routing keys of an exchange, with `*` and `?`; without it for any |
///
/// The queue may be left out where exchanges are given: `rabbitmq://host:5671/?exchanges=orders`.
/// An entry with secrets has to name its tenants. Its secrets go out over TLS only, unless it says
/// `tls=optional`. A loopback, link-local, multicast or unspecified address is covered only by an
/// entry with that address, or with a range of addresses. An empty list allows nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InlineTargets(Vec<Entry>);

/// Allow-list of one tenant: the deployment's list and the tenant's own list.
#[derive(Clone, Copy, Debug)]
pub struct AllowedTargets<'a> {
    list: &'a InlineTargets,
    own: Option<&'a InlineTargets>,
    tenant: &'a str,
}

/// Error of an allow-list entry that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{entry}` is not <broker>://<host>:<port>/<queue>[?<option>&…]: {problem}")]
pub struct InlineTargetsError {
    entry: String,
    problem: &'static str,
}

impl InlineTargets {
    /// Parses a tenant's own allow-list, whose entries must not have the option `tenant=`.
    ///
    /// # Errors
    /// If an entry cannot be parsed. The error names the first such entry.
    pub fn of_one_tenant<S: AsRef<str>>(entries: &[S]) -> Result<Self, InlineTargetsError> {
        let read = |entry: &str| {
            let one =
                if entry.contains(is_separator) { Err("it has a space or a semicolon") } else { Ok(entry) };
            one.and_then(Entry::of_its_tenant)
                .map_err(|problem| InlineTargetsError { entry: entry.to_owned(), problem })
        };
        entries.iter().map(|entry| read(entry.as_ref())).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the entries of the deployment's list that apply to `tenant`.
    #[must_use]
    pub const fn of<'a>(&'a self, tenant: &'a str) -> AllowedTargets<'a> {
        AllowedTargets { list: self, own: None, tenant }
    }
}

impl<'a> AllowedTargets<'a> {
    /// Adds the tenant's own allow-list to the deployment's list.
    #[must_use]
    pub const fn and(self, own: &'a InlineTargets) -> Self {
        Self { own: Some(own), ..self }
    }

    /// Returns, for each entry, the parts that do not match `target`: first the deployment's
    /// entries, then the tenant's own. An entry that covers the target at all of its addresses has
    /// an empty list.
    #[must_use]
    pub fn differences(&self, target: &Target) -> Vec<Vec<EntryPart>> {
        let entries = self.list.0.iter().chain(self.own.into_iter().flat_map(|own| &own.0));
        entries.map(|entry| entry.differences(self.tenant, target)).collect()
    }

    /// True if each address of `target` has an entry that covers the target at this address. For a
    /// target without queue and exchange, only the connection is checked.
    pub(crate) fn cover(&self, target: &Target) -> bool {
        self.everywhere(target, |entry| entry.covers_connection(target))
    }

    /// True if each address of `target` has an entry that covers the target and grants `secret`.
    pub(crate) fn grant(&self, secret: &SecretRef, target: &Target) -> bool {
        let secret = secret.to_string();
        self.everywhere(target, |entry| entry.grants(&secret, target))
    }

    /// True if an entry that covers `target` lists the host of `address` specifically, not by a
    /// wildcard.
    pub(crate) fn list(&self, target: &Target, address: &Address) -> bool {
        let mut entries = self.entries(|entry| entry.covers(target) && entry.covers_connection(target));
        entries.any(|entry| entry.lists(address))
    }

    /// Returns, for each address of `target`, the queue patterns of the entries that cover the
    /// target there. The target's own queue does not matter.
    pub(crate) fn covered_queues(&self, target: &Target) -> ByAddress {
        self.queues(target, |entry| entry.covers_connection(target))
    }

    /// Returns, for each address of `target`, the queue patterns of the entries that grant `secret`
    /// to the target there.
    pub(crate) fn granted_queues(&self, secret: &SecretRef, target: &Target) -> ByAddress {
        let secret = secret.to_string();
        self.queues(target, |entry| entry.grants(&secret, target))
    }

    fn queues(&self, target: &Target, also: impl Fn(&Entry) -> bool) -> ByAddress {
        let usable: Vec<_> = self.entries(|entry| entry.is_about(target) && also(entry)).collect();
        let of_address = |address: &Address| {
            let entries = usable.iter().filter(|entry| entry.covers_address(address));
            entries.map(|entry| entry.queue()).collect()
        };
        target.endpoint.addresses.iter().map(of_address).collect()
    }

    /// True if each address of the target has an entry that covers it and fulfils the condition
    /// `also`. False for a target without addresses, whose client takes the hosts from IBM MQ's
    /// client channel definition table.
    fn everywhere(&self, target: &Target, also: impl Fn(&Entry) -> bool) -> bool {
        let addresses = &target.endpoint.addresses;
        let usable: Vec<_> = self.entries(|entry| entry.covers(target) && also(entry)).collect();
        let is_covered = |address: &Address| usable.iter().any(|entry| entry.covers_address(address));
        !addresses.is_empty() && addresses.iter().all(is_covered)
    }

    /// Returns the entries of both lists that apply to the tenant and fulfil the condition `also`.
    fn entries(&self, also: impl Fn(&Entry) -> bool) -> impl Iterator<Item = &'a Entry> {
        let Self { list, own, tenant } = *self;
        let of_list = list.0.iter().filter(move |entry| entry.is_for(tenant));
        of_list.chain(own.into_iter().flat_map(|own| &own.0)).filter(move |&entry| also(entry))
    }
}

impl FromStr for InlineTargets {
    type Err = InlineTargetsError;

    fn from_str(text: &str) -> Result<Self, InlineTargetsError> {
        text.split(is_separator)
            .filter(|entry| !entry.is_empty())
            .map(|entry| {
                entry.parse().map_err(|problem| InlineTargetsError { entry: entry.to_owned(), problem })
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

fn is_separator(character: char) -> bool {
    character.is_whitespace() || character == ';'
}
