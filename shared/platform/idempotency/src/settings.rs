//! Construction of the idempotency store from a function's environment variables.

use std::sync::Arc;
use std::time::Duration;

use crate::{ExpiryBounds, ReuseLimits, Store};
use runtime::{Environment, Sdk};

use crate::audit_trail::AuditTrail;

/// Reads the limits to key conflicts (requests that reuse a key with another body or other rights)
/// in each minute: `KEY_REUSE_LIMIT` and `KEY_REUSE_LIMIT_PER_TENANT`. Both are optional.
pub fn reuse_limits<F: Fn(&str) -> Option<String>>(environment: &mut Environment<F>) -> ReuseLimits {
    let defaults = ReuseLimits::default();
    ReuseLimits {
        per_key: environment.optional("KEY_REUSE_LIMIT", defaults.per_key),
        per_tenant: environment.optional("KEY_REUSE_LIMIT_PER_TENANT", defaults.per_tenant),
        ..defaults
    }
}

/// Reads the default and the maximum retention of records: `IDEMPOTENCY_EXPIRY_DEFAULT_SECONDS` and
/// `IDEMPOTENCY_EXPIRY_MAX_SECONDS`. A default below [`ExpiryBounds::MIN`], or above the maximum,
/// is reported as a fault of the environment.
pub fn expiry_bounds<F: Fn(&str) -> Option<String>>(environment: &mut Environment<F>) -> ExpiryBounds {
    let mut seconds = |name| Duration::from_secs(environment.required(name));
    let bounds = ExpiryBounds {
        default: seconds("IDEMPOTENCY_EXPIRY_DEFAULT_SECONDS"),
        max: seconds("IDEMPOTENCY_EXPIRY_MAX_SECONDS"),
    };
    if bounds.default < ExpiryBounds::MIN {
        let least = ExpiryBounds::MIN.as_secs();
        environment.refuse(format!("IDEMPOTENCY_EXPIRY_DEFAULT_SECONDS is below {least}"));
    }
    if bounds.default > bounds.max {
        environment.refuse("IDEMPOTENCY_EXPIRY_DEFAULT_SECONDS is above IDEMPOTENCY_EXPIRY_MAX_SECONDS");
    }
    bounds
}

/// Builds the store of a function's idempotency records. With an empty `results_bucket`, responses
/// must fit into a record.
#[must_use]
pub fn records(
    sdk: &Sdk,
    dynamodb: aws_sdk_dynamodb::Client,
    table: String,
    results_bucket: String,
    service: &'static str,
) -> Store {
    let store = Store::new(dynamodb, table).with_audit(Arc::new(AuditTrail { service }));
    if results_bucket.is_empty() {
        return store;
    }
    store.with_bucket(aws_sdk_s3::Client::new(&sdk.objects()), results_bucket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(default: u64, max: u64) -> String {
        let mut environment = Environment::of(|name| {
            let value = match name {
                "IDEMPOTENCY_EXPIRY_DEFAULT_SECONDS" => default,
                "IDEMPOTENCY_EXPIRY_MAX_SECONDS" => max,
                _ => return None,
            };
            Some(value.to_string())
        });
        let _bounds = expiry_bounds(&mut environment);
        let _table: String = environment.required("IDEMPOTENCY_TABLE");
        environment.check().unwrap_err().to_string()
    }

    #[test]
    fn bounds_that_contradict_themselves_are_refused_with_all_else() {
        let missing = "IDEMPOTENCY_TABLE is missing";
        let (below, above) = ("DEFAULT_SECONDS is below 7200", "DEFAULT_SECONDS is above");
        let all = faults(7_199, 50);
        assert!([below, above, missing].iter().all(|fault| all.contains(fault)), "{all}");
        let only_below = faults(7_199, 7_200);
        assert!(only_below.contains(below) && !only_below.contains(above), "{only_below}");
        let good = faults(7_200, 7_200);
        assert!(!good.contains(below) && !good.contains(above) && good.contains(missing), "{good}");
    }
}
