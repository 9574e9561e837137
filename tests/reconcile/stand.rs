//! Ingest of a single test: a bucket, a table, queues and a database that no other test has. The
//! test invokes the functions itself. The bucket sends no notifications, as if all were lost.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use aws_sdk_sqs::types::DeleteMessageBatchRequestEntry;
use batch_items::BatchItems;
use catalog::{BatchView, Database, DatabaseConfig, OutboxMode, OwnerRule};
use chunker::Chunker;
use end_to_end::{TENANT_A, create_batches_table, variable};
use events::Publisher;
use futures_util::FutureExt as _;
use ingestion::Viewer;
use ingestion::generate::{Catalogue, Layout};
use ingestion::payload::{AcceptedBatch, LoadType, MediaType, PayloadMetadata};
use ingestion::product::CnpjAccess;
use jiff::{SignedDuration, Timestamp};
use objects::Objects;
use reconcile::{Reconcile, ReconcileError, Report, Settings};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use test_support::event_bus::FakeEventBus;
use tokio_postgres::{Client, NoTls};
use transport::{ChunkAnnouncer, ChunkQueue, NotificationQueue};
use upsert::Upsert;
use uuid::Uuid;
use worker::Visibility;

use crate::chunking::functions::batch as metadata;

/// Time until the deadline that a test gives to a function, long enough for a busy machine.
const TIME: Duration = Duration::from_secs(110);

pub(crate) struct Stand {
    pub(crate) s3: aws_sdk_s3::Client,
    pub(crate) bucket: String,
    pub(crate) accepted: BatchItems,
    /// Connection by which the test itself reads and changes the database.
    pub(crate) sql: Client,
    config: DatabaseConfig,
    pub(crate) dynamodb: aws_sdk_dynamodb::Client,
    sqs: aws_sdk_sqs::Client,
    pub(crate) table: String,
    received: String,
    chunks: String,
    dropped: String,
    publisher: OnceLock<Publisher>,
}

/// Runs a test with a new [`Stand`], and removes the stand afterwards, even if the test panics.
pub(crate) async fn stand_test(test: impl AsyncFnOnce(&Stand)) {
    let stand = Stand::open().await;
    let outcome = AssertUnwindSafe(test(&stand)).catch_unwind().await;
    stand.close().await;
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

impl Stand {
    async fn open() -> Self {
        let sdk = runtime::Sdk::from_environment().await;
        let patient = sdk.single_attempt(Duration::from_secs(60));
        let s3 = aws_sdk_s3::Client::new(&patient);
        let dynamodb = aws_sdk_dynamodb::Client::new(&patient);
        let sqs = aws_sdk_sqs::Client::new(&patient);
        let name = format!("reconcile-{}", Uuid::new_v4().simple());
        s3.create_bucket().bucket(&name).send().await.unwrap();
        create_batches_table(&dynamodb, &name).await;
        let queue = async |kind: &str| {
            let created = sqs.create_queue().queue_name(format!("{name}-{kind}")).send().await;
            created.unwrap().queue_url.unwrap()
        };
        let (config, sql) = create_database().await;
        Self {
            received: queue("received").await,
            chunks: queue("chunks").await,
            dropped: queue("dropped").await,
            accepted: BatchItems::new(dynamodb.clone(), name.clone()),
            sql,
            publisher: OnceLock::new(),
            bucket: name.clone(),
            table: name,
            s3,
            dynamodb,
            sqs,
            config,
        }
    }

    async fn close(self) {
        let list = self.s3.list_objects_v2().bucket(&self.bucket).into_paginator();
        let objects = list
            .send()
            .try_collect()
            .await
            .unwrap()
            .into_iter()
            .flat_map(|page| page.contents.unwrap_or_default());
        for object in objects {
            self.s3.delete_object().bucket(&self.bucket).key(object.key.unwrap()).send().await.unwrap();
        }
        self.s3.delete_bucket().bucket(&self.bucket).send().await.unwrap();
        self.dynamodb.delete_table().table_name(&self.table).send().await.unwrap();
        for queue in [&self.received, &self.chunks, &self.dropped] {
            self.sqs.delete_queue().queue_url(queue).send().await.unwrap();
        }
        let Self { sql, config, .. } = self;
        drop(sql);
        let administrator = connect(&DatabaseConfig::from_url(&variable("DATABASE_URL")).unwrap()).await;
        let statement = format!("DROP DATABASE {} WITH (FORCE)", config.dbname);
        // An autovacuum worker may be connected for a moment, and only a superuser may end it.
        for _ in 0..100 {
            if administrator.batch_execute(&statement).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{} cannot be dropped", config.dbname);
    }

    /// Returns the function `reconcile` with its usual settings, except that every object is old
    /// enough for it.
    pub(crate) fn reconcile(&self) -> Reconcile {
        Reconcile {
            objects: Objects::new(self.s3.clone(), self.bucket.clone()),
            accepted: self.accepted.clone(),
            database: self.database(),
            publisher: self.publisher(),
            queue: NotificationQueue::new(self.sqs.clone(), self.received.clone()),
            drops: Some(NotificationQueue::new(self.sqs.clone(), self.dropped.clone())),
            drop_bucket: None,
            settings: Settings { object_age: Duration::ZERO, ..Settings::default() },
        }
    }

    /// Returns the function `reconcile` with a database that cannot be reached.
    pub(crate) fn without_database(&self) -> Reconcile {
        let config = DatabaseConfig { port: 1, ..self.config.clone() };
        Reconcile { database: Database::new(config), ..self.reconcile() }
    }

    /// Returns the function `reconcile` with a queue of payloads that does not exist.
    pub(crate) fn without_queue(&self) -> Reconcile {
        let queue = NotificationQueue::new(self.sqs.clone(), format!("{}-gone", self.received));
        Reconcile { queue, ..self.reconcile() }
    }

    pub(crate) fn database(&self) -> Database {
        Database::new(self.config.clone())
            .with_outbox(OutboxMode::needed_by(&self.publisher()))
            .with_owner_rule(OwnerRule::First)
    }

    /// Makes the functions publish events to this stand-in for EventBridge. Panics if it is called
    /// twice.
    pub(crate) async fn publish_to(&self, bus: &FakeEventBus) {
        let sdk = runtime::Sdk::at(&bus.endpoint(), "us-east-1", "key", "secret").await;
        let settings = events::Settings { bus: Some("news".to_owned()), ..events::Settings::default() };
        self.publisher.set(Publisher::of(&sdk, settings)).unwrap();
    }

    fn publisher(&self) -> Publisher {
        self.publisher.get().cloned().unwrap_or_else(|| Publisher::new(Vec::new()))
    }

    /// Handles all messages by the chunker and `upsert`. Returns the numbers of messages about
    /// payloads and about chunks.
    pub(crate) async fn work(&self) -> (usize, usize) {
        let payloads = self.cut().await;
        let upsert = Upsert {
            objects: Objects::new(self.s3.clone(), self.bucket.clone()),
            database: self.database(),
            publisher: self.publisher(),
            queue: ChunkQueue::new(self.sqs.clone(), self.chunks.clone()),
            visibility: Visibility::new(self.sqs.clone(), self.chunks.clone(), Duration::from_secs(1)),
        };
        let mut chunks = 0;
        while let Some(event) = self.take(&self.chunks).await {
            let answer = worker::serve(&upsert, event, SystemTime::now() + TIME).await.unwrap();
            assert!(answer.batch_item_failures.is_empty(), "{answer:?}");
            chunks += 1;
        }
        (payloads, chunks)
    }

    /// Handles all messages about payloads by the chunker, and returns their number.
    pub(crate) async fn cut(&self) -> usize {
        let mut environment = runtime::Environment::of(|_| None);
        let chunker = Chunker {
            objects: Objects::new(self.s3.clone(), self.bucket.clone()),
            accepted: self.accepted.clone(),
            database: self.database(),
            publisher: self.publisher(),
            announcer: ChunkAnnouncer::Queue(ChunkQueue::new(self.sqs.clone(), self.chunks.clone())),
            visibility: Visibility::new(self.sqs.clone(), self.received.clone(), Duration::from_secs(1)),
            settings: chunker::Settings::read(&mut environment),
        };
        let mut payloads = 0;
        while let Some(event) = self.take(&self.received).await {
            let answer = chunker.handle(event, SystemTime::now() + TIME).await.unwrap();
            assert!(answer.batch_item_failures.is_empty(), "{answer:?}");
            payloads += 1;
        }
        payloads
    }

    /// Removes all messages about chunks as if they were lost, and returns their number.
    pub(crate) async fn lose_chunks(&self) -> usize {
        let mut lost = 0;
        while self.take(&self.chunks).await.is_some() {
            lost += 1;
        }
        lost
    }

    /// Removes all notifications for `drop-intake`, and returns the keys of their objects, sorted.
    pub(crate) async fn notified_drops(&self) -> Vec<String> {
        self.notified_objects().await.into_iter().map(|(_, key)| key).collect()
    }

    /// Removes all notifications for `drop-intake`, and returns buckets and keys of their objects,
    /// sorted.
    pub(crate) async fn notified_objects(&self) -> Vec<(String, String)> {
        let mut keys = Vec::new();
        loop {
            let receive = self.sqs.receive_message().queue_url(&self.dropped).max_number_of_messages(10);
            let messages = receive.send().await.unwrap().messages.unwrap_or_default();
            if messages.is_empty() {
                keys.sort();
                return keys;
            }
            let mut delete = self.sqs.delete_message_batch().queue_url(&self.dropped);
            for (number, message) in messages.iter().enumerate() {
                let body = serde_json::from_str(message.body().unwrap()).unwrap();
                let notices = transport::read_payload_notices(body).unwrap();
                keys.extend(notices.into_iter().map(|notice| (notice.bucket, notice.key)));
                let entry = DeleteMessageBatchRequestEntry::builder().id(number.to_string());
                let entry = entry.receipt_handle(message.receipt_handle().unwrap()).build().unwrap();
                delete = delete.entries(entry);
            }
            assert!(delete.send().await.unwrap().failed().is_empty());
        }
    }

    /// Removes a message from a queue, and returns it as the event of a function. Returns `None` if
    /// the queue is empty.
    async fn take(&self, queue: &str) -> Option<Value> {
        let received = self.sqs.receive_message().queue_url(queue).send().await.unwrap();
        let message = received.messages.unwrap_or_default().into_iter().next()?;
        let receipt = message.receipt_handle.unwrap();
        self.sqs.delete_message().queue_url(queue).receipt_handle(&receipt).send().await.unwrap();
        Some(json!({"Records": [{
            "messageId": message.message_id, "receiptHandle": receipt, "body": message.body, "md5OfBody": message.md5_of_body,
            "attributes": {"ApproximateReceiveCount": "1"}, "messageAttributes": {}, "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:reconcile-test", "awsRegion": "us-east-1",
        }]}))
    }

    /// Stores the batch item of an accepted batch, but no payload.
    pub(crate) async fn accept(&self, batch: &AcceptedBatch) {
        self.accepted.put(batch).await.unwrap();
    }

    /// Stores the payload of a batch, a random catalogue with this number of products.
    pub(crate) async fn put(&self, metadata: &PayloadMetadata, items: u32) {
        let catalogue =
            Catalogue { seed: fastrand::u64(..), items, establishments: 2, ..Catalogue::default() };
        let put = self.s3.put_object().bucket(&self.bucket).key(metadata.key());
        let put = put.set_metadata(Some(metadata.to_map().into_iter().collect()));
        put.body(catalogue.payload(Layout::Array).into()).send().await.unwrap();
    }

    /// Returns the integer in the first column of a query's only row.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        self.sql.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// Stores the batch item and the payload of a new batch, without a notification. Returns the
    /// batch's id.
    pub(crate) async fn lose(&self, load_type: LoadType, items: u32) -> Uuid {
        let batch = batch(load_type);
        self.accept(&batch).await;
        self.put(&batch.metadata, items).await;
        batch.metadata.batch_id
    }

    pub(crate) async fn batch(&self, batch_id: Uuid) -> BatchView {
        self.database().batch(&Viewer::whole(TENANT_A.parse().unwrap()), batch_id).await.unwrap().unwrap()
    }

    /// Moves the times of all batches back by `hours`, as if they had passed.
    pub(crate) async fn age(&self, hours: u32) {
        let sql = format!(
            "UPDATE batches SET moved_at = moved_at - interval '{hours} h', reconciled_at = reconciled_at - interval '{hours} h', \
             generation_began_at = generation_began_at - interval '{hours} h', finished_at = finished_at - interval '{hours} h'"
        );
        self.sql.batch_execute(&sql).await.unwrap();
    }
}

/// Invokes `reconcile` once, as its schedule does.
pub(crate) async fn run(reconcile: &Reconcile) -> Result<Report, ReconcileError> {
    reconcile.handle(&json!({}), SystemTime::now() + TIME).await
}

/// Returns a new batch of tenant A that was received now.
pub(crate) fn batch(load_type: LoadType) -> AcceptedBatch {
    AcceptedBatch {
        metadata: PayloadMetadata { load_type, ..metadata(MediaType::Json) },
        payload_bytes: None,
        cnpjs: CnpjAccess::Any,
        upload_expires_at: None,
    }
}

/// Returns a batch for an upload that was requested `hours_ago` hours ago and expired 15 minutes
/// later.
pub(crate) fn upload(hours_ago: i64) -> AcceptedBatch {
    let mut batch = batch(LoadType::Delta);
    let received_at = Timestamp::now() - SignedDuration::from_hours(hours_ago);
    batch.metadata.received_at = received_at;
    // The id has the time of the receipt.
    let seconds = received_at.as_second().unsigned_abs();
    batch.metadata.batch_id = Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, seconds, 0));
    batch.upload_expires_at = Some(received_at + SignedDuration::from_mins(15));
    batch
}

/// Creates a database in the state right after the migrations. Returns its configuration and a
/// connection.
async fn create_database() -> (DatabaseConfig, Client) {
    let url = variable("DATABASE_URL");
    let server = DatabaseConfig::from_url(&url).unwrap();
    let migrate = async |dbname| {
        let database = Database::new(DatabaseConfig { dbname, ..server.clone() });
        database.migrate().await.unwrap();
    };
    let dbname = test_support::postgres::migrated(&url, migrate).await;
    let config = DatabaseConfig { dbname, ..server };
    let sql = connect(&config).await;
    let now = "UPDATE batch_history SET announced_at = now(); \
         UPDATE usage_stored_until SET day = (now() AT TIME ZONE 'UTC')::date - 1";
    sql.batch_execute(now).await.unwrap();
    (config, sql)
}

async fn connect(config: &DatabaseConfig) -> Client {
    let (client, connection) = tokio_postgres::Config::new()
        .host(&config.host)
        .port(config.port)
        .dbname(&config.dbname)
        .user(&config.user)
        .password(config.password.expose_secret())
        .connect(NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client
}
