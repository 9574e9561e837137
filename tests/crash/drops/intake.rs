//! Process of `drop-intake` for one test, with clients for what it reads and writes.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_s3::types::{BucketVersioningStatus, VersioningConfiguration};
use end_to_end::{Records, TENANT_A, variable};
use ingestion::payload::Source;
use serde_json::{Value, json};
use test_support::event_bus::FakeEventBus;
use uuid::Uuid;

use crate::crash::stand::faults::{Faults, Held};
use crate::crash::stand::function::{Function, Invoked};
use crate::crash::stand::store::StoreProxy;
use crate::crash::stand::{deployed, store_variables};

/// Process of `drop-intake`, an S3 bucket without notifications, the proxy between the two, and the
/// test's own clients.
pub(super) struct Intake {
    pub(super) faults: Faults,
    pub(super) function: Function,
    records: Records,
    pub(super) s3: aws_sdk_s3::Client,
    items: aws_sdk_dynamodb::Client,
    pub(super) bucket: String,
    pub(super) bus: FakeEventBus,
    _stores: StoreProxy,
}

impl Intake {
    pub(super) async fn start() -> Self {
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

    /// Puts an object, which replaces its earlier version. Returns the idempotency key that the
    /// function derives from the version.
    pub(super) async fn put(&self, key: &str, content: &str) -> String {
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

    /// Invokes the function with a notification of an object. Returns true if the function is done
    /// with the message, and false if SQS would deliver it again.
    pub(super) async fn announce(&self, key: &str) -> bool {
        self.is_done(self.event(key)).await
    }

    pub(super) async fn is_done(&self, event: String) -> bool {
        match self.function.invoke(event.into()).await {
            Invoked::Answered(answer) => {
                let answer: Value = serde_json::from_slice(&answer).unwrap();
                answer["batchItemFailures"].as_array().unwrap().is_empty()
            }
            Invoked::Failed(_) | Invoked::TimedOut(_) => false,
        }
    }

    pub(super) fn event(&self, key: &str) -> String {
        self.event_of(key, None)
    }

    pub(super) fn event_of(&self, key: &str, version_id: Option<&str>) -> String {
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

    /// Invokes the function with a notification of an object, and kills it when the proxy holds the
    /// request `held`.
    pub(super) async fn die(&self, key: &str, held: Held) {
        self.die_of(self.event(key), held).await;
    }

    pub(super) async fn die_of(&self, event: String, mut held: Held) {
        let function = self.function.clone();
        let sent = tokio::spawn(async move { function.invoke(event.into()).await });
        held.reached().await;
        self.function.kill();
        assert!(matches!(sent.await.unwrap(), Invoked::Failed(_)));
        drop(held);
        self.faults.clear();
        self.function.settled().await;
    }

    /// Ends the lease of the key's record, if there is one, as if its time were over.
    pub(super) async fn age(&self, idempotency_key: &str) {
        if let Some(record) = self.records.find("DROP", idempotency_key).await
            && record["status"].as_s().is_ok_and(|status| status == "IN_PROGRESS")
        {
            let over = AttributeValue::N("1".to_owned());
            self.records.set("DROP", idempotency_key, &[("leaseExpiresAt", over)]).await;
        }
    }

    /// Ends the lease of a record of any tenant. [`Self::age`] does that for tenant A.
    pub(super) async fn end_lease(&self, tenant: &str, idempotency_key: &str) {
        let pk = AttributeValue::S(format!("DROP#{tenant}#{idempotency_key}"));
        let update = self.items.update_item().table_name(variable("IDEMPOTENCY_TABLE")).key("pk", pk);
        let update = update.update_expression("SET leaseExpiresAt = :over");
        update.expression_attribute_values(":over", AttributeValue::N("1".to_owned())).send().await.unwrap();
    }

    /// Returns the batch items of tenant A that were ever made under this idempotency key.
    pub(super) async fn batches(&self, idempotency_key: &str) -> Vec<HashMap<String, AttributeValue>> {
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

    /// Returns the S3 keys of a batch's payloads.
    pub(super) async fn payloads(&self, batch_id: &str) -> Vec<String> {
        let list = self.s3.list_objects_v2().bucket(&self.bucket).prefix("incoming/").send().await.unwrap();
        let keys = list.contents.unwrap_or_default().into_iter().filter_map(|object| object.key);
        keys.filter(|key| key.ends_with(batch_id)).collect()
    }

    /// Grants a tenant the right to drop files, or withdraws it. Ends idle processes, since a
    /// process caches the grant.
    pub(super) async fn grant(&self, tenant: &str, is_given: bool) {
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

    /// Enables versioning in the bucket.
    pub(super) async fn keep_versions(&self) {
        let enabled = VersioningConfiguration::builder().status(BucketVersioningStatus::Enabled).build();
        let put = self.s3.put_bucket_versioning().bucket(&self.bucket);
        put.versioning_configuration(enabled).send().await.unwrap();
    }

    /// Puts a further version of an object in the versioned bucket. Returns its version id, and the
    /// idempotency key that the function derives from it.
    pub(super) async fn put_version(&self, key: &str, content: &str) -> (String, String) {
        let put = self.s3.put_object().bucket(&self.bucket).key(key);
        let put = put.body(content.as_bytes().to_vec().into()).send().await.unwrap();
        let (bucket, key, etag) = (self.bucket.clone(), key.to_owned(), put.e_tag.unwrap());
        let source = Source { bucket, key, etag, version_id: put.version_id.clone() };
        (put.version_id.unwrap(), ingestion::drops::idempotency_key(&source, jiff::Timestamp::UNIX_EPOCH))
    }

    /// Returns the id of the only batch that was made under a version's idempotency key. Panics if
    /// there are none or several, or if its payload has not arrived.
    pub(super) async fn batch_of(&self, idempotency_key: &str) -> String {
        let batches = self.batches(idempotency_key).await;
        let [batch] = &batches[..] else { panic!("{batches:?}") };
        assert_eq!(batch["status"].as_s().unwrap(), "RECEIVED");
        batch["batchId"].as_s().unwrap().to_owned()
    }

    pub(super) async fn get(&self, key: &str) -> Vec<u8> {
        let object = self.s3.get_object().bucket(&self.bucket).key(key).send().await.unwrap();
        object.body.collect().await.unwrap().to_vec()
    }

    pub(super) async fn result(&self, key: &str) -> Value {
        serde_json::from_slice(&self.get(&ingestion::drops::result_key(key)).await).unwrap()
    }

    pub(super) async fn tags(&self, key: &str) -> HashMap<String, String> {
        let tags = self.s3.get_object_tagging().bucket(&self.bucket).key(key).send().await.unwrap();
        tags.tag_set.into_iter().map(|tag| (tag.key, tag.value)).collect()
    }

    /// Checks that a version of an object has become one batch with one payload of the same
    /// content, and that the result object and the tags name that batch. `what` names the fault in
    /// failures.
    pub(super) async fn is_one_batch(&self, key: &str, idempotency_key: &str, content: &str, what: &str) {
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
