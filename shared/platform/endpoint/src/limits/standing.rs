//! Rate limits of a tenant, and the number of units that are left of each.

use serde::Serialize;

use crate::limits::bucket::Bucket;
use crate::limits::policy::{Policy, Unit};

/// Rate limit of a tenant, with the number of units (for example requests) that are left.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// Name of the limit's subject: `tenant`, `targets/<name>` or `queueManagers/<name>`.
    pub name: String,
    /// Quantity that the limit counts, for example requests.
    pub unit: Unit,
    /// Rate of the limit in units (for example requests) per second.
    pub per_second: f64,
    /// Number of units that are admitted at once after a pause.
    pub burst: u64,
    /// Number of units left in the bucket; `None` if the table cannot be read. Environments may
    /// also hold units that they have taken from the bucket and not used yet.
    pub remaining: Option<u64>,
}

impl Standing {
    /// Creates the description of a limit and what is left of it at `now` (nanoseconds since 1970).
    /// `bucket` is `None` if the table cannot be read, and `Some(None)` if the bucket has no item,
    /// because nothing was taken from it for long.
    pub(crate) fn new(policy: &Policy, bucket: Option<Option<&Bucket>>, now: i64) -> Self {
        let pace = policy.pace();
        let left = bucket.map(|bucket| bucket.map_or(pace.burst(), |bucket| pace.left(bucket.tat, now)));
        Self {
            name: policy.scope.to_string(),
            unit: policy.unit,
            per_second: policy.rate.per_second,
            burst: policy.rate.burst,
            remaining: left.map(|left| u64::try_from(left).unwrap_or_default()),
        }
    }
}
