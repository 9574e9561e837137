//! Limits that apply to one request.

use std::fmt::{self, Display};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use access::{LimitedTarget, Rate, TargetLimits};

use crate::limits::gcra::Pace;
use crate::limits::share::Share;

/// Quantity that a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// The limit counts requests.
    Requests,
    /// The limit counts messages.
    Messages,
    /// The limit counts bytes of messages.
    Bytes,
}

/// Cost of a request beside itself. The request always counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Number of messages that the request moves.
    pub messages: u64,
    /// Bytes of the messages that the request moves.
    pub bytes: u64,
}

/// Limits that apply to one request.
#[derive(Clone, Debug, Default)]
pub struct Policies(pub(crate) Vec<Arc<Policy>>);

/// Limit, and the environment's share of it.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) scope: Scope,
    pub(crate) unit: Unit,
    pub(crate) rate: Rate,
    /// Partition key of the bucket's item in the table of limits.
    pub(crate) pk: String,
    pub(crate) share: Arc<Mutex<Share>>,
}

/// Subject of a limit, within its tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Tenant,
    Profile(String),
    QueueManager(String),
}

impl Unit {
    /// Returns the name of the limited unit.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Messages => "messages",
            Self::Bytes => "bytes",
        }
    }

    /// Returns the name of a target's limit of this unit, as `RateLimit-Policy` and the member
    /// `violated-policies` of a problem have it.
    pub(crate) const fn policy_of_target(self) -> &'static str {
        match self {
            Self::Requests => "target",
            Self::Messages => "target-messages",
            Self::Bytes => "target-bytes",
        }
    }

    /// Returns how many units of this kind a request costs.
    pub(crate) const fn of(self, cost: Cost) -> u64 {
        match self {
            Self::Requests => 1,
            Self::Messages => cost.messages,
            Self::Bytes => cost.bytes,
        }
    }
}

impl Policies {
    /// True if messages or bytes are limited, so that a request's volume matters.
    #[must_use]
    pub fn count_volume(&self) -> bool {
        self.0.iter().any(|policy| policy.unit != Unit::Requests)
    }

    /// Returns the limits that apply to the request's target, the defaults among them.
    #[must_use]
    pub fn of_target(&self) -> TargetLimits {
        let mut limits = TargetLimits::default();
        for policy in self.0.iter().filter(|policy| policy.scope != Scope::Tenant) {
            let limit = match policy.unit {
                Unit::Requests => &mut limits.requests,
                Unit::Messages => &mut limits.messages,
                Unit::Bytes => &mut limits.bytes,
            };
            *limit = Some(policy.rate);
        }
        limits
    }
}

impl Policy {
    /// Returns the name of the limit for a client.
    pub(crate) const fn name(&self) -> &'static str {
        match self.scope {
            Scope::Tenant => "tenant",
            Scope::Profile(_) | Scope::QueueManager(_) => self.unit.policy_of_target(),
        }
    }

    pub(crate) const fn pace(&self) -> Pace {
        Pace(self.rate)
    }

    pub(crate) fn share(&self) -> MutexGuard<'_, Share> {
        self.share.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Scope {
    /// Returns the subject of a target's limits.
    pub(crate) fn of(target: &LimitedTarget<'_>) -> Self {
        match target.target_ref {
            Some(name) => Self::Profile(name.to_owned()),
            None => Self::QueueManager(target.queue_manager.to_owned()),
        }
    }

    /// Returns the key of a bucket's item. No tenant's id has a `#`, and nothing follows the name
    /// of a target, so that no bucket is another's.
    pub(crate) fn pk(&self, tenant: &str, unit: Unit) -> String {
        let unit = unit.as_str();
        match self {
            Self::Tenant => format!("{tenant}#{unit}"),
            Self::Profile(name) => format!("{tenant}#{unit}#target#{name}"),
            Self::QueueManager(name) => format!("{tenant}#{unit}#queueManager#{name}"),
        }
    }
}

impl Display for Scope {
    /// Writes the limit's place in a tenant's limits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tenant => f.write_str("tenant"),
            Self::Profile(name) => write!(f, "targets/{name}"),
            Self::QueueManager(name) => write!(f, "queueManagers/{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bucket_is_another_s() {
        let scopes = [
            Scope::Tenant,
            Scope::Profile("QM1".to_owned()),
            Scope::QueueManager("QM1".to_owned()),
            Scope::QueueManager("QM1#messages".to_owned()),
        ];
        let mut keys = Vec::new();
        for unit in [Unit::Requests, Unit::Messages, Unit::Bytes] {
            keys.extend(scopes.iter().map(|scope| scope.pk("acme", unit)));
        }
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count, "{keys:?}");
    }
}
