//! Profiles: targets that the deployment stores under a name, with the changes that requests may
//! make to them.

use serde::{Deserialize, Serialize};
use wildmatch::WildMatch;

use crate::address::{Address, ConnName};
use crate::command::BackoutRule;
use crate::connection::{ConnectionLimits, IdleRule};
use crate::exchange::Exchange;
use crate::names::QueueName;
use crate::target::TargetSpec;

/// Target that the server stores under a name. Its patterns (`*`, `?`) cover further queues,
/// exchanges and routing keys that a request may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Profile {
    /// Members of the target, which apply where a request leaves them out.
    pub target: TargetSpec,
    /// Patterns that match the names of the queues that a request may use besides the target's own
    /// queue.
    #[serde(default)]
    pub queues: Vec<String>,
    /// Patterns that match the names of the exchanges that a request may use besides the target's
    /// own exchange.
    #[serde(default)]
    pub exchanges: Vec<String>,
    /// Patterns that match the routing keys that a request may use on the exchanges of this
    /// profile. The target's own exchange also accepts the target's own routing key; without a
    /// pattern, no other key is allowed.
    #[serde(default)]
    pub routing_keys: Vec<String>,
    /// True if a request may override other members of the target, provided that the allow-list
    /// covers the result. False if it may only name a queue, an exchange and a routing key that the
    /// profile covers.
    #[serde(default = "overrides")]
    pub overrides: bool,
    /// Treatment of messages whose backout count has reached their queue's threshold.
    #[serde(default)]
    pub backout: BackoutRule,
    /// Rule that decides whether an open connection is kept or closed when the request that used it
    /// ends.
    #[serde(default)]
    pub idle_connections: IdleRule,
    /// Time limits for connections to the profile's target.
    #[serde(default)]
    pub connection: ConnectionLimits,
}

const fn overrides() -> bool {
    true
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            target: TargetSpec::default(),
            queues: Vec::new(),
            exchanges: Vec::new(),
            routing_keys: Vec::new(),
            overrides: overrides(),
            backout: BackoutRule::default(),
            idle_connections: IdleRule::default(),
            connection: ConnectionLimits::default(),
        }
    }
}

impl Profile {
    pub(crate) fn covers_queue(&self, queue: &QueueName) -> bool {
        self.target.queue.as_ref() == Some(queue)
            || self.queues.iter().any(|pattern| WildMatch::new(pattern).matches(queue.as_str()))
    }

    /// True if both the exchange and the routing key are the profile's own, or match its patterns.
    pub(crate) fn covers_exchange(&self, exchange: &Exchange) -> bool {
        let name = exchange.name.as_str();
        let is_own = self.target.exchange.as_ref() == Some(&exchange.name);
        let has_own_key = self.target.routing_key.clone().unwrap_or_default() == exchange.routing_key;
        (is_own || self.exchanges.iter().any(|pattern| WildMatch::new(pattern).matches(name)))
            && ((is_own && has_own_key)
                || self
                    .routing_keys
                    .iter()
                    .any(|pattern| exchange.routing_key.is_covered_by(&WildMatch::new(pattern))))
    }

    pub(crate) fn covers_addresses(&self, addresses: &[Address]) -> bool {
        let own = self.target.conn_name.as_ref().map_or(&[][..], ConnName::addresses);
        addresses.iter().all(|address| own.contains(address))
    }
}
