//! Limits of a tenant, and how much of them is left.

use serde::Serialize;

use crate::limits::bucket::Bucket;
use crate::limits::policy::{Policy, Unit};

/// Limit of a tenant, and how much of it is left.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// Place of the limit in the tenant's limits: `tenant`, `targets/<name>` or
    /// `queueManagers/<name>`.
    pub name: String,
    /// Unit that the limit counts.
    pub unit: Unit,
    /// Rate of the limit in units a second.
    pub per_second: f64,
    /// Burst of the limit: units that may come at once.
    pub burst: u64,
    /// Units that are left in the bucket; `None` if the table cannot be read. An environment may
    /// hold further ones.
    pub remaining: Option<u64>,
}

impl Standing {
    /// Creates the standing of a limit. `bucket` is `None` if the table cannot be read, and
    /// `Some(None)` if nothing was drawn from the bucket.
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
