//! Rules that decide whether a caller may use a target, with names, so that a decision can be
//! explained rule by rule.

use crate::target::{Target, TargetError};

/// Rule for whether a caller may use a target. Rules are checked in order; the first that fails
/// refuses the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetRule {
    /// For a target without a profile: an allow-list entry has to cover it.
    AllowList,
    /// For a profile with `overrides: false`: the request may set only a queue, an exchange and a
    /// routing key.
    Overrides,
    /// The queue has to be the profile's own or match one of its patterns, or an allow-list entry
    /// has to cover the target.
    Queue,
    /// The exchange and its routing key have to be the profile's own or match its patterns, or an
    /// allow-list entry has to cover the target.
    Exchange,
    /// The request keeps the profile's broker, queue manager, channel, addresses and login, or an
    /// allow-list entry has to cover the target.
    Connection,
    /// The profile's credentials may go only to the profile's hosts.
    Credentials,
    /// The request must not change the TLS settings that the profile enforces.
    Tls,
    /// Each secret that the request itself names has to be granted by the allow-list for the
    /// target.
    Secrets,
}

/// Part of an allow-list entry that a target has to match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryPart {
    /// Tenants that the allow-list entry applies to.
    Tenant,
    /// Product of the broker: RabbitMQ or IBM MQ.
    Broker,
    /// Host and port of the allow-list entry, which each address of the target has to match.
    Address,
    /// Loopback, link-local, multicast or unspecified address of the target, which an entry covers
    /// only if it names this very address or a range that contains it.
    SpecialAddress,
    /// Virtual host of RabbitMQ, or queue manager of IBM MQ.
    QueueManager,
    /// IBM MQ channel that the allow-list entry permits.
    Channel,
    /// Queue names that the allow-list entry permits.
    Queue,
    /// Exchange and routing keys that the allow-list entry permits.
    Exchange,
    /// TLS on the target's connection, if the allow-list entry requires it.
    Tls,
    /// Login, which an IBM MQ target needs unless the allow-list entry has `login=none`.
    Login,
}

/// Target of a request, merged from request and profile, with the result of each rule about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Target that was checked, whether it is allowed or not.
    pub target: Target,
    /// Rules for the target in the order of checking, each with its result.
    pub rules: Vec<(TargetRule, Result<(), TargetError>)>,
}

impl TargetRule {
    /// Rules for a target that a request gives without a profile, in the order of checking.
    pub(crate) const OF_A_LIST: &'static [Self] = &[Self::AllowList, Self::Secrets];
    /// Rules for a target with a profile, in the order of checking.
    pub(crate) const OF_A_PROFILE: &'static [Self] = &[
        Self::Overrides,
        Self::Queue,
        Self::Exchange,
        Self::Connection,
        Self::Credentials,
        Self::Tls,
        Self::Secrets,
    ];

    /// Returns the description of the rule for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AllowList => "allow-list",
            Self::Overrides => "overrides",
            Self::Queue => "queue",
            Self::Exchange => "exchange",
            Self::Connection => "place",
            Self::Credentials => "credentials",
            Self::Tls => "tls",
            Self::Secrets => "secrets",
        }
    }
}

impl EntryPart {
    /// Returns the sentence that says in which way a target does not match this part of an
    /// allow-list entry.
    #[must_use]
    pub const fn difference(self) -> &'static str {
        match self {
            Self::Tenant => "it is for other tenants",
            Self::Broker => "it is for another broker",
            Self::Address => "it does not cover the host and port of every address",
            Self::SpecialAddress => "a special address needs an entry with this very address",
            Self::QueueManager => "it is for other virtual hosts or queue managers",
            Self::Channel => "it is for other channels",
            Self::Queue => "it is for other queues",
            Self::Exchange => "it is for other exchanges or routing keys",
            Self::Tls => "it requires TLS",
            Self::Login => "it requires a login",
        }
    }
}
