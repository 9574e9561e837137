//! Building a store of records from a function's environment.

use std::sync::Arc;
use std::time::Duration;

use aws::{Environment, Sdk};
use idempotency::{ExpiryBounds, ReuseLimits, Store};

use crate::audit::AuditTrail;

/// How often keys may be reused: `KEY_REUSE_LIMIT` and `KEY_REUSE_LIMIT_PER_TENANT`, a minute.
pub fn reuse_limits<F: Fn(&str) -> Option<String>>(environment: &mut Environment<F>) -> ReuseLimits {
    let defaults = ReuseLimits::default();
    ReuseLimits {
        per_key: environment.optional("KEY_REUSE_LIMIT", defaults.per_key),
        per_tenant: environment.optional("KEY_REUSE_LIMIT_PER_TENANT", defaults.per_tenant),
        ..defaults
    }
}

/// How long records may be kept: `IDEMPOTENCY_EXPIRY_DEFAULT_SECONDS`, `…_MIN_…` and `…_MAX_…`.
pub fn expiry_bounds<F: Fn(&str) -> Option<String>>(environment: &mut Environment<F>) -> ExpiryBounds {
    let mut seconds = |name| Duration::from_secs(environment.required(name));
    ExpiryBounds {
        default: seconds("IDEMPOTENCY_EXPIRY_DEFAULT_SECONDS"),
        min: seconds("IDEMPOTENCY_EXPIRY_MIN_SECONDS"),
        max: seconds("IDEMPOTENCY_EXPIRY_MAX_SECONDS"),
    }
}

/// The store of a function's records; without a bucket, results are only as large as a record.
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
