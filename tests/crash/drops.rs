//! `drop-intake` dies at every step of taking an object, and the object is replaced while it is
//! taken. However it went, each version that is announced again is one batch: one id, one item, one
//! payload.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_s3::types::{BucketVersioningStatus, VersioningConfiguration};
use end_to_end::{Records, TENANT_A, variable};
use ingestion::payload::Source;
use serde_json::{Value, json};
use test_support::event_bus::FakeEventBus;
use uuid::Uuid;

use crate::crash::stand::faults::{Faults, Held, Op};
use crate::crash::stand::function::{Function, Invoked};
use crate::crash::stand::store::StoreProxy;
use crate::crash::stand::{deployed, store_variables};

/// The writes of one object, in their order, each with how many of its kind are before it: the
/// claim, the item, the result, the tags, the copy, the record's end.
const STEPS: [(Op, usize); 6] = [
    (Op::Claim, 0),
    (Op::PutBatch, 0),
    (Op::PutObject, 0),
    (Op::PutObject, 1),
    (Op::PutObject, 2),
    (Op::Complete, 0),
];
const COPY: (Op, usize) = STEPS[4];

/// The function, a bucket of its own without notifications, and the proxy between them.
struct Intake {
    faults: Faults,
    function: Function,
    records: Records,
    s3: aws_sdk_s3::Client,
    items: aws_sdk_dynamodb::Client,
    bucket: String,
    bus: FakeEventBus,
    _stores: StoreProxy,
}

impl Intake {
    async fn start() -> Self {
        let sdk = runtime::Sdk::from_environment().await.single_attempt(Duration::from_secs(20));
        let s3 = aws_sdk_s3::Client::new(&sdk);
        let bucket = format!("drops-{}", Uuid::new_v4().simple());
        s3.create_bucket().bucket(&bucket).send().await.unwrap();
        let faults = Faults::default();
        let stores = StoreProxy::start(faults.clone()).await;
        let mut variables = store_variables(&stores);
        variables.push(("PAYLOAD_BUCKET", bucket.clone()));
        let bus = FakeEventBus::start().await;
        variables.extend([
            ("DROPS_QUEUE_URL", variable("DROPS_QUEUE_URL")),
            ("EVENT_BUS", "news".to_owned()),
            ("AWS_ENDPOINT_URL_EVENTBRIDGE", bus.endpoint()),
        ]);
        let deployed = deployed("DropIntakeFunction", &variables);
        let function = Function::new(deployed, &variables);
        function.warm().await;
        Self {
            faults,
            function,
            records: Records::open().await,
            items: aws_sdk_dynamodb::Client::new(&sdk),
            s3,
            bucket,
            bus,
            _stores: stores,
        }
    }

    /// Puts a version of an object, and returns its idempotency key.
    async fn put(&self, key: &str, content: &str) -> String {
        let put = self.s3.put_object().bucket(&self.bucket).key(key);
        put.body(content.as_bytes().to_vec().into()).send().await.unwrap();
        let head = self.s3.head_object().bucket(&self.bucket).key(key).send().await.unwrap();
        let source = Source {
            bucket: self.bucket.clone(),
            key: key.to_owned(),
            etag: head.e_tag.unwrap(),
            version_id: None,
        };
        let modified_at = jiff::Timestamp::from_second(head.last_modified.unwrap().secs()).unwrap();
        ingestion::drops::idempotency_key(&source, modified_at)
    }

    /// Announces an object, and returns whether the message is done.
    async fn announce(&self, key: &str) -> bool {
        self.is_done(self.event(key)).await
    }

    async fn is_done(&self, event: String) -> bool {
        match self.function.invoke(event.into()).await {
            Invoked::Answered(answer) => {
                let answer: Value = serde_json::from_slice(&answer).unwrap();
                answer["batchItemFailures"].as_array().unwrap().is_empty()
            }
            Invoked::Failed(_) | Invoked::TimedOut(_) => false,
        }
    }

    fn event(&self, key: &str) -> String {
        self.event_of(key, None)
    }

    fn event_of(&self, key: &str, version_id: Option<&str>) -> String {
        let object = json!({"key": key, "versionId": version_id});
        let notification = json!({"Records": [{
            "eventVersion": "2.2", "eventSource": "aws:s3", "awsRegion": "us-east-1",
            "eventTime": "2026-11-22T01:00:00Z", "eventName": "ObjectCreated:Put", "userIdentity": {},
            "requestParameters": {}, "responseElements": {},
            "s3": {"s3SchemaVersion": "1.0", "bucket": {"name": self.bucket}, "object": object},
        }]});
        let message = json!({"eventSource": "aws:sqs", "messageId": "m-1", "body": notification.to_string()});
        json!({"Records": [message]}).to_string()
    }

    /// Announces an object, and kills the function where a request is held.
    async fn die(&self, key: &str, held: Held) {
        self.die_of(self.event(key), held).await;
    }

    async fn die_of(&self, event: String, mut held: Held) {
        let function = self.function.clone();
        let sent = tokio::spawn(async move { function.invoke(event.into()).await });
        held.reached().await;
        self.function.kill();
        assert!(matches!(sent.await.unwrap(), Invoked::Failed(_)));
        drop(held);
        self.faults.clear();
        self.function.settled().await;
    }

    /// Ends the record's lease, if there is a record, as time does.
    async fn age(&self, idempotency_key: &str) {
        if let Some(record) = self.records.find("DROP", idempotency_key).await
            && record["status"].as_s().is_ok_and(|status| status == "IN_PROGRESS")
        {
            let over = AttributeValue::N("1".to_owned());
            self.records.set("DROP", idempotency_key, &[("leaseExpiresAt", over)]).await;
        }
    }

    /// Ends the lease of a record of another tenant's.
    async fn end_lease(&self, tenant: &str, idempotency_key: &str) {
        let pk = AttributeValue::S(format!("DROP#{tenant}#{idempotency_key}"));
        let update = self.items.update_item().table_name(variable("IDEMPOTENCY_TABLE")).key("pk", pk);
        let update = update.update_expression("SET leaseExpiresAt = :over");
        update.expression_attribute_values(":over", AttributeValue::N("1".to_owned())).send().await.unwrap();
    }

    /// The items of all batches that the key ever made.
    async fn batches(&self, idempotency_key: &str) -> Vec<HashMap<String, AttributeValue>> {
        let query = self
            .items
            .query()
            .table_name(variable("BATCHES_TABLE"))
            .key_condition_expression("tenantId = :tenant")
            .filter_expression("idempotencyKey = :key")
            .expression_attribute_values(":tenant", AttributeValue::S(TENANT_A.to_owned()))
            .expression_attribute_values(":key", AttributeValue::S(idempotency_key.to_owned()));
        query.into_paginator().items().send().try_collect().await.unwrap()
    }

    /// The payloads of a batch.
    async fn payloads(&self, batch_id: &str) -> Vec<String> {
        let list = self.s3.list_objects_v2().bucket(&self.bucket).prefix("incoming/").send().await.unwrap();
        let keys = list.contents.unwrap_or_default().into_iter().filter_map(|object| object.key);
        keys.filter(|key| key.ends_with(batch_id)).collect()
    }

    /// Lets a tenant drop files from now on, or no longer.
    async fn grant(&self, tenant: &str, is_given: bool) {
        let (table, pk) = (variable("ACCESS_TABLE"), AttributeValue::S(format!("DROPS#{tenant}")));
        if is_given {
            let put = self.items.put_item().table_name(table).item("pk", pk);
            put.item("allCnpjs", AttributeValue::Bool(true)).send().await.unwrap();
        } else {
            self.items.delete_item().table_name(table).key("pk", pk).send().await.unwrap();
        }
        // What a function remembers of a grant ends with its process.
        self.function.end_idle();
    }

    /// Makes the bucket keep versions from now on.
    async fn keep_versions(&self) {
        let enabled = VersioningConfiguration::builder().status(BucketVersioningStatus::Enabled).build();
        let put = self.s3.put_bucket_versioning().bucket(&self.bucket);
        put.versioning_configuration(enabled).send().await.unwrap();
    }

    /// Puts a version of an object that keeps its others; its id, and its idempotency key.
    async fn put_version(&self, key: &str, content: &str) -> (String, String) {
        let put = self.s3.put_object().bucket(&self.bucket).key(key);
        let put = put.body(content.as_bytes().to_vec().into()).send().await.unwrap();
        let (bucket, key, etag) = (self.bucket.clone(), key.to_owned(), put.e_tag.unwrap());
        let source = Source { bucket, key, etag, version_id: put.version_id.clone() };
        (put.version_id.unwrap(), ingestion::drops::idempotency_key(&source, jiff::Timestamp::UNIX_EPOCH))
    }

    /// The id of the only batch of a version.
    async fn batch_of(&self, idempotency_key: &str) -> String {
        let batches = self.batches(idempotency_key).await;
        let [batch] = &batches[..] else { panic!("{batches:?}") };
        assert_eq!(batch["status"].as_s().unwrap(), "RECEIVED");
        batch["batchId"].as_s().unwrap().to_owned()
    }

    async fn get(&self, key: &str) -> Vec<u8> {
        let object = self.s3.get_object().bucket(&self.bucket).key(key).send().await.unwrap();
        object.body.collect().await.unwrap().to_vec()
    }

    async fn result(&self, key: &str) -> Value {
        serde_json::from_slice(&self.get(&ingestion::drops::result_key(key)).await).unwrap()
    }

    async fn tags(&self, key: &str) -> HashMap<String, String> {
        let tags = self.s3.get_object_tagging().bucket(&self.bucket).key(key).send().await.unwrap();
        tags.tag_set.into_iter().map(|tag| (tag.key, tag.value)).collect()
    }

    /// The version is one batch, which has arrived, and everything says so.
    async fn is_one_batch(&self, key: &str, idempotency_key: &str, content: &str, what: &str) {
        let batches = self.batches(idempotency_key).await;
        let [batch] = &batches[..] else { panic!("{what}: {batches:?}") };
        let batch_id = batch["batchId"].as_s().unwrap();
        assert_eq!(batch["status"].as_s().unwrap(), "RECEIVED", "{what}");
        let payloads = self.payloads(batch_id).await;
        let [payload] = &payloads[..] else { panic!("{what}: {payloads:?}") };
        assert_eq!(self.get(payload).await, content.as_bytes(), "{what}");
        let (result, tags) = (self.result(key).await, self.tags(key).await);
        assert_eq!(
            (&result["status"], &result["batch_id"]),
            (&json!("RECEIVED"), &json!(batch_id)),
            "{what}"
        );
        assert_eq!((tags["drop"].as_str(), &tags["batch"]), ("accepted", batch_id), "{what}");
    }
}

fn key(name: &str) -> String {
    format!("drop/{TENANT_A}/delta/{name}.json")
}

#[tokio::test]
async fn an_object_survives_a_crash_at_every_step() {
    let intake = Intake::start().await;
    for (index, (op, nth)) in STEPS.into_iter().enumerate() {
        for before in [true, false] {
            let what = format!("{} {op:?} {nth}", if before { "before" } else { "after" });
            let (key, content) = (key(&format!("{index}-{before}")), format!("[{index}]"));
            let idempotency_key = intake.put(&key, &content).await;
            let held = if before {
                intake.faults.hold_nth_request(op, nth)
            } else {
                intake.faults.hold_nth_answer(op, nth)
            };
            intake.die(&key, held).await;
            intake.age(&idempotency_key).await;
            assert!(intake.announce(&key).await, "{what}");
            intake.is_one_batch(&key, &idempotency_key, &content, &what).await;
            assert!(intake.announce(&key).await, "{what}");
            intake.is_one_batch(&key, &idempotency_key, &content, &what).await;
        }
    }
}

#[tokio::test]
async fn an_object_that_is_replaced_while_it_is_taken_is_another_batch_and_no_mixture() {
    let intake = Intake::start().await;
    let key = key("replaced");
    let first = intake.put(&key, "[1]").await;
    let (op, nth) = COPY;
    let mut held = intake.faults.hold_nth_request(op, nth);
    let (function, event) = (intake.function.clone(), intake.event(&key));
    let sent = tokio::spawn(async move { function.invoke(event.into()).await });
    held.reached().await;
    let second = intake.put(&key, "[1,2]").await;
    assert_ne!(first, second);
    held.release();
    let Invoked::Answered(answer) = sent.await.unwrap() else { panic!() };
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["batchItemFailures"], json!([{"itemIdentifier": "m-1"}]));
    // Nobody will ever put the first version's payload.
    let batches = intake.batches(&first).await;
    assert_eq!(batches[0]["status"].as_s().unwrap(), "AWAITING_UPLOAD");
    assert!(intake.payloads(batches[0]["batchId"].as_s().unwrap()).await.is_empty());
    assert!(intake.announce(&key).await);
    intake.is_one_batch(&key, &second, "[1,2]", "the second version").await;
}

#[tokio::test]
async fn what_a_tenant_may_do_later_changes_no_decision_about_a_version() {
    let (intake, tenant) = (Intake::start().await, Uuid::new_v4().to_string());
    let key = |name: &str| format!("drop/{tenant}/delta/{name}.json");
    let said = async |key: &str| (intake.result(key).await, intake.tags(key).await);

    intake.grant(&tenant, true).await;
    intake.put(&key("accepted"), "[1]").await;
    assert!(intake.announce(&key("accepted")).await);
    let accepted = said(&key("accepted")).await;
    assert_eq!((&accepted.0["status"], accepted.1["drop"].as_str()), (&json!("RECEIVED"), "accepted"));
    // An attempt that died has decided, too.
    let unfinished = intake.put(&key("unfinished"), "[1]").await;
    intake.die(&key("unfinished"), intake.faults.hold_nth_answer(Op::PutBatch, 0)).await;

    intake.grant(&tenant, false).await;
    assert!(intake.announce(&key("accepted")).await);
    assert_eq!(said(&key("accepted")).await, accepted);
    intake.end_lease(&tenant, &unfinished).await;
    assert!(intake.announce(&key("unfinished")).await);
    assert_eq!(said(&key("unfinished")).await.1["drop"], "accepted");
    intake.put(&key("refused"), "[1]").await;
    assert!(intake.announce(&key("refused")).await);
    let refused = said(&key("refused")).await;
    assert_eq!((&refused.0["status"], refused.1["drop"].as_str()), (&json!("REFUSED"), "refused"));

    intake.grant(&tenant, true).await;
    assert!(intake.announce(&key("refused")).await);
    assert_eq!(said(&key("refused")).await, refused);
    intake.put(&key("refused"), "[1,2]").await;
    assert!(intake.announce(&key("refused")).await);
    assert_eq!(said(&key("refused")).await.0["status"], "RECEIVED");
    intake.grant(&tenant, false).await;
}

/// Else it would replace the products and the result of its successor.
#[tokio::test]
async fn a_version_that_is_announced_after_its_successor_is_an_earlier_batch_without_a_result() {
    let intake = Intake::start().await;
    intake.keep_versions().await;
    let key = key("versions");
    let (older, older_key) = intake.put_version(&key, "[1]").await;
    let (newer, newer_key) = intake.put_version(&key, "[1,2]").await;
    assert!(intake.is_done(intake.event_of(&key, Some(&newer))).await);
    let newest = intake.batch_of(&newer_key).await;
    let result = intake.result(&key).await;
    assert_eq!((&result["batch_id"], &result["object"]["version_id"]), (&json!(newest), &json!(newer)));

    let late = intake.event_of(&key, Some(&older));
    for (op, nth) in [(Op::PutBatch, 0), COPY] {
        let held = intake.faults.hold_nth_answer(op, nth.saturating_sub(1));
        intake.die_of(late.clone(), held).await;
        intake.age(&older_key).await;
    }
    assert!(intake.is_done(late.clone()).await);
    assert!(intake.is_done(late).await);
    let earlier = intake.batch_of(&older_key).await;
    // Ids of batches are in the order of their receipt.
    assert!(earlier < newest, "{earlier} {newest}");
    let payloads = intake.payloads(&earlier).await;
    assert_eq!((payloads.len(), intake.get(&payloads[0]).await), (1, b"[1]".to_vec()));
    assert_eq!(intake.result(&key).await, result);
    assert_eq!(intake.tags(&key).await["batch"], newest);

    // A later version that is deleted leaves the attempt's decision as it was.
    let (third, third_key) = intake.put_version(&key, "[3]").await;
    let (fourth, _) = intake.put_version(&key, "[4]").await;
    let event = intake.event_of(&key, Some(&third));
    intake.die_of(event.clone(), intake.faults.hold_nth_answer(Op::PutBatch, 0)).await;
    intake.age(&third_key).await;
    intake.s3.delete_object().bucket(&intake.bucket).key(&key).version_id(fourth).send().await.unwrap();
    assert!(intake.is_done(event).await);
    intake.batch_of(&third_key).await;
}

/// The result is its successor's.
#[tokio::test]
async fn an_older_version_that_is_refused_has_tags_and_no_result() {
    let intake = Intake::start().await;
    intake.keep_versions().await;
    let key = format!("drop/{TENANT_A}/all/versions.json");
    let (older, _) = intake.put_version(&key, "[1]").await;
    let (newer, _) = intake.put_version(&key, "[2]").await;
    for version in [&newer, &older] {
        assert!(intake.is_done(intake.event_of(&key, Some(version))).await);
        assert_eq!(intake.result(&key).await["object"]["version_id"], json!(newer));
        let tags = intake.s3.get_object_tagging().bucket(&intake.bucket).key(&key).version_id(version);
        assert!(tags.send().await.unwrap().tag_set.iter().any(|tag| tag.value == "KEY_UNKNOWN"));
    }
}

#[tokio::test]
async fn deliveries_side_by_side_make_one_batch() {
    let intake = Intake::start().await;
    let key = key("twice");
    let idempotency_key = intake.put(&key, "[]").await;
    let both = tokio::join!(intake.announce(&key), intake.announce(&key), intake.announce(&key));
    assert!(both.0 || both.1 || both.2, "one of them took it");
    assert!(intake.announce(&key).await);
    intake.is_one_batch(&key, &idempotency_key, "[]", "announced four times").await;
}

#[tokio::test]
async fn a_refusal_is_published_at_least_once_and_tagged_when_it_was() {
    let intake = Intake::start().await;
    let key = format!("drop/{TENANT_A}/all/refused.json");
    intake.put(&key, "[]").await;
    intake.bus.go_away(true);
    assert!(!intake.announce(&key).await);
    assert_eq!(intake.result(&key).await["status"], "REFUSED");
    assert!(intake.tags(&key).await.is_empty(), "reconcile would announce it again");

    intake.bus.go_away(false);
    let held = intake.faults.hold_nth_request(Op::PutObject, 1);
    intake.die(&key, held).await;
    assert!(intake.announce(&key).await);
    assert_eq!(intake.tags(&key).await["reason"], "KEY_UNKNOWN");
    let events = intake.bus.on_the_bus();
    let [first, second] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&first["id"], &first["data"]), (&second["id"], &second["data"]));
    assert_eq!((&first["type"], &first["tenant"]), (&json!("integrahub.drop.refused"), &json!(TENANT_A)));
}
