//! Kafka between the chunker and `upsert`, and the delivery of its records to the function as
//! Lambda does it: in order within a partition, and each batch of records again until the function
//! has accepted it. In a storm, batches are also delivered twice at the same time, and again later,
//! as after a rebalance.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use krafka::Kafka;
use krafka::consumer::{Consumer, ConsumerRecord};
use serde_json::{Value, json};
use test_support::kafka::Broker;
use tokio::task::JoinHandle;

use super::delivery::{FORGOTTEN, Shared, TWICE};
use crate::crash::stand::function::{Function, Invoked};

pub(crate) const TOPIC: &str = "chunks.ready";
/// Kafka topic for the events of batches, if events are published.
pub(crate) const EVENTS: &str = "batches.received";
/// Kafka topic for the events of chunks that were given up, if events are published.
pub(crate) const FAILURES: &str = "chunks.failed";
const PARTITIONS: u16 = 4;
/// Maximum number of records in one invocation.
const BATCH: usize = 5;
/// Maximum time for which a reader waits for records, and its pause before it repeats a failed
/// invocation.
const PAUSE: Duration = Duration::from_millis(200);
/// Maximum wait for expected events to arrive in a topic.
const EVENTS_PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Topic {
    broker: Broker,
    readers: Vec<(JoinHandle<()>, Arc<AtomicBool>)>,
}

impl Topic {
    pub(crate) fn start() -> Self {
        let broker = Broker::start();
        for topic in [TOPIC, EVENTS, FAILURES] {
            broker.create_topic(topic, PARTITIONS);
        }
        Self { broker, readers: Vec::new() }
    }

    /// Returns the environment variables by which the chunker sends its chunks to this topic.
    pub(crate) fn variables(&self) -> [(&'static str, String); 4] {
        [
            ("CHUNK_TRANSPORT", "kafka".to_owned()),
            ("KAFKA_AUTHENTICATION", "none".to_owned()),
            ("KAFKA_BOOTSTRAP_SERVERS", self.broker.bootstrap_servers().to_owned()),
            ("KAFKA_CHUNKS_TOPIC", TOPIC.to_owned()),
        ]
    }

    /// Waits until a topic has `count` events, and then a moment for more. Returns the key and the
    /// event of each record.
    pub(crate) async fn events(&self, topic: &str, count: usize) -> Vec<(String, Value)> {
        let kafka = Kafka::builder(self.broker.bootstrap_servers()).connect().await.unwrap();
        let consumer = kafka.consumer_without_group().build().await.unwrap();
        let partitions = 0..i32::from(PARTITIONS);
        consumer.assign(topic, partitions.clone().collect()).await.unwrap();
        for partition in partitions {
            consumer.seek_to_beginning(topic, partition).await.unwrap();
        }
        let (mut events, begin) = (Vec::new(), Instant::now());
        loop {
            let records = consumer.poll(PAUSE * 5).await.unwrap();
            if records.is_empty() && (events.len() >= count || begin.elapsed() > EVENTS_PATIENCE) {
                return events;
            }
            events.extend(records.into_iter().map(|record| {
                let key = String::from_utf8(record.key.unwrap().to_vec()).unwrap();
                (key, serde_json::from_slice(&record.value.unwrap()).unwrap())
            }));
        }
    }

    /// Starts to deliver records to a function, with one reader for each partition, as Lambda does.
    pub(crate) fn deliver_to(&mut self, function: &Function, shared: &Arc<Shared>) {
        for partition in 0..i32::from(PARTITIONS) {
            let is_idle = Arc::new(AtomicBool::new(false));
            let reader = Reader {
                servers: self.broker.bootstrap_servers().to_owned(),
                partition,
                function: function.clone(),
                shared: Arc::clone(shared),
                is_idle: Arc::clone(&is_idle),
            };
            self.readers.push((tokio::spawn(reader.read()), is_idle));
        }
    }

    /// Returns true if the function has accepted all records that the readers have received so far.
    pub(crate) fn is_idle(&self) -> bool {
        self.readers.iter().all(|(_, is_idle)| is_idle.load(Ordering::Relaxed))
    }

    /// Makes the Kafka cluster unavailable: for `time` it stops responding, and for the same time
    /// after that a broker is unreachable.
    pub(crate) async fn fail_for(&self, time: Duration) {
        self.broker.pause();
        tokio::time::sleep(time).await;
        self.broker.resume();
        self.broker.take_down(1);
        tokio::time::sleep(time).await;
        self.broker.bring_up(1);
    }

    /// Writes records with these values into the topic, which are no chunks. `None` writes a
    /// tombstone.
    pub(crate) async fn spoil(&self, values: &[Option<&str>]) {
        let kafka = Kafka::builder(self.broker.bootstrap_servers()).connect().await.unwrap();
        let producer = kafka.producer().build().await.unwrap();
        for value in values {
            let record = match value {
                Some(value) => krafka::Record::new(TOPIC, value.as_bytes().to_vec()),
                None => krafka::Record::tombstone(TOPIC, "key"),
            };
            let _place = producer.send(record).await.unwrap();
        }
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        self.readers.iter().for_each(|(reader, _)| reader.abort());
    }
}

struct Reader {
    servers: String,
    partition: i32,
    function: Function,
    shared: Arc<Shared>,
    is_idle: Arc<AtomicBool>,
}

impl Reader {
    async fn read(self) {
        let consumer = self.consumer().await;
        let mut earlier = Vec::new();
        loop {
            let Ok(records) = consumer.poll(PAUSE).await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            self.is_idle.store(records.is_empty(), Ordering::Relaxed);
            for batch in records.chunks(BATCH) {
                let event = event(self.partition, batch).to_string();
                self.until_taken(&event).await;
                earlier.push(event);
                if self.shared.chance(FORGOTTEN) {
                    let from = self.shared.below(earlier.len());
                    for event in &earlier[from..] {
                        self.until_taken(event).await;
                    }
                }
            }
        }
    }

    async fn consumer(&self) -> Consumer {
        let kafka = Kafka::builder(self.servers.as_str()).connect().await.unwrap();
        let consumer = kafka.consumer_without_group().build().await.unwrap();
        consumer.assign(TOPIC, vec![self.partition]).await.unwrap();
        consumer.seek_to_beginning(TOPIC, self.partition).await.unwrap();
        consumer
    }

    async fn until_taken(&self, event: &str) {
        loop {
            let taken = if self.shared.chance(TWICE) {
                self.shared.twice.fetch_add(1, Ordering::Relaxed);
                let (one, other) = tokio::join!(self.invoke(event), self.invoke(event));
                one || other
            } else {
                self.invoke(event).await
            };
            if taken {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Invokes the function with a batch of records. Returns true if it did not fail, after which
    /// Lambda would commit the batch.
    async fn invoke(&self, event: &str) -> bool {
        self.shared.delivered.fetch_add(1, Ordering::Relaxed);
        let invoked = self.function.invoke(event.to_owned().into()).await;
        let taken = matches!(invoked, Invoked::Answered(_));
        if !taken {
            self.shared.failed.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }
}

/// Returns the event with which Lambda passes records of a Kafka topic to a function.
fn event(partition: i32, records: &[ConsumerRecord]) -> Value {
    let text = |bytes: &Option<_>| bytes.as_ref().map(|bytes| STANDARD.encode(bytes));
    let records: Vec<Value> = records
        .iter()
        .map(|record| {
            json!({
                "topic": TOPIC,
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": record.timestamp,
                "timestampType": "CREATE_TIME",
                "key": text(&record.key),
                "value": text(&record.value),
                "headers": [],
            })
        })
        .collect();
    let mut partitions = serde_json::Map::new();
    partitions.insert(format!("{TOPIC}-{partition}"), Value::Array(records));
    json!({"eventSource": "SelfManagedKafka", "bootstrapServers": "127.0.0.1:9092", "records": partitions})
}
