//! Tests of the limits to requests that reuse an idempotency key with another body.

use std::time::Duration;

use idempotency::{AuditEvent, Claimed, ReuseLimits};
use serde_json::json;

use crate::support::{Asked, TestStore};

fn limits(per_key: u64, per_tenant: u64) -> ReuseLimits {
    // So long that the window does not end in the test.
    ReuseLimits { per_key, per_tenant, window: Duration::from_secs(86_400 * 365) }
}

#[tokio::test]
async fn past_its_limit_a_key_is_refused_for_a_while_but_not_to_its_owner() {
    let test = TestStore::make().await;
    let store = test.store.clone().with_reuse_limits(limits(3, 100));
    let asked = Asked::new(&json!({"a": 1}));
    test.execution(&asked).await;
    for n in 0..3 {
        let other = asked.with_body(&json!({ "n": n }));
        assert_eq!(store.claim(&other.request()).await.unwrap(), Claimed::Conflict);
    }
    let other = asked.with_body(&json!({"n": 3}));
    let refused = store.claim(&other.request()).await.unwrap();
    assert!(matches!(refused, Claimed::ReusedTooOften { retry_after } if retry_after > Duration::ZERO));
    assert_eq!(test.heard().last(), Some(&AuditEvent::ReusedTooOften));
    assert!(matches!(store.claim(&asked.request()).await.unwrap(), Claimed::InProgress { .. }));
    let fresh = Asked::new(&json!({"n": 3}));
    assert!(matches!(store.claim(&fresh.request()).await.unwrap(), Claimed::Execute(_)));
    test.remove().await;
}

#[tokio::test]
async fn a_tenant_that_goes_from_key_to_key_is_refused_too() {
    let test = TestStore::make().await;
    let store = test.store.clone().with_reuse_limits(limits(3, 4));
    for n in 0..5 {
        let asked = Asked::new(&json!({"a": 1}));
        test.execution(&asked).await;
        let other = asked.with_body(&json!({"a": 2}));
        let refused = store.claim(&other.request()).await.unwrap();
        assert_eq!(matches!(refused, Claimed::ReusedTooOften { .. }), n == 4, "{n}: {refused:?}");
    }
    test.remove().await;
}
