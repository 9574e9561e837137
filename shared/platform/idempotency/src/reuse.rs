//! Limits to requests that reuse an idempotency key with another body or other rights, so that a
//! caller who tries out keys is stopped.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::ReturnValue;
use jiff::Timestamp;

use crate::claim::ClaimRequest;
use crate::dynamodb::{number, text, ttl};
use crate::error::StoreError;

/// Limits to the number of key conflicts (requests that reuse an idempotency key with another body
/// or other rights) in a time window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReuseLimits {
    /// Maximum number of conflicts that a tenant may cause under one key in one time window.
    pub per_key: u64,
    /// Maximum number of conflicts that a tenant may cause under all of its keys in one time
    /// window.
    pub per_tenant: u64,
    /// Length of a time window in whole seconds. Windows begin at multiples of this length since
    /// the epoch.
    pub window: Duration,
}

impl Default for ReuseLimits {
    fn default() -> Self {
        Self { per_key: 100, per_tenant: 1000, window: Duration::from_secs(60) }
    }
}

/// Counter of key conflicts. The counts are items of the idempotency table, which DynamoDB's TTL
/// deletes after their window.
#[derive(Debug)]
pub(crate) struct ReuseCounter {
    limits: ReuseLimits,
    /// Tenants that exceeded `per_tenant`, with the end of the window in epoch seconds. Until then,
    /// further conflicts of these tenants are refused without a write.
    over: Mutex<HashMap<String, i64>>,
}

impl ReuseCounter {
    pub(crate) fn new(limits: ReuseLimits) -> Self {
        Self { limits, over: Mutex::default() }
    }

    /// Counts a conflict of a request. If a limit is exceeded, returns the time until the window
    /// ends; otherwise `None`.
    pub(crate) async fn count(
        &self,
        dynamodb: &Client,
        table: &str,
        request: &ClaimRequest<'_>,
        now: Timestamp,
    ) -> Result<Option<Duration>, StoreError> {
        let end = window_end(now, self.limits.window);
        let left = Duration::from_secs(u64::try_from(end - now.as_second()).unwrap_or(1).max(1));
        if self.is_over(request.tenant, now) {
            return Ok(Some(left));
        }
        let of_tenant = format!("REUSE#{}#{end}", request.tenant);
        let of_key = format!("REUSE#{}#{end}", request.pk());
        let (tenant, key) = tokio::join!(
            increment(dynamodb, table, &of_tenant, end),
            increment(dynamodb, table, &of_key, end),
        );
        if tenant? > self.limits.per_tenant {
            self.over.lock().unwrap_or_else(PoisonError::into_inner).insert(request.tenant.to_owned(), end);
            return Ok(Some(left));
        }
        Ok((key? > self.limits.per_key).then_some(left))
    }

    fn is_over(&self, tenant: &str, now: Timestamp) -> bool {
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        over.retain(|_, end| *end > now.as_second());
        over.contains_key(tenant)
    }
}

/// Increments the number of key conflicts in the item `pk`, and returns the new number. DynamoDB
/// deletes the item after the time `end` (epoch seconds).
async fn increment(dynamodb: &Client, table: &str, pk: &str, end: i64) -> Result<u64, StoreError> {
    let update = dynamodb
        .update_item()
        .table_name(table)
        .key("pk", text(pk))
        .update_expression("SET #ttl = :ttl ADD conflicts :one")
        .expression_attribute_names("#ttl", "ttl")
        .expression_attribute_values(":ttl", ttl(Timestamp::from_second(end).unwrap_or(Timestamp::MAX)))
        .expression_attribute_values(":one", number(1))
        .return_values(ReturnValue::UpdatedNew);
    let updated = update.send().await.map_err(StoreError::unavailable)?;
    updated
        .attributes()
        .and_then(|attributes| attributes.get("conflicts"))
        .and_then(|count| count.as_n().ok())
        .and_then(|count| count.parse().ok())
        .ok_or_else(|| StoreError::unreadable("a counter has no count"))
}

/// Returns the end of the window that contains `now`, in epoch seconds.
fn window_end(now: Timestamp, window: Duration) -> i64 {
    let window = i64::try_from(window.as_secs()).unwrap_or(i64::MAX).max(1);
    now.as_second().div_euclid(window).saturating_add(1).saturating_mul(window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_begin_at_multiples_of_their_length() {
        let end = |second| window_end(Timestamp::from_second(second).unwrap(), Duration::from_secs(60));
        assert_eq!([end(0), end(59), end(60), end(-1)], [60, 60, 120, 0]);
    }
}
