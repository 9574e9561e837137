//! Store of load tests for one integration test, and sample load tests.

use aws_sdk_dynamodb::types::AttributeValue;
use jiff::{SignedDuration, Timestamp};
use load_test::store::{Created, TestRecord, TestRun};
use load_test::{LateReason, LoadTest, LoadTestRequest, Micros, Step, Tally, Window};
use serde_json::{Value, from_value, json};
use uuid::Uuid;

pub(crate) use crate::table::TestTable;

pub(crate) const TENANT: &str = "tenant-1";

impl TestTable {
    /// Returns all items of the DynamoDB table.
    pub(crate) async fn items(&self) -> Vec<std::collections::HashMap<String, AttributeValue>> {
        let pages = self.dynamodb.scan().table_name(&self.name).into_paginator().items().send();
        pages.try_collect().await.unwrap()
    }

    /// Sets one attribute of a load test's item.
    pub(crate) async fn set(&self, test_id: Uuid, name: &str, value: AttributeValue) {
        let update = self
            .dynamodb
            .update_item()
            .table_name(&self.name)
            .key("pk", AttributeValue::S(format!("TENANT#{TENANT}")))
            .key("sk", AttributeValue::S(format!("TEST#{test_id}")))
            .update_expression("SET #name = :value")
            .expression_attribute_names("#name", name)
            .expression_attribute_values(":value", value);
        update.send().await.unwrap();
    }

    /// Stores a new sample load test, and returns its record.
    pub(crate) async fn created(&self) -> TestRecord {
        let record = record();
        self.create(&record).await;
        record
    }

    pub(crate) async fn create(&self, record: &TestRecord) {
        assert_eq!(self.store.create(record, u32::MAX).await.unwrap(), Created::Stored);
    }

    pub(crate) async fn get(&self, test_id: Uuid) -> TestRecord {
        self.store.get(TENANT, test_id).await.unwrap().unwrap()
    }
}

/// Returns the key of the run with this number of a load test.
pub(crate) fn run(test_id: Uuid, number: u32) -> TestRun {
    TestRun { tenant: TENANT.to_owned(), test_id, run: number }
}

/// Returns the current time in whole microseconds, which is the table's precision.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_microsecond(Timestamp::now().as_microsecond()).unwrap()
}

pub(crate) fn later(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

pub(crate) fn test() -> LoadTest {
    let body = json!({
        "targetRef": "local", "producers": {"ratePerSec": 100}, "consumers": {}, "durationSeconds": 60
    });
    let request: LoadTestRequest = from_value(body).unwrap();
    request.into_parts().unwrap().2
}

/// Returns the record of a sample load test that was accepted just now.
pub(crate) fn record() -> TestRecord {
    let endpoint: Value = json!({
        "broker": "rabbitmq", "queueManager": "/", "channel": null, "addresses": [], "ccdtUrl": null,
        "tls": "off", "user": "guest", "passwordRef": null
    });
    let target = from_value(json!({"endpoint": endpoint, "queue": "LOAD"})).unwrap();
    TestRecord::new(TENANT, Uuid::now_v7(), "trace-1", test(), target, now())
}

pub(crate) fn step(lane: &str, window: u32, attempt: u32) -> Step {
    Step { lane: lane.parse().unwrap(), window: Window::new(window), attempt }
}

/// Returns the counts of a step (a worker's attempt at one minute) in which a producer sent `count`
/// messages.
pub(crate) fn tally(step: Step, count: u64) -> Tally {
    let mut tally = Tally::new(step, step.window.opens(), 1, Micros::ZERO);
    for sequence in 0..count {
        tally.sent(sequence, step.window.opens(), step.window.opens(), LateReason::Producer);
    }
    tally
}
