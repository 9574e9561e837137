//! A world of its own for the ingest: queues, a bucket, a table of batch items and a database
//! server, beside the stack's API keys and records.

use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::{AttributeValue, BillingMode};
use aws_sdk_s3::types::{
    Event, FilterRule, FilterRuleName, NotificationConfiguration, NotificationConfigurationFilter,
    QueueConfiguration, S3KeyFilter,
};
use aws_sdk_sqs::types::QueueAttributeName;
use catalog::{Database, DatabaseConfig};
use end_to_end::variable;
use ingestion::batch::BatchStatus;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use test_support::event_bus::FakeEventBus;
use test_support::postgres::{Cluster, PASSWORD};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use crate::stand::faults::Faults;
use crate::stand::function::Function;
use crate::stand::store::StoreProxy;
use crate::stand::template::Template;
use crate::stand::{answer, http_event, references, store_variables};

use super::delivery::{Delivery, Queue, Source};
use super::senders::{Sent, Tenant};
use super::topic::{EVENTS, Topic};

/// Executions at a time of each function that reads a queue.
const UPSERTS: usize = 4;
const CHUNKERS: usize = 2;
const DEAD_LETTERS: usize = 1;
/// The functions' connections to the database at most: one for each execution, `batches` and
/// `reconcile` included.
pub(crate) const CONNECTIONS: i64 = 4 + 2 + 2 + 1 + 1;
/// What the test's own connections say that they are.
pub(crate) const TEST: &str = "storm";
/// How long nothing may happen before `reconcile` looks at it.
const STILL_SECONDS: u64 = 2;

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) faults: Faults,
    pub(crate) delivery: Delivery,
    /// If chunks go through Kafka. What fails of them goes through the queue.
    pub(crate) topic: Option<Topic>,
    /// If events are published. They then also go to the topic's cluster.
    pub(crate) bus: Option<FakeEventBus>,
    ingest: Function,
    batches: Function,
    chunker: Function,
    upsert: Function,
    dead_letter: Function,
    reconcile: Function,
    unhandled: Queue,
    clients: Clients,
    _stores: StoreProxy,
}

/// Of the test itself, past the proxy.
struct Clients {
    sqs: aws_sdk_sqs::Client,
    s3: aws_sdk_s3::Client,
    dynamodb: aws_sdk_dynamodb::Client,
    secrets: aws_sdk_secretsmanager::Client,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::with(None, None).await
    }

    /// With Kafka between the chunker and `upsert`.
    pub(crate) async fn over_kafka() -> Self {
        Self::with(Some(Topic::start()), None).await
    }

    /// The same, and the events of batches on a bus and in a topic of the same cluster.
    pub(crate) async fn with_events() -> Self {
        Self::with(Some(Topic::start()), Some(FakeEventBus::start().await)).await
    }

    async fn with(mut topic: Option<Topic>, bus: Option<FakeEventBus>) -> Self {
        let name = format!("storm-{}", Uuid::new_v4().simple());
        let clients = Clients::new().await;
        let cluster = Cluster::start(&[]).await;
        Database::new(DatabaseConfig::from_url(&cluster.url()).unwrap()).migrate().await.unwrap();

        let unhandled = clients.queue(&name, "unhandled", None).await;
        let batches_failed = clients.queue(&name, "batches-failed", Some((&unhandled, 1000))).await;
        let received = clients.queue(&name, "batches-received", Some((&batches_failed, 5))).await;
        let chunks_failed = clients.queue(&name, "chunks-failed", Some((&unhandled, 1000))).await;
        let ready = clients.queue(&name, "chunks-ready", Some((&chunks_failed, 5))).await;
        clients.bucket(&name, &received).await;
        clients.batches_table(&name).await;
        clients.secret(&name).await;

        let faults = Faults::default();
        let stores = StoreProxy::start(faults.clone()).await;
        let mut variables = store_variables(&stores);
        variables.extend([
            ("DATABASE_SECRET_ARN", name.clone()),
            ("DATABASE_HOST", "127.0.0.1".to_owned()),
            ("DATABASE_PORT", cluster.port().to_string()),
            ("DATABASE_NAME", "postgres".to_owned()),
            ("DATABASE_TLS", "off".to_owned()),
            ("BATCHES_TABLE", name.clone()),
            ("PAYLOAD_BUCKET", name.clone()),
            ("BATCHES_QUEUE_URL", received.url.clone()),
            ("CHUNKS_QUEUE_URL", ready.url.clone()),
            ("BATCHES_FAILED_QUEUE_URL", batches_failed.url.clone()),
            ("CHUNKS_FAILED_QUEUE_URL", chunks_failed.url.clone()),
            ("UNHANDLED_QUEUE_URL", unhandled.url.clone()),
            // Nothing is dropped here.
            ("DROPS_QUEUE_URL", String::new()),
            ("RETRY_BASE_SECONDS", "1".to_owned()),
            // The smallest there is, so that a catalogue has several.
            ("CHUNK_ITEMS", "500".to_owned()),
            // Random catalogues have little in common, and the model knows no guard.
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
            ]);
        }
        let template = Template::read(references());
        let function = |name: &str, logical_id: &str| {
            Function::new(name, template.function_with(logical_id, &variables), &variables)
        };
        let chunker = function("chunker", "ChunkerFunction");
        let upsert = function("upsert", "UpsertFunction");
        let dead_letter = function("dead-letter", "DeadLetterFunction");
        let delivery = Delivery::start(
            &clients.sqs,
            vec![
                Source { queue: received, function: chunker.clone(), at_once: CHUNKERS },
                Source { queue: ready, function: upsert.clone(), at_once: UPSERTS },
                Source { queue: batches_failed, function: dead_letter.clone(), at_once: DEAD_LETTERS },
                Source { queue: chunks_failed, function: dead_letter.clone(), at_once: DEAD_LETTERS },
            ],
        );
        if let Some(topic) = &mut topic {
            topic.deliver_to(&upsert, delivery.weather());
        }
        Self {
            topic,
            bus,
            ingest: function("product-ingest", "ProductIngestFunction"),
            batches: function("batches", "BatchesFunction"),
            reconcile: function("reconcile", "ReconcileFunction"),
            cluster,
            faults,
            delivery,
            chunker,
            upsert,
            dead_letter,
            unhandled,
            clients,
            _stores: stores,
        }
    }

    pub(crate) fn functions(&self) -> impl Iterator<Item = &Function> {
        [&self.ingest, &self.batches, &self.chunker, &self.upsert, &self.dead_letter, &self.reconcile]
            .into_iter()
    }

    /// New tenants, each with an API key.
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

    /// A connection that no function uses.
    pub(crate) async fn database(&self) -> Client {
        let mut config: tokio_postgres::Config = self.cluster.url().parse().unwrap();
        let (client, connection) = config.application_name(TEST).connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    pub(crate) async fn status(&self, batch_id: Uuid) -> Option<BatchStatus> {
        let sql = "SELECT status FROM batches WHERE batch_id = $1";
        let row = self.database().await.query_opt(sql, &[&batch_id]).await.unwrap()?;
        Some(serde_json::from_value(json!(row.get::<_, String>(0))).unwrap())
    }

    /// Lets the scheduled function run, and a user replay what failed, until every batch is
    /// completed and no queue holds anything.
    pub(crate) async fn come_to_rest(&self, sent: &[Sent], patience: Duration) {
        let begin = Instant::now();
        loop {
            self.reconcile.invoke(json!({}).to_string().into()).await;
            let mut open = Vec::new();
            for batch in sent {
                match self.status(batch.batch_id).await {
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

    /// Lets the history of loads end now, and the scheduled function run until no batch is left. It
    /// deletes none whose objects are not released.
    pub(crate) async fn forget_batches(&self, patience: Duration) {
        let database = self.database().await;
        let sql = "UPDATE batches SET finished_at = received_at; \
             UPDATE batch_history SET kept_since = now(), announced_at = now() - interval '11 min'";
        database.batch_execute(sql).await.unwrap();
        // A payload whose batch is deleted is found again and fails, since no lifecycle removed it.
        let left = "SELECT count(*) FROM batches WHERE error->>'code' IS DISTINCT FROM 'TOO_OLD'";
        let begin = Instant::now();
        loop {
            self.reconcile.invoke(json!({}).to_string().into()).await;
            let left: i64 = database.query_one(left, &[]).await.unwrap().get(0);
            if left == 0 {
                return;
            }
            assert!(begin.elapsed() < patience, "{left} batches are not deleted");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Asks for a replay as a user would, until it is taken.
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
        // A late success may have been faster than the replay of what failed.
        let came_late = replayed.status == 409 && scope == "failed";
        assert!(replayed.status == 202 || came_late, "{}", String::from_utf8_lossy(&replayed.bytes));
    }

    /// Every row of the products' table as it is, with the transaction that wrote it.
    pub(crate) async fn snapshot(&self) -> Vec<String> {
        let sql = "SELECT xmin::text || products::text FROM products ORDER BY cnpj, shopid, productid";
        let rows = self.database().await.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    pub(crate) async fn unhandled(&self) -> usize {
        self.unhandled.length(&self.clients.sqs).await
    }
}

impl Clients {
    async fn new() -> Self {
        let sdk = aws::Sdk::from_environment().await;
        // A test waits longer than the functions do.
        let sdk = sdk.single_attempt(Duration::from_secs(20));
        Self {
            sqs: aws_sdk_sqs::Client::new(&sdk),
            s3: aws_sdk_s3::Client::from_conf(
                aws_sdk_s3::config::Builder::from(&sdk).force_path_style(true).build(),
            ),
            dynamodb: aws_sdk_dynamodb::Client::new(&sdk),
            secrets: aws_sdk_secretsmanager::Client::new(&sdk),
        }
    }

    /// A queue, and where its messages go after so many receives.
    async fn queue(&self, world: &str, name: &str, redrive: Option<(&Queue, u32)>) -> Queue {
        let mut create = self.sqs.create_queue().queue_name(format!("{world}-{name}"));
        // Short, because nobody wants to wait for what a killed function held.
        create = create.attributes(QueueAttributeName::VisibilityTimeout, "8");
        if let Some((dead, receives)) = redrive {
            let policy = json!({"deadLetterTargetArn": dead.arn, "maxReceiveCount": receives});
            create = create.attributes(QueueAttributeName::RedrivePolicy, policy.to_string());
        }
        let url = create.send().await.unwrap().queue_url.unwrap();
        let get = self.sqs.get_queue_attributes().queue_url(&url);
        let attributes = get.attribute_names(QueueAttributeName::QueueArn).send().await.unwrap();
        let arn = attributes.attributes.unwrap()[&QueueAttributeName::QueueArn].clone();
        Queue { url, arn }
    }

    /// A bucket that tells the queue of payloads, and of nothing else.
    async fn bucket(&self, world: &str, received: &Queue) {
        self.s3.create_bucket().bucket(world).send().await.unwrap();
        let prefix = FilterRule::builder().name(FilterRuleName::Prefix).value("incoming/").build();
        let filter = S3KeyFilter::builder().filter_rules(prefix).build();
        let tell = QueueConfiguration::builder()
            .queue_arn(&received.arn)
            .events(Event::S3ObjectCreated)
            .filter(NotificationConfigurationFilter::builder().key(filter).build());
        let tell = NotificationConfiguration::builder().queue_configurations(tell.build().unwrap()).build();
        let put = self.s3.put_bucket_notification_configuration().bucket(world);
        put.notification_configuration(tell).send().await.unwrap();
    }

    /// A table like the stack's.
    async fn batches_table(&self, world: &str) {
        let described = self.dynamodb.describe_table().table_name(variable("BATCHES_TABLE")).send().await;
        let table = described.unwrap().table.unwrap();
        let mut create = self
            .dynamodb
            .create_table()
            .table_name(world)
            .billing_mode(BillingMode::PayPerRequest)
            .set_attribute_definitions(table.attribute_definitions)
            .set_key_schema(table.key_schema);
        for index in table.global_secondary_indexes.unwrap_or_default() {
            let index = aws_sdk_dynamodb::types::GlobalSecondaryIndex::builder()
                .set_index_name(index.index_name)
                .set_key_schema(index.key_schema)
                .set_projection(index.projection)
                .build();
            create = create.global_secondary_indexes(index.unwrap());
        }
        create.send().await.unwrap();
    }

    async fn secret(&self, world: &str) {
        let secret = json!({"username": "postgres", "password": PASSWORD}).to_string();
        self.secrets.create_secret().name(world).secret_string(secret).send().await.unwrap();
    }
}
