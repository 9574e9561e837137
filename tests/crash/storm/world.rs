//! World of a storm test: an ingest with queues, a bucket, a table of batch items and a database
//! server that no other test has. It shares the API keys and the idempotency records of the stack.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use catalog::{Database, DatabaseConfig};
use end_to_end::{create_batches_table, variable};
use ingestion::batch::BatchStatus;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use test_support::event_bus::FakeEventBus;
use test_support::postgres::Cluster;
use tokio_postgres::{Client, NoTls, Row};
use uuid::Uuid;

use crate::crash::stand::faults::Faults;
use crate::crash::stand::function::{Function, Invoked};
use crate::crash::stand::store::StoreProxy;
use crate::crash::stand::{answer, deployed, http_event, store_variables};

use super::clients::Clients;
use super::delivery::{Delivery, Queue, Source};
use super::drops::Job;
use super::model::{Model, Owners};
use super::senders::{Sent, Tenant};
use super::topic::{EVENTS, FAILURES, Topic};

/// Maximum number of concurrent invocations of `upsert`. The next constants are those of the other
/// functions that read a queue.
const UPSERTS: usize = 4;
const CHUNKERS: usize = 2;
const DEAD_LETTERS: usize = 1;
const DISPATCHES: usize = 2;
const INTAKES: usize = 2;
const RECEIPTS: usize = 2;
/// Maximum number of database connections that the functions have together: one for each concurrent
/// invocation, including those of `batches` and `reconcile`.
pub(crate) const CONNECTIONS: i64 = 4 + 2 + 2 + 1 + 1;
/// `application_name` of the test's own database connections, by which they are told from the
/// functions'.
pub(crate) const TEST: &str = "storm";
/// Time without progress, in seconds, after which `reconcile` looks at a payload or a batch.
const STILL_SECONDS: u64 = 2;

/// Functions of a [`World`] to which a test delivers no messages and records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StandingStill {
    Nobody,
    Chunkers,
    Writers,
}

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) faults: Faults,
    pub(crate) delivery: Delivery,
    /// Kafka topic of chunks. `None` if chunks go through SQS, as failed chunks always do.
    pub(crate) topic: Option<Topic>,
    /// Stand-in for EventBridge. If it is there, events are published to it and to topics of the
    /// Kafka cluster. `None` if no events are published.
    pub(crate) bus: Option<FakeEventBus>,
    ingest: Function,
    batches: Function,
    dispatch: Function,
    intake: Function,
    chunker: Function,
    upsert: Function,
    dead_letter: Function,
    reconcile: Function,
    bucket: String,
    chunks_failed: Queue,
    unhandled: Queue,
    clients: Clients,
    _stores: StoreProxy,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::with(None, None, StandingStill::Nobody).await
    }

    /// Starts a world with Kafka between the chunker and `upsert`.
    pub(crate) async fn over_kafka() -> Self {
        Self::with(Some(Topic::start()), None, StandingStill::Nobody).await
    }

    /// Starts a world like [`Self::over_kafka`], in which events of batches are also published: to
    /// a stand-in for EventBridge and to topics of the same cluster.
    pub(crate) async fn with_events(still: StandingStill) -> Self {
        Self::with(Some(Topic::start()), Some(FakeEventBus::start().await), still).await
    }

    async fn with(mut topic: Option<Topic>, bus: Option<FakeEventBus>, still: StandingStill) -> Self {
        let name = format!("storm-{}", Uuid::new_v4().simple());
        let clients = Clients::new().await;
        let cluster = Cluster::start(&[]).await;
        Database::new(DatabaseConfig::from_url(&cluster.url()).unwrap()).migrate().await.unwrap();

        let unhandled = clients.queue(&name, "unhandled", None).await;
        let batches_failed = clients.queue(&name, "batches-failed", Some((&unhandled, 1000))).await;
        let received = clients.queue(&name, "batches-received", Some((&batches_failed, 5))).await;
        let chunks_failed = clients.queue(&name, "chunks-failed", Some((&unhandled, 1000))).await;
        let ready = clients.queue(&name, "chunks-ready", Some((&chunks_failed, 5))).await;
        // A storm outlasts the attempts that an object has, and the queue of unhandled messages is
        // not read.
        let dropped = clients.queue(&name, "drops-received", Some((&unhandled, 1000))).await;
        let receipts = clients.queue(&name, "receipts", Some((&unhandled, 1000))).await;
        let notifications = clients.queue(&name, "notifications", Some((&unhandled, 1000))).await;
        clients.bucket(&name, &notifications).await;
        create_batches_table(&clients.dynamodb, &name).await;
        clients.secret(&name).await;

        let faults = Faults::default();
        let stores = StoreProxy::start(faults.clone()).await;
        let mut variables = store_variables(&stores);
        variables.extend([
            ("DATABASE_SECRET_ARN", name.clone()),
            ("DATABASE_HOST", "127.0.0.1".to_owned()),
            ("DATABASE_PORT", cluster.server.port.to_string()),
            ("DATABASE_NAME", "postgres".to_owned()),
            ("DATABASE_TLS", "off".to_owned()),
            ("BATCHES_TABLE", name.clone()),
            ("PAYLOAD_BUCKET", name.clone()),
            ("BATCHES_QUEUE_URL", received.url.clone()),
            ("CHUNKS_QUEUE_URL", ready.url.clone()),
            ("BATCHES_FAILED_QUEUE_URL", batches_failed.url.clone()),
            ("CHUNKS_FAILED_QUEUE_URL", chunks_failed.url.clone()),
            ("UNHANDLED_QUEUE_URL", unhandled.url.clone()),
            ("DROPS_QUEUE_URL", dropped.url.clone()),
            ("NOTIFICATIONS_QUEUE_URL", notifications.url.clone()),
            ("RECEIPTS_QUEUE_URL", receipts.url.clone()),
            ("RETRY_BASE_SECONDS", "1".to_owned()),
            // The smallest size that is allowed, so that a catalogue has several chunks.
            ("CHUNK_ITEMS", "500".to_owned()),
            ("ESTABLISHMENT_OWNERS", "first".to_owned()),
            // Random catalogues have little in common, and the model has no deactivation guard.
            ("DEACTIVATION_GUARD_PERCENT", "100".to_owned()),
            ("RECONCILE_OBJECT_AGE", STILL_SECONDS.to_string()),
            ("RECONCILE_STOPPED_FOR", STILL_SECONDS.to_string()),
            ("RECONCILE_UNFINISHED_FOR", STILL_SECONDS.to_string()),
        ]);
        variables.extend(topic.iter().flat_map(Topic::variables));
        if let Some(bus) = &bus {
            variables.extend([
                ("EVENT_BUS", "news".to_owned()),
                ("AWS_ENDPOINT_URL_EVENTBRIDGE", bus.endpoint()),
                ("KAFKA_EVENTS_TOPIC", EVENTS.to_owned()),
                ("KAFKA_FAILURES_TOPIC", FAILURES.to_owned()),
            ]);
            clients.rule(&name, &receipts).await;
        }
        let function = |logical_id: &str| Function::new(deployed(logical_id, &variables), &variables);
        let dispatch = function("DispatchFunction");
        let intake = function("DropIntakeFunction");
        let chunker = function("ChunkerFunction");
        let upsert = function("UpsertFunction");
        let dead_letter = function("DeadLetterFunction");
        let unless = |who, at_once| if still == who { 0 } else { at_once };
        let (chunkers, upserts) =
            (unless(StandingStill::Chunkers, CHUNKERS), unless(StandingStill::Writers, UPSERTS));
        let delivery = Delivery::start(
            &clients.sqs,
            vec![
                Source { queue: notifications, function: dispatch.clone(), at_once: DISPATCHES },
                Source { queue: dropped, function: intake.clone(), at_once: INTAKES },
                Source { queue: received, function: chunker.clone(), at_once: chunkers },
                Source { queue: ready, function: upsert.clone(), at_once: upserts },
                Source { queue: batches_failed, function: dead_letter.clone(), at_once: DEAD_LETTERS },
                Source { queue: chunks_failed.clone(), function: dead_letter.clone(), at_once: DEAD_LETTERS },
                Source { queue: receipts, function: function("ReceiptsFunction"), at_once: RECEIPTS },
            ],
        );
        if let Some(topic) = topic.as_mut().filter(|_| upserts > 0) {
            topic.deliver_to(&upsert, delivery.weather());
        }
        Self {
            topic,
            bus,
            ingest: function("ProductIngestFunction"),
            batches: function("BatchesFunction"),
            reconcile: function("ReconcileFunction"),
            cluster,
            faults,
            delivery,
            dispatch,
            intake,
            bucket: name,
            chunker,
            upsert,
            dead_letter,
            chunks_failed,
            unhandled,
            clients,
            _stores: stores,
        }
    }

    pub(crate) fn functions(&self) -> impl Iterator<Item = &Function> {
        [
            &self.ingest,
            &self.batches,
            &self.dispatch,
            &self.intake,
            &self.chunker,
            &self.upsert,
            &self.dead_letter,
            &self.reconcile,
        ]
        .into_iter()
    }

    /// Creates `count` tenants, each with an API key that may read and write products.
    pub(crate) async fn tenants(&self, count: u32) -> Vec<Tenant> {
        let mut tenants = Vec::new();
        for index in 0..count {
            let (id, api_key) = (Uuid::new_v4(), Uuid::new_v4().to_string());
            let hash = hex::encode(Sha256::digest(api_key.as_bytes()));
            let scopes = ["products:read", "products:write"].map(str::to_owned);
            let put = self.clients.dynamodb.put_item().table_name(variable("ACCESS_TABLE"));
            put.item("pk", AttributeValue::S(format!("KEY#{hash}")))
                .item("tenantId", AttributeValue::S(id.to_string()))
                .item("scopes", AttributeValue::Ss(scopes.to_vec()))
                .item("allCnpjs", AttributeValue::Bool(true))
                .item("name", AttributeValue::S("storm".to_owned()))
                .send()
                .await
                .unwrap();
            tenants.push(Tenant::new(id, api_key, index, self.ingest.clone(), self.clients.dynamodb.clone()));
        }
        tenants
    }

    /// Creates a job that drops files of a tenant, and grants the tenant the right to drop files.
    pub(crate) async fn job(&self, tenant: &Tenant) -> Job {
        let put = self.clients.dynamodb.put_item().table_name(variable("ACCESS_TABLE"));
        put.item("pk", AttributeValue::S(format!("DROPS#{}", tenant.id)))
            .item("allCnpjs", AttributeValue::Bool(true))
            .send()
            .await
            .unwrap();
        Job::new(tenant.clone(), self.clients.s3.clone(), self.bucket.clone())
    }

    /// Invokes the function `reconcile` once, as its schedule does.
    pub(crate) async fn reconcile(&self) {
        self.reconcile.invoke(json!({}).to_string().into()).await;
    }

    /// Invokes `batches` with the event of an HTTP request.
    pub(crate) async fn ask(&self, event: &Value) -> Invoked {
        self.batches.invoke(event.to_string().into()).await
    }

    /// Lists the S3 keys of all payloads in this world's bucket.
    pub(crate) async fn payloads(&self) -> Vec<String> {
        let list = self.clients.s3.list_objects_v2().bucket(&self.bucket).prefix("incoming/");
        let mut pages = list.into_paginator().send();
        let mut keys = Vec::new();
        while let Some(page) = pages.next().await {
            keys.extend(
                page.unwrap().contents.unwrap_or_default().into_iter().filter_map(|object| object.key),
            );
        }
        keys
    }

    /// Opens a database connection for the test itself.
    pub(crate) async fn database(&self) -> Client {
        let mut config: tokio_postgres::Config = self.cluster.url().parse().unwrap();
        let (client, connection) = config.application_name(TEST).connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Returns the status of every batch in the database, by batch id.
    pub(crate) async fn statuses(&self) -> HashMap<Uuid, BatchStatus> {
        let rows = self.database().await.query("SELECT batch_id, status FROM batches", &[]).await.unwrap();
        let status = |row: &Row| serde_json::from_value(json!(row.get::<_, String>(1))).unwrap();
        rows.iter().map(|row| (row.get(0), status(row))).collect()
    }

    /// Invokes `reconcile`, and replays failed batches as a user would, until every batch is
    /// completed and every queue is empty. Panics after `patience`.
    pub(crate) async fn come_to_rest(&self, sent: &[Sent], patience: Duration) {
        let begin = Instant::now();
        loop {
            self.reconcile().await;
            let (statuses, mut open) = (self.statuses().await, Vec::new());
            for batch in sent {
                match statuses.get(&batch.batch_id) {
                    Some(BatchStatus::Completed) => {}
                    Some(BatchStatus::PartialFail | BatchStatus::Failed) => {
                        self.replay(batch, "failed").await;
                        open.push(batch.batch_id);
                    }
                    _ => open.push(batch.batch_id),
                }
            }
            let is_read = self.topic.as_ref().is_none_or(Topic::is_idle);
            if open.is_empty() && is_read && self.delivery.is_idle().await {
                return;
            }
            assert!(begin.elapsed() < patience, "still open: {open:?}; {}", self.delivery.summary());
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Sets the start of the history of loads to now, so that all batches are too old, and invokes
    /// `reconcile` until they are deleted. Panics after `patience`. A batch is deleted only once
    /// its S3 objects are released.
    pub(crate) async fn forget_batches(&self, patience: Duration) {
        let database = self.database().await;
        let sql = "UPDATE batches SET finished_at = received_at; \
             UPDATE batch_history SET kept_since = now(), announced_at = now() - interval '11 min'";
        database.batch_execute(sql).await.unwrap();
        // A payload whose batch is deleted is found again and fails, since no lifecycle removed it.
        let left = "SELECT count(*) FROM batches WHERE error->>'code' IS DISTINCT FROM 'TOO_OLD'";
        let begin = Instant::now();
        loop {
            self.reconcile().await;
            let left: i64 = database.query_one(left, &[]).await.unwrap().get(0);
            if left == 0 {
                return;
            }
            assert!(begin.elapsed() < patience, "{left} batches are not deleted");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Requests a replay of a batch as a user would. Panics if it is refused, except for a replay
    /// of failed chunks that have succeeded meanwhile.
    pub(crate) async fn replay(&self, batch: &Sent, scope: &str) {
        let path = format!("/v1/inovafarma/batches/{}/replay", batch.batch_id);
        let headers = json!({
            "content-type": "application/json",
            "idempotency-key": Uuid::new_v4().to_string(),
            "x-inova-api-key": batch.api_key,
        });
        let body = json!({"scope": scope}).to_string();
        let event = http_event("POST", &path, headers, body.as_bytes());
        let replayed = answer(&event, &self.batches.invoke(event.to_string().into()).await);
        // A chunk that failed may have succeeded late, before the replay of the failed ones.
        let came_late = replayed.status == 409 && scope == "failed";
        assert!(replayed.status == 202 || came_late, "{}", String::from_utf8_lossy(&replayed.bytes));
    }

    /// Returns the model of what the database must have after these batches. Reads the owners of
    /// the establishments from the database.
    pub(crate) async fn model(&self, sent: &[Sent]) -> Model {
        let rows = self.database().await.query("SELECT cnpj, tenant_id FROM establishments", &[]).await;
        let owners: Owners = rows.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect();
        Model::of(sent, &owners)
    }

    /// Returns every row of the table `products` as text, with the id of the transaction that wrote
    /// it.
    pub(crate) async fn snapshot(&self) -> Vec<String> {
        let sql = "SELECT xmin::text || products::text FROM products ORDER BY cnpj, shopid, productid";
        let rows = self.database().await.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Stores every payload again unchanged, as a request does that takes over an earlier one. S3
    /// notifies the ingest again.
    pub(crate) async fn store_again(&self) {
        for key in self.payloads().await {
            let s3 = &self.clients.s3;
            let payload = s3.get_object().bucket(&self.bucket).key(&key).send().await.unwrap();
            let put = s3.put_object().bucket(&self.bucket).key(&key).set_metadata(payload.metadata);
            let content = payload.body.collect().await.unwrap().into_bytes();
            put.body(content.into()).send().await.unwrap();
        }
    }

    /// Sends a chunk's message to the queue of chunks that failed too often.
    pub(crate) async fn fail_chunk(&self, message: &Value) {
        let send = self.clients.sqs.send_message().queue_url(&self.chunks_failed.url);
        send.message_body(message.to_string()).send().await.unwrap();
    }

    pub(crate) async fn unhandled(&self) -> usize {
        self.unhandled.length(&self.clients.sqs).await
    }
}
