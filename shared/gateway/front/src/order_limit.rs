//! Limit on the number of orders (pieces of work for `mq-access`) that a tenant has in progress.
//!
//! `mq-access` has a limited concurrency, and an order may occupy one of its executions for 20 s.
//! To prevent a tenant from occupying all of them, each tenant has an item in the idempotency
//! table, with one lease for each order in progress. A lease expires by itself, so the leases of a
//! function that died are soon free again.

use std::collections::HashMap;
use std::error::Error;
use std::num::NonZeroU32;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use idempotency::Execution;
use jiff::Timestamp;
use runtime::Environment;
use uuid::Uuid;

/// Duration of a tenant's lease for one order. It equals the lease of an execution (claimed
/// idempotency record), and no work takes longer.
const LEASE: Duration = Execution::lease();
/// Time to live of a tenant's item with leases, counted from the last added lease: one day.
const KEPT: Duration = Duration::from_secs(86_400);
/// Number of attempts to add a lease to the tenant's item before the order is refused. After each
/// attempt that finds the item full, expired leases are removed from it; if none has expired, the
/// order is refused at once.
const ATTEMPTS: usize = 3;
/// Maximum number of orders that a tenant may have in progress. Each order writes its tenant's item
/// twice, a write uses one unit for each KiB of the item, and DynamoDB allows 1,000 units a second
/// for an item. With 99 leases the item has less than 3 KiB, which allows 166 orders a second.
const MOST: u32 = 99;

/// Limit on the number of orders (pieces of work for `mq-access`) that each tenant has in progress,
/// kept as leases in the item `BUDGET#<tenant>` of the idempotency table.
#[derive(Clone, Debug)]
pub struct OrderLimit {
    dynamodb: Client,
    table: String,
    limit: NonZeroU32,
}

/// Right of a tenant to have one order (work for `mq-access`) in progress, until the right is
/// released or expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// Name of the lease: its expiry time in milliseconds since 1970, followed by a random number
    /// that makes the name unique.
    name: String,
}

/// Reason why the tenant's limit on orders in progress did not admit an order.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum OrderLimitError {
    #[error("the tenant has as many orders under way as it may have at once")]
    Exhausted,
    #[error("the tenant's order limit is not known")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
}

impl OrderLimit {
    /// Creates the limit for all tenants. Each tenant may have `limit` orders in progress.
    #[must_use]
    pub const fn new(dynamodb: Client, table: String, limit: NonZeroU32) -> Self {
        Self { dynamodb, table, limit }
    }

    /// Reads the number of orders that each tenant may have in progress from `TENANT_CONCURRENCY`,
    /// at most 99. If it is not set, half of `MQ_ACCESS_CONCURRENCY` (the reserved concurrency of
    /// `mq-access`) applies, from 1 to 99. `None` means no limit, which needs no store call:
    /// `TENANT_CONCURRENCY` is 0, or it is not set and no concurrency is reserved.
    pub fn limit<F: Fn(&str) -> Option<String>>(environment: &mut Environment<F>) -> Option<NonZeroU32> {
        let reserved: u32 = environment.optional("MQ_ACCESS_CONCURRENCY", 0);
        let share = if reserved == 0 { 0 } else { (reserved / 2).clamp(1, MOST) };
        let limit: u32 = environment.optional("TENANT_CONCURRENCY", share);
        if limit > MOST {
            environment.refuse(format!("TENANT_CONCURRENCY: must be at most {MOST}, not {limit}"));
        }
        NonZeroU32::new(limit)
    }

    /// Takes a lease for one order of the tenant. Retrying the write is safe, because the lease's
    /// name is unique.
    ///
    /// # Errors
    /// If the tenant has no lease left, or the table does not respond. Without a response the order
    /// is refused, too, since a tenant could itself overload its item.
    pub(crate) async fn lease(&self, tenant: &str) -> Result<Lease, OrderLimitError> {
        let now = Timestamp::now();
        let lease = Lease::until(now + LEASE);
        for _ in 0..ATTEMPTS {
            let Some(taken) = self.add(tenant, &lease, now).await? else { return Ok(lease) };
            let over: Vec<_> = taken.into_iter().filter(|lease| lease.is_over(now)).collect();
            if over.is_empty() {
                return Err(OrderLimitError::Exhausted);
            }
            self.remove(tenant, over).await?;
        }
        Err(OrderLimitError::Exhausted)
    }

    /// Releases a lease. If that fails, the lease ends when it expires.
    pub(crate) async fn release(&self, tenant: &str, lease: Lease) {
        if let Err(error) = self.remove(tenant, vec![lease]).await {
            let error: &dyn Error = &error;
            tracing::warn!(
                event_type = "tenant.lease_kept",
                error,
                "cannot release a lease of the order limit of tenant `{tenant}`; it will expire: {error}"
            );
        }
    }

    /// Adds a lease to the tenant's item and returns `None`. If the item already has as many leases
    /// as the limit allows, returns these leases instead.
    async fn add(
        &self,
        tenant: &str,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Option<Vec<Lease>>, OrderLimitError> {
        let update = self
            .update(tenant)
            .update_expression("SET #ttl = :ttl ADD leases :added")
            .condition_expression(
                "attribute_not_exists(leases) OR size(leases) < :limit OR contains(leases, :name)",
            )
            .expression_attribute_names("#ttl", "ttl")
            .expression_attribute_values(":ttl", AttributeValue::N((now + KEPT).as_second().to_string()))
            .expression_attribute_values(":added", AttributeValue::Ss(vec![lease.name.clone()]))
            .expression_attribute_values(":name", AttributeValue::S(lease.name.clone()))
            .expression_attribute_values(":limit", AttributeValue::N(self.limit.to_string()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match update.send().await {
            Ok(_) => Ok(None),
            Err(SdkError::ServiceError(answer)) => match answer.into_err() {
                UpdateItemError::ConditionalCheckFailedException(full) => {
                    Ok(Some(leases(full.item.unwrap_or_default())))
                }
                error => Err(unavailable(error)),
            },
            Err(error) => Err(unavailable(error)),
        }
    }

    async fn remove(&self, tenant: &str, leases: Vec<Lease>) -> Result<(), OrderLimitError> {
        let names = leases.into_iter().map(|lease| lease.name).collect();
        let update = self.update(tenant).update_expression("DELETE leases :removed");
        let update = update.expression_attribute_values(":removed", AttributeValue::Ss(names));
        update.send().await.map(drop).map_err(unavailable)
    }

    fn update(&self, tenant: &str) -> UpdateItemFluentBuilder {
        let key = AttributeValue::S(format!("BUDGET#{tenant}"));
        self.dynamodb.update_item().table_name(&self.table).key("pk", key)
    }
}

impl Lease {
    fn until(end: Timestamp) -> Self {
        // 48 random bits tell apart the leases that end in the same millisecond; the item stays
        // small.
        let random = Uuid::new_v4().as_u128() >> 80;
        Self { name: format!("{}#{random:012x}", end.as_millisecond()) }
    }

    fn is_over(&self, now: Timestamp) -> bool {
        let end = self.name.split_once('#').and_then(|(end, _)| end.parse::<i64>().ok());
        end.is_none_or(|end| end < now.as_millisecond())
    }
}

fn leases(mut item: HashMap<String, AttributeValue>) -> Vec<Lease> {
    match item.remove("leases") {
        Some(AttributeValue::Ss(names)) => names.into_iter().map(|name| Lease { name }).collect(),
        _ => Vec::new(),
    }
}

fn unavailable(cause: impl Into<Box<dyn Error + Send + Sync>>) -> OrderLimitError {
    OrderLimitError::Unavailable(cause.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(variables: &[(&str, &str)]) -> Result<Option<u32>, String> {
        let lookup = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let mut environment = Environment::of(lookup);
        let limit = OrderLimit::limit(&mut environment);
        environment.check().map_err(|error| error.to_string())?;
        Ok(limit.map(NonZeroU32::get))
    }

    #[test]
    fn a_tenant_gets_half_of_what_is_reserved_unless_something_is_said() {
        assert_eq!(limit(&[]), Ok(None));
        assert_eq!(limit(&[("MQ_ACCESS_CONCURRENCY", ""), ("TENANT_CONCURRENCY", "")]), Ok(None));
        assert_eq!(limit(&[("MQ_ACCESS_CONCURRENCY", "0")]), Ok(None));
        for (reserved, expected) in [("1", 1), ("2", 1), ("3", 1), ("10", 5)] {
            assert_eq!(limit(&[("MQ_ACCESS_CONCURRENCY", reserved)]), Ok(Some(expected)), "{reserved}");
        }
        let both = |limit| [("MQ_ACCESS_CONCURRENCY", "10"), ("TENANT_CONCURRENCY", limit)];
        assert_eq!(limit(&both("3")), Ok(Some(3)));
        assert_eq!(limit(&both("0")), Ok(None));
        assert_eq!(limit(&[("TENANT_CONCURRENCY", "7")]), Ok(Some(7)));
        assert!(limit(&both("many")).is_err());
    }

    #[test]
    fn no_tenant_has_more_orders_under_way_than_its_item_can_count() {
        assert_eq!(limit(&[("MQ_ACCESS_CONCURRENCY", "1000")]), Ok(Some(MOST)));
        assert_eq!(limit(&[("TENANT_CONCURRENCY", "99")]), Ok(Some(99)));
        assert!(limit(&[("TENANT_CONCURRENCY", "100")]).unwrap_err().contains("at most 99"));
        // An element of a set takes its bytes and one more, beside the item's other attributes
        // ("Capacity consumption", Amazon DynamoDB Developer Guide).
        let others = "pk".len() + "BUDGET#".len() + 36 + "ttl".len() + 21 + "leases".len() + 3;
        let lease = Lease::until(Timestamp::now()).name.len() + 1;
        let item = others + usize::try_from(MOST).unwrap() * lease;
        assert!(item <= 3 * 1024, "{item} bytes");
    }

    #[test]
    fn the_template_takes_the_limits_that_the_functions_take() {
        let template = include_str!("../../../../template.yaml");
        let (_, parameter) = template.split_once("\n  MqAccessTenantConcurrency:\n").unwrap();
        let (_, pattern) = parameter.split_once("AllowedPattern: ").unwrap();
        let digits = MOST.to_string().len();
        assert_eq!(pattern.lines().next(), Some(format!("^[0-9]{{0,{digits}}}$").as_str()));
        assert_eq!(MOST, 10_u32.pow(u32::try_from(digits).unwrap()) - 1);
    }

    #[test]
    fn a_lease_is_over_at_its_end_and_not_before() {
        let now = Timestamp::UNIX_EPOCH + LEASE;
        assert!(!Lease::until(now).is_over(now));
        assert!(Lease::until(now).is_over(now + Duration::from_millis(1)));
        assert!(Lease { name: "nonsense".to_owned() }.is_over(now));
    }
}
