//! Rules about targets by their names, so that a decision can be explained rule by rule.

use crate::target::{Target, TargetError};

/// Rule by which a caller may use a target. The rules are checked in their order, and the first one
/// that does not hold refuses the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetRule {
    /// An entry of an allow-list covers a target that no profile names.
    AllowList,
    /// A profile with `overrides: false` takes a queue, an exchange and a routing key of a request,
    /// and nothing else.
    Overrides,
    /// The queue is the profile's own or matches a pattern of it, or an entry covers the target.
    Queue,
    /// The exchange with its routing key is the profile's own or matches patterns of it, or an
    /// entry covers the target.
    Exchange,
    /// The request changes nothing in the profile's place and login, or an entry covers the target.
    Place,
    /// The credentials of the profile go to the hosts of the profile.
    Credentials,
    /// The request does not weaken the TLS of the profile.
    Tls,
    /// Each secret that the request itself names is granted for the target.
    Secrets,
}

/// Part of an entry of an allow-list in which a target may differ from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryPart {
    /// Tenants that the allow-list entry applies to.
    Tenant,
    /// Product of the broker: RabbitMQ or IBM MQ.
    Broker,
    /// Host and port, for each address of the target.
    Address,
    /// An address of a special kind, which only an entry with this very address covers.
    SpecialAddress,
    /// Virtual host of RabbitMQ, or queue manager of IBM MQ.
    QueueManager,
    /// IBM MQ channel that the allow-list entry permits.
    Channel,
    /// Queue names that the allow-list entry permits.
    Queue,
    /// Exchange and routing keys that the allow-list entry permits.
    Exchange,
    /// TLS, which the entry requires.
    Tls,
    /// Login, which IBM MQ needs unless the entry says `login=none`.
    Login,
}

/// Target of a request with its profile, and the result of each rule about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Target that was checked, allowed or not.
    pub target: Target,
    /// Rules that decide about the target, in order, each with its result.
    pub rules: Vec<(TargetRule, Result<(), TargetError>)>,
}

impl TargetRule {
    /// Rules about a target that a request names by itself.
    pub(crate) const OF_A_LIST: &'static [Self] = &[Self::AllowList, Self::Secrets];
    /// Rules about a target of a profile.
    pub(crate) const OF_A_PROFILE: &'static [Self] = &[
        Self::Overrides,
        Self::Queue,
        Self::Exchange,
        Self::Place,
        Self::Credentials,
        Self::Tls,
        Self::Secrets,
    ];

    /// Returns the name of the rule for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AllowList => "allow-list",
            Self::Overrides => "overrides",
            Self::Queue => "queue",
            Self::Exchange => "exchange",
            Self::Place => "place",
            Self::Credentials => "credentials",
            Self::Tls => "tls",
            Self::Secrets => "secrets",
        }
    }
}

impl EntryPart {
    /// Returns the sentence about a target that differs from the entry in this part.
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
