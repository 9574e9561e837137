//! Database, stand-in for EventBridge and SNS, and publishers of one test of the outbox.

use catalog::{BatchRow, Database, OutboxMode, Seal, SealedChunk};
use events::{Event, Publisher, Settings};
use ingestion::Cnpj;
use ingestion::chunk::{Chunk, ChunkReady, Generation, Plan, Planner};
use ingestion::payload::{LoadType, MediaType, PayloadMetadata};
use ingestion::product::{Attributes, BatchStamp, CnpjAccess, MemberSet, Product, ProductKey};
use krafka::testing::FakeBroker;
use runtime::{Environment, Sdk};
use serde_json::Value;
use test_support::event_bus::FakeEventBus;
use uuid::Uuid;

use crate::support::TestDatabase;

pub(crate) const GIVEN_UP: &str = "integrahub.chunk.given_up";
pub(crate) const FINAL: &str = "integrahub.batch.final";
const BUS: &str = "arn:aws:events:us-east-1:111122223333:event-bus/news";
const TOPIC: &str = "arn:aws:sns:us-east-1:111122223333:news";
/// ARN of an SNS topic of type FIFO, which keeps its messages in order.
pub(crate) const FIFO: &str = "arn:aws:sns:us-east-1:111122223333:news.fifo";

/// Name of the Kafka topic for events of chunks that were given up. [`EVENTS_TOPIC`] has the other
/// events.
pub(crate) const FAILURES_TOPIC: &str = "chunks.failed";
pub(crate) const EVENTS_TOPIC: &str = "batches.received";

pub(crate) struct Stand {
    pub(crate) bus: FakeEventBus,
    /// Database of the test. It is removed when its PostgreSQL server ends.
    pub(crate) tables: TestDatabase,
}

impl Stand {
    pub(crate) async fn open() -> Self {
        Self { bus: FakeEventBus::start().await, tables: TestDatabase::migrated().await }
    }

    async fn publisher(&self, settings: Settings) -> Publisher {
        Publisher::of(&Sdk::at(&self.bus.endpoint(), "us-east-1", "key", "secret").await, settings)
    }

    /// Returns a publisher to the event bus alone.
    pub(crate) async fn to_the_bus(&self) -> Publisher {
        self.publisher(Settings { bus: Some(BUS.to_owned()), ..Settings::default() }).await
    }

    /// Returns a publisher to the event bus and the SNS topic.
    pub(crate) async fn to_both(&self) -> Publisher {
        self.publisher(both()).await
    }

    /// Returns a publisher to the SNS topic with this ARN alone.
    pub(crate) async fn to_the_topic(&self, arn: &str) -> Publisher {
        self.publisher(Settings { topic: Some(arn.to_owned()), ..Settings::default() }).await
    }

    /// Returns a publisher to the event bus, the SNS topic, and the two topics of a Kafka cluster.
    pub(crate) async fn to_all(&self, broker: &FakeBroker) -> Publisher {
        let kafka = kafka_settings(&broker.bootstrap_servers());
        self.publisher(Settings { kafka: Some(kafka), ..both() }).await
    }

    /// Returns a publisher to the two Kafka topics alone.
    pub(crate) async fn to_kafka(&self, servers: &str) -> Publisher {
        self.publisher(Settings { kafka: Some(kafka_settings(servers)), ..Settings::default() }).await
    }

    /// Returns a publisher to one Kafka topic, which also gets the events of chunks that were given
    /// up.
    pub(crate) async fn to_one_topic_of_kafka(&self, servers: &str) -> Publisher {
        let mut kafka = kafka_settings(servers);
        kafka.failures = kafka.events.clone();
        self.publisher(Settings { kafka: Some(kafka), ..Settings::default() }).await
    }

    /// Opens the database like a function of the ingest that publishes its events by `publisher`.
    pub(crate) fn database(&self, publisher: &Publisher) -> Database {
        self.tables.open().with_outbox(OutboxMode::needed_by(publisher))
    }

    pub(crate) async fn waiting(&self) -> i64 {
        self.tables.number("SELECT count(*) FROM outbox").await
    }
}

fn both() -> Settings {
    Settings { bus: Some(BUS.to_owned()), topic: Some(TOPIC.to_owned()), kafka: None }
}

fn kafka_settings(servers: &str) -> events::kafka::EventTopics {
    let mut environment = Environment::of(|name| match name {
        "KAFKA_BOOTSTRAP_SERVERS" => Some(servers.to_owned()),
        "KAFKA_AUTHENTICATION" => Some("none".to_owned()),
        "KAFKA_EVENTS_TOPIC" => Some(EVENTS_TOPIC.to_owned()),
        _ => None,
    });
    let settings = Settings::read(&mut environment).kafka;
    environment.check().unwrap();
    settings.unwrap()
}

pub(crate) fn batch() -> BatchRow {
    let metadata = PayloadMetadata {
        batch_id: Uuid::now_v7(),
        tenant_id: Uuid::from_u128(0x1111_1111_1111_4111_8111_1111_1111_1111),
        load_type: LoadType::Delta,
        media_type: MediaType::Json,
        idempotency_key: "loja-12-2026-11-22".to_owned(),
        received_at: "2026-11-21T10:00:00Z".parse().unwrap(),
        checksum: None,
        trace_id: "trace-1".to_owned(),
        partial: ingestion::product::PartialPolicy::Warn,
        source: None,
    };
    let payload_uri = format!("s3://payloads/{}", metadata.key());
    BatchRow { metadata, payload_uri, payload_bytes: None, cnpjs: CnpjAccess::Any }
}

/// Records a batch of two chunks, and gives up the first one. That writes the batch's first event.
pub(crate) async fn begin(database: &Database, batch: &BatchRow) {
    database.begin_chunking(batch, Plan::default()).await.unwrap();
    let (batch_id, generation) = (batch.metadata.batch_id, Generation::FIRST);
    let sealed = [0, 1].map(|index| chunk(batch, index)).map(|chunk| SealedChunk {
        index: chunk.index,
        uri: uri(chunk.index),
        items: chunk.items,
        first_cnpj: chunk.cnpjs()[0],
        cnpjs: chunk.cnpjs(),
    });
    let seal = Seal {
        payload_bytes: 200,
        checksum: "ab".repeat(32),
        items_parsed: 2,
        items_in_error: 0,
        unreadable_keys: 0,
        items_partial: 0,
        errors_omitted: 0,
        errors_uri: None,
        chunks: sealed.into(),
    };
    database.seal(batch_id, generation, &seal).await.unwrap();
    let cnpj = chunk(batch, 0).cnpjs()[0];
    let given_up = ChunkReady { batch_id, generation, chunk_index: 0, chunk_uri: uri(0), cnpj, items: 1 };
    database.fail_chunk(&given_up, "no answer").await.unwrap();
}

/// Writes the second chunk of a batch from [`begin`], which makes the batch final and writes its
/// last event.
pub(crate) async fn end(database: &Database, batch: &BatchRow) {
    database.write_chunk(&chunk(batch, 1)).await.unwrap();
}

fn uri(index: u32) -> String {
    format!("s3://payloads/chunks/{index}")
}

fn chunk(batch: &BatchRow, index: u32) -> Chunk {
    let stamp = BatchStamp::new(batch.metadata.received_at, batch.metadata.batch_id);
    let mut planner = Planner::new(Plan::default(), stamp, Generation::FIRST);
    let cnpj = Cnpj::from_base("112223330001").unwrap();
    let key = ProductKey { cnpj, shop_id: 1, product_id: format!("p{index}") };
    let product = Product { key, attributes: Attributes::default(), members: MemberSet::default() };
    assert!(planner.push(product, index.into()).is_empty());
    planner.finish().remove(0).numbered(index)
}

pub(crate) fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

/// Checks that an event's envelope and data match their JSON schemas.
pub(crate) fn conforms(event: &Value) {
    let (_, data) = Event::DATA_SCHEMAS.into_iter().find(|(of_type, _)| event["type"] == *of_type).unwrap();
    for (schema, value) in [(Event::SCHEMA, event), (data, &event["data"])] {
        let schema = serde_json::from_str(schema).unwrap();
        let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        validator.validate(value).unwrap();
    }
}
