//! Further queues that a caller may use at the place of a target, for work that finds their names
//! in messages.

use serde::{Deserialize, Serialize};
use wildmatch::WildMatch;

use crate::names::QueueName;

/// Queue patterns of an allow-list: for each address of a target, the patterns that apply there.
pub(crate) type ByAddress = Vec<Vec<String>>;

/// Queues that a caller may name instead of the target's own, with the rest of the target
/// unchanged. The default is no queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reach {
    /// Queue of the profile, if the request redirects nothing in the profile. The field `own` then
    /// has the profile's queue patterns.
    pub(crate) own_queue: Option<QueueName>,
    pub(crate) own: Vec<String>,
    /// Queue patterns of the allow-list entries that cover the target, for each of its addresses.
    pub(crate) covered: ByAddress,
    /// Queue patterns of the entries that grant a secret to the target, for each secret that the
    /// request names.
    pub(crate) granted: Vec<ByAddress>,
}

impl Reach {
    /// True if the caller may use no queue besides the target's own.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.own_queue.is_none() && self.own.is_empty() && self.covered.iter().all(Vec::is_empty)
    }

    /// True if the target would also be allowed with this queue.
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
