//! Sample idempotency record, load test, and record of a load test, for the unit tests of several
//! modules.

use idempotency::Execution;
use load_test::store::TestRecord;
use load_test::{EndFacts, Facts, LoadTest, LoadTestRequest, Report, Sum, Usage};
use mq::Target;
use serde_json::{Value, json};
use uuid::Uuid;

/// Reads the value at a JSON Pointer in the sample event `produce-too-late.json`.
fn sample(pointer: &str) -> Value {
    let order = include_str!("../../../../events/gateway/mq-access/produce-too-late.json");
    let order: Value = serde_json::from_str(order).unwrap();
    order.pointer(pointer).unwrap().clone()
}

/// Returns the claimed idempotency record of a sample request.
pub(crate) fn execution() -> Execution {
    serde_json::from_value(sample("/work/change/execution")).unwrap()
}

/// Builds a load test of a minute with two producers and one consumer; `members` are added to the
/// request or replace its members.
pub(crate) fn test(members: &Value) -> LoadTest {
    let producers = json!({"count": 2, "ratePerSec": 100});
    let body = json!({"producers": producers, "consumers": {}, "durationSeconds": 60});
    let (Value::Object(mut all), Value::Object(members)) = (body, members) else { panic!("objects") };
    all.extend(members.clone());
    let request: LoadTestRequest = serde_json::from_value(Value::Object(all)).unwrap();
    request.into_parts().unwrap().2
}

/// Creates the record of the sample load test, which has not begun.
pub(crate) fn record() -> TestRecord {
    let target: Target = serde_json::from_value(sample("/work/change/target")).unwrap();
    let created_at = "2026-11-22T10:00:00Z".parse().unwrap();
    let test_id = Uuid::from_u128(0x01a1_fd8c_697b_7c4e_8d21_3f5a_6b7c_8d9e);
    TestRecord::new("tenant", test_id, "trace", test(&json!({})), target, created_at)
}

/// Builds the report of the sample load test, for which no worker has stored any counts.
pub(crate) fn report() -> Report {
    let record = record();
    let facts = Facts {
        test_id: &record.test_id.to_string(),
        status: record.status,
        failure: None,
        target: "/:DEV.QUEUE.1",
        started_at: record.created_at,
        test: &record.test,
        end: EndFacts::default(),
        search: None,
        usage: Usage::default(),
        complete: true,
    };
    Report::of(&facts, &Sum::default())
}
