//! Limits that apply to one request.

use std::fmt::{self, Display};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use access::{LimitedTarget, Rate, TargetLimits};

use crate::limits::gcra::Pace;
use crate::limits::share::Share;

/// Quantity that a rate limit counts.
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

/// Messages and bytes of a request. The request itself always costs one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Number of messages that the request puts, gets or moves.
    pub messages: u64,
    /// Bytes of the messages that the request puts, gets or moves.
    pub bytes: u64,
}

/// Rate limits that apply to one request; empty if nothing is limited.
#[derive(Clone, Debug, Default)]
pub struct Policies(pub(crate) Vec<Arc<Policy>>);

/// Rate limit, with the units (for example requests) that this execution environment has taken from
/// its bucket in advance.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) scope: Scope,
    pub(crate) unit: Unit,
    pub(crate) rate: Rate,
    /// Partition key of the bucket's item in the table of rate limits.
    pub(crate) pk: String,
    pub(crate) share: Arc<Mutex<Share>>,
}

/// Subject of a rate limit: the tenant, one of its target profiles, or a queue manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Tenant,
    Profile(String),
    QueueManager(String),
}

impl Unit {
    /// Returns the name of the quantity, such as `requests`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Messages => "messages",
            Self::Bytes => "bytes",
        }
    }

    /// Returns the name that clients see for a target's limit of this unit, in `RateLimit-Policy`
    /// and `violated-policies`.
    pub(crate) const fn policy_of_target(self) -> &'static str {
        match self {
            Self::Requests => "target",
            Self::Messages => "target-messages",
            Self::Bytes => "target-bytes",
        }
    }

    /// Returns the number of units that a request with this cost takes.
    pub(crate) const fn of(self, cost: Cost) -> u64 {
        match self {
            Self::Requests => 1,
            Self::Messages => cost.messages,
            Self::Bytes => cost.bytes,
        }
    }
}

impl Policies {
    /// Returns whether a limit counts messages or bytes, so that the caller must determine those of
    /// the request.
    #[must_use]
    pub fn count_volume(&self) -> bool {
        self.0.iter().any(|policy| policy.unit != Unit::Requests)
    }

    /// Returns the limits that apply to the request's target, including the deployment's defaults.
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
    /// Returns the name that clients see for the limit, such as `tenant` or `target-bytes`.
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
    /// Returns the subject for the limits of a target: its profile, or its queue manager.
    pub(crate) fn of(target: &LimitedTarget<'_>) -> Self {
        match target.target_ref {
            Some(name) => Self::Profile(name.to_owned()),
            None => Self::QueueManager(target.queue_manager.to_owned()),
        }
    }

    /// Returns the partition key of a bucket's item. It is unambiguous, because tenant ids contain
    /// no `#`, and the name of the target is its last part.
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
    /// Writes the subject as the API's route `/limits` names it: `tenant`, `targets/<name>` or
    /// `queueManagers/<name>`.
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
