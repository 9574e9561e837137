//! Tests of events that are delivered more than once.

use std::cell::Cell;

use idempotency::{ClaimRequest, Delivery, OnceError, OperationType};
use serde_json::json;

use crate::support::{Asked, TestStore};

#[tokio::test]
async fn an_event_is_handled_once_and_acknowledged_every_time() {
    let test = TestStore::make().await;
    let event = Asked::new(&json!({"batch": 1}));
    let times = Cell::new(0);
    let work = async |_: &idempotency::Execution| {
        times.set(times.get() + 1);
        Ok::<_, String>(())
    };
    assert_eq!(test.store.once(&event.request(), work).await.unwrap(), Delivery::Executed);
    assert_eq!(test.store.once(&event.request(), work).await.unwrap(), Delivery::Duplicate);
    let other = event.with_body(&json!({"batch": 2}));
    assert!(matches!(test.store.once(&other.request(), work).await, Err(OnceError::Conflict)));
    assert_eq!(times.get(), 1);
    test.remove().await;
}

#[tokio::test]
async fn an_event_whose_work_failed_is_handled_when_it_comes_again() {
    let test = TestStore::make().await;
    let event = Asked::new(&json!({}));
    let failing = async |_: &idempotency::Execution| Err("the database is down");
    let error = test.store.once(&event.request(), failing).await.unwrap_err();
    assert!(matches!(error, OnceError::Work("the database is down")), "{error}");
    let works = async |_: &idempotency::Execution| Ok::<_, String>(());
    assert_eq!(test.store.once(&event.request(), works).await.unwrap(), Delivery::Executed);
    test.remove().await;
}

#[tokio::test]
async fn a_second_delivery_waits_for_the_first() {
    let test = TestStore::make().await;
    let event = Asked::new(&json!({}));
    test.execution(&event).await;
    let work = async |_: &idempotency::Execution| Ok::<_, String>(());
    let error = test.store.once(&event.request(), work).await.unwrap_err();
    assert!(matches!(error, OnceError::InProgress { .. }), "{error}");
    test.remove().await;
}

/// Checks that each handler of an event has its own keys. With shared keys, the second handler
/// would acknowledge work that only the first has done.
#[tokio::test]
async fn each_handler_of_an_event_does_its_own_work_once() {
    let test = TestStore::make().await;
    let event = Asked::new(&json!({"batch": 1}));
    let operation = OperationType::named("EVENT").per_target();
    let works = async |_: &idempotency::Execution| Ok::<_, String>(());
    for expected in [Delivery::Executed, Delivery::Duplicate] {
        for handler in ["chunker", "mailer"] {
            let claim = ClaimRequest { operation, target: handler, ..event.request() };
            assert_eq!(test.store.once(&claim, works).await.unwrap(), expected, "{handler}");
        }
    }
    test.remove().await;
}
