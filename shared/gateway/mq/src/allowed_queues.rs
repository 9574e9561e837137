//! Queues that a caller may use besides the queue of its target, at the same broker. A move, for
//! example, finds the names of its destination queues in the messages.

use serde::{Deserialize, Serialize};
use wildmatch::WildMatch;

use crate::names::QueueName;

/// Queue patterns of an allow-list: one list for each address of a target, with the patterns that
/// apply to this address.
pub(crate) type ByAddress = Vec<Vec<String>>;

/// Queues that a caller may name instead of the target's own queue, with the rest of the target
/// unchanged. The default is no queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllowedQueues {
    /// Queue of the target's profile. `None` if there is none, or if the request changes the
    /// profile's broker, queue manager, channel, addresses or login. If it changes one of them,
    /// `own` (the profile's queue patterns) is empty, too.
    pub(crate) own_queue: Option<QueueName>,
    pub(crate) own: Vec<String>,
    /// Queue patterns of the allow-list entries that cover the target, for each of its addresses.
    pub(crate) covered: ByAddress,
    /// Queue patterns of the allow-list entries that grant a secret to the target: one element for
    /// each secret that the request names.
    pub(crate) granted: Vec<ByAddress>,
}

impl AllowedQueues {
    /// True if the caller may use no queue besides the target's own.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.own_queue.is_none() && self.own.is_empty() && self.covered.iter().all(Vec::is_empty)
    }

    /// True if the caller may use the target with this queue in place of the target's own.
    #[must_use]
    pub fn contains(&self, queue: &QueueName) -> bool {
        let is_own = self.own_queue.as_ref() == Some(queue) || any(&self.own, queue);
        (is_own || everywhere(&self.covered, queue))
            && self.granted.iter().all(|by_address| everywhere(by_address, queue))
    }
}

fn any(patterns: &[String], queue: &QueueName) -> bool {
    patterns.iter().any(|pattern| WildMatch::new(pattern).matches(queue.as_str()))
}

fn everywhere(by_address: &ByAddress, queue: &QueueName) -> bool {
    !by_address.is_empty() && by_address.iter().all(|patterns| any(patterns, queue))
}
