//! DynamoDB items of load tests, and of the definitions of load tests.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;
use mq::Target;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::store::record::{Control, Failure, Run, TestRecord};
use crate::store::{Item, TestStoreError};
use crate::{LoadTest, TestStatus};

/// Maximum number of bytes of a test's definition in JSON, so that it fits into a DynamoDB item of
/// at most 400 KB.
const MOST_DEFINITION: usize = 350_000;

/// Definition of a load test: the work that it was asked to do, and its target. It has a DynamoDB
/// item of its own.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Definition {
    test: LoadTest,
    target: Target,
}

/// Attributes of a load test's DynamoDB item. The test's definition is in another item.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TestItem {
    tenant: String,
    pub(crate) test_id: Uuid,
    trace_id: String,
    #[serde(default)]
    key_name: String,
    status: TestStatus,
    created_at: Timestamp,
    /// Time at which DynamoDB deletes the item, in seconds since 1970.
    expires_at: i64,
    /// Runs of the test that have begun. The key is the run's number in at least two digits.
    runs: BTreeMap<String, Run>,
    stop_requested_at: Option<Timestamp>,
    failure: Option<Failure>,
    ended_at: Option<Timestamp>,
    summary: Option<String>,
    passed: Option<bool>,
}

impl TestItem {
    pub(crate) fn read(item: Item) -> Result<Self, TestStoreError> {
        attempt::malformed::from_item(item).map_err(TestStoreError::unreadable)
    }

    /// True if the item has expired at `now`, so that it counts as deleted. DynamoDB's TTL deletes
    /// it later.
    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at <= now.as_second()
    }

    pub(crate) fn run(&self, run: u32) -> Option<Run> {
        self.runs.get(&run_number(run)).copied()
    }

    /// True if the test has ended in the state `status` with a report whose first line is
    /// `summary`.
    pub(crate) fn has_ended(&self, status: TestStatus, summary: &str) -> bool {
        self.status == status && self.summary.as_deref() == Some(summary)
    }

    pub(crate) fn into_record(self, definition: Definition) -> TestRecord {
        TestRecord {
            tenant: self.tenant,
            test_id: self.test_id,
            trace_id: self.trace_id,
            key_name: self.key_name,
            status: self.status,
            test: definition.test,
            target: definition.target,
            created_at: self.created_at,
            runs: self.runs.into_values().collect(),
            stop_requested_at: self.stop_requested_at,
            failure: self.failure,
            ended_at: self.ended_at,
            summary: self.summary,
            passed: self.passed,
        }
    }
}

/// Builds the DynamoDB item of a load test, without the test's definition.
pub(crate) fn of_test(record: &TestRecord, expires_at: AttributeValue) -> Item {
    let runs = record.runs.iter().zip(0..).map(|(own, number)| (run_number(number), run_value(own)));
    let always = [
        ("tenant", text(&record.tenant)),
        ("testId", text(record.test_id)),
        ("traceId", text(&record.trace_id)),
        ("status", text(record.status)),
        ("createdAt", time(record.created_at)),
        ("runs", AttributeValue::M(runs.collect())),
        ("expiresAt", expires_at),
    ];
    let sometimes = [
        ("keyName", (!record.key_name.is_empty()).then(|| text(&record.key_name))),
        ("stopRequestedAt", record.stop_requested_at.map(time)),
        ("failure", record.failure.as_ref().map(failure_value)),
        ("endedAt", record.ended_at.map(time)),
        ("summary", record.summary.as_ref().map(text)),
        ("passed", record.passed.map(AttributeValue::Bool)),
    ];
    let sometimes = sometimes.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let mut item = test_key(&record.tenant, record.test_id);
    item.extend(named(always.into_iter().chain(sometimes)));
    item
}

/// Builds the DynamoDB item with a load test's definition.
///
/// # Errors
/// If the definition cannot be encoded, or is longer than [`MOST_DEFINITION`].
pub(crate) fn of_definition(record: &TestRecord, expires_at: AttributeValue) -> Result<Item, TestStoreError> {
    let definition = Definition { test: record.test.clone(), target: record.target.clone() };
    let json = serde_json::to_string(&definition).map_err(TestStoreError::unencodable)?;
    if json.len() > MOST_DEFINITION {
        return Err(TestStoreError::TooLarge { what: "definition", bytes: json.len() });
    }
    let mut item = definition_key(record.test_id);
    item.extend(named([("definition", AttributeValue::S(json)), ("expiresAt", expires_at)]));
    Ok(item)
}

/// Parses the DynamoDB item of a test's definition.
pub(crate) fn definition(item: &Item) -> Result<Definition, TestStoreError> {
    let json = item.get("definition").and_then(|json| json.as_s().ok());
    let json = json.ok_or_else(|| TestStoreError::unreadable("the item has no definition"))?;
    attempt::malformed::from_slice(json.as_bytes()).map_err(TestStoreError::unreadable)
}

/// Parses the attributes of a test's item that tell the test's workers whether to continue.
pub(crate) fn control(item: Item) -> Result<Control, TestStoreError> {
    attempt::malformed::from_item(item).map_err(TestStoreError::unreadable)
}

/// Returns the DynamoDB key of a load test's item.
pub(crate) fn test_key(tenant: &str, test_id: Uuid) -> Item {
    key(tenant_partition(tenant), test_sort(test_id))
}

/// Returns the DynamoDB key of the item with a load test's definition.
pub(crate) fn definition_key(test_id: Uuid) -> Item {
    key(test_sort(test_id), "definition".to_owned())
}

/// Returns the DynamoDB key of the item that counts the tests that a tenant has created.
pub(crate) fn created_key(tenant: &str) -> Item {
    key(tenant_partition(tenant), "created".to_owned())
}

pub(crate) fn tenant_partition(tenant: &str) -> String {
    format!("TENANT#{tenant}")
}

/// Returns the text that stands for a test in DynamoDB keys. The texts sort like the ids of the
/// tests, and so by the time of creation.
pub(crate) fn test_sort(test_id: Uuid) -> String {
    format!("TEST#{test_id}")
}

pub(crate) fn key(partition: String, sort: String) -> Item {
    named([("pk", AttributeValue::S(partition)), ("sk", AttributeValue::S(sort))])
}

/// Builds a DynamoDB item from the names and values of its attributes.
pub(crate) fn named(attributes: impl IntoIterator<Item = (&'static str, AttributeValue)>) -> Item {
    attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns the key of a run in the map of runs of a test's item: the run's number in at least two
/// digits.
pub(crate) fn run_number(run: u32) -> String {
    format!("{run:02}")
}

pub(crate) fn run_value(run: &Run) -> AttributeValue {
    let sometimes = [
        ("ratePerSec", run.rate_per_sec.map(|rate| number(rate.get()))),
        ("endedAt", run.ended_at.map(time)),
        ("passed", run.passed.map(AttributeValue::Bool)),
        ("retained", run.retained.map(number)),
    ];
    let sometimes = sometimes.into_iter().filter_map(|(name, value)| Some((name, value?)));
    AttributeValue::M(named(sometimes.chain([("startedAt", time(run.started_at))])))
}

pub(crate) fn failure_value(failure: &Failure) -> AttributeValue {
    AttributeValue::M(named([("at", time(failure.at)), ("detail", text(&failure.detail))]))
}

pub(crate) fn text(value: impl Display) -> AttributeValue {
    AttributeValue::S(value.to_string())
}

pub(crate) fn number(value: impl Display) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// Returns a time as the value of a DynamoDB attribute, in ISO 8601 with microseconds.
pub(crate) fn time(time: Timestamp) -> AttributeValue {
    AttributeValue::S(format!("{time:.6}"))
}

/// Returns the value of the TTL attribute, in seconds since 1970, for an item that expires `after`
/// from `now`.
pub(crate) fn expiry(now: Timestamp, after: Duration) -> AttributeValue {
    number(now.checked_add(after).unwrap_or(Timestamp::MAX).as_second())
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;
    use crate::LoadTestRequest;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_795_000_000 + second).unwrap()
    }

    fn record() -> TestRecord {
        let request: LoadTestRequest = from_value(json!({
            "targetRef": "local", "producers": {"ratePerSec": 100, "headers": {"k": 1}}, "consumers": {},
            "durationSeconds": 60, "expect": {"lost": 0}, "foreign": "take"
        }))
        .unwrap();
        let (_, _, test) = request.into_parts().unwrap();
        let endpoint = json!({
            "broker": "rabbitmq", "queueManager": "/", "channel": null, "addresses": [], "ccdtUrl": null,
            "tls": "off", "user": "guest", "passwordRef": null
        });
        let target = from_value(json!({"endpoint": endpoint, "queue": "LOAD"})).unwrap();
        TestRecord::new("tenant-1", Uuid::from_u128(7), "trace-1", test, target, at(0))
    }

    fn ended() -> TestRecord {
        let begun =
            Run { rate_per_sec: None, started_at: at(10), ended_at: None, passed: None, retained: None };
        let done = Run {
            rate_per_sec: Some(200.try_into().unwrap()),
            ended_at: Some(at(70)),
            passed: Some(false),
            retained: Some(3),
            ..begun
        };
        TestRecord {
            key_name: "till 1".to_owned(),
            status: TestStatus::Failed,
            runs: vec![done, begun],
            stop_requested_at: Some(at(60)),
            failure: Some(Failure { at: at(61), detail: "the broker is gone".to_owned() }),
            ended_at: Some(at(80)),
            summary: Some("The test failed.".to_owned()),
            passed: Some(false),
            ..record()
        }
    }

    fn read(item: Item, definition_item: &Item) -> TestRecord {
        TestItem::read(item).unwrap().into_record(definition(definition_item).unwrap())
    }

    #[test]
    fn a_test_survives_its_items() {
        for record in [record(), ended()] {
            let expires_at = expiry(at(0), Duration::from_secs(60));
            let definition = of_definition(&record, expires_at.clone()).unwrap();
            assert_eq!(read(of_test(&record, expires_at), &definition), record);
        }
    }

    #[test]
    fn the_items_have_the_attributes_and_keys_that_others_read() {
        let expires_at = expiry(Timestamp::UNIX_EPOCH, Duration::from_secs(86_400));
        let item = of_test(&ended(), expires_at.clone());
        assert_eq!(
            (&item["pk"], &item["sk"]),
            (&text("TENANT#tenant-1"), &text(test_sort(Uuid::from_u128(7))))
        );
        assert_eq!(item["sk"], text("TEST#00000000-0000-0000-0000-000000000007"));
        assert_eq!((&item["status"], &item["expiresAt"]), (&text("FAILED"), &number(86_400)));
        assert_eq!(item["createdAt"], time(at(0)));
        let runs = item["runs"].as_m().unwrap();
        assert_eq!(runs["00"].as_m().unwrap()["ratePerSec"], number(200));
        assert!(!runs["01"].as_m().unwrap().contains_key("endedAt"));
        let definition = of_definition(&record(), expires_at).unwrap();
        assert_eq!(definition["pk"], item["sk"]);
        assert_eq!(definition["sk"], text("definition"));
        let new = of_test(&record(), number(1));
        assert!(new["runs"].as_m().unwrap().is_empty());
        assert!(!new.contains_key("endedAt") && !new.contains_key("failure"));
        assert!(!new.contains_key("keyName"), "as in an item of an earlier version");
    }

    #[test]
    fn a_worker_reads_from_the_item_whether_to_go_on() {
        let new = control(of_test(&record(), number(1))).unwrap();
        assert_eq!(new, Control { status: TestStatus::Pending, stop_requested_at: None, failed: false });
        assert!(!new.is_over());
        assert_eq!(new, record().control());
        let ended = control(of_test(&ended(), number(1))).unwrap();
        assert_eq!((ended.stop_requested_at, ended.failed), (Some(at(60)), true));
        assert!(ended.is_over());
        assert_eq!(ended, self::ended().control());
    }

    #[test]
    fn an_item_is_expired_from_its_expiry_on() {
        let item = TestItem::read(of_test(&record(), expiry(at(0), Duration::from_secs(5)))).unwrap();
        assert_eq!([at(4), at(5)].map(|now| item.is_expired(now)), [false, true]);
    }

    #[test]
    fn an_item_of_another_form_is_an_error() {
        let item = of_test(&record(), number(1));
        for broken in ["status", "runs", "testId", "expiresAt"] {
            let mut item = item.clone();
            item.remove(broken);
            assert!(matches!(TestItem::read(item), Err(TestStoreError::Unreadable(_))), "{broken}");
        }
        assert!(matches!(definition(&item), Err(TestStoreError::Unreadable(_))));
    }

    #[test]
    fn a_definition_that_no_item_holds_is_refused() {
        let mut record = record();
        let producers = record.test.producers.as_mut().unwrap();
        producers.payload = mq::Payload::Fixed { body: mq::Base64Bytes(vec![7; 300_000]) };
        let refused = of_definition(&record, number(1)).unwrap_err();
        assert!(matches!(refused, TestStoreError::TooLarge { what: "definition", .. }), "{refused}");
    }
}
