//! Further queues that a caller may use at the place of a target, for work that finds their names
//! in messages.

use serde::{Deserialize, Serialize};
use wildmatch::WildMatch;

use crate::names::QueueName;

/// Patterns of the queues that an allow-list allows, for each address of a target.
pub(crate) type ByAddress = Vec<Vec<String>>;

/// Queues at a target's place that its caller may name instead of the target's. The default is
/// none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reach {
    /// Queue of the profile itself, if the request changes nothing else in the profile; `own` has
    /// the patterns of its others.
    pub(crate) own_queue: Option<QueueName>,
    pub(crate) own: Vec<String>,
    /// Queues that the allow-list covers, by address.
    pub(crate) covered: ByAddress,
    /// Queues for which every secret of the request is granted.
    pub(crate) granted: Vec<ByAddress>,
}

impl Reach {
    /// True if the caller is allowed no queue but the target's.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.own_queue.is_none() && self.own.is_empty() && self.covered.iter().all(Vec::is_empty)
    }

    /// True if the caller's target would be allowed with this queue.
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
