//! Kafka between the chunker and `upsert`, and the delivery of its records to the function as
//! Lambda does it: in order within a partition, and a batch again until the function took it. In a
//! storm batches also come twice at the same time, and again later, as after a rebalance.

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
/// Topic for the events of batches, if they are published.
pub(crate) const EVENTS: &str = "batches.received";
pub(crate) const FAILURES: &str = "chunks.failed";
const PARTITIONS: u16 = 4;
/// Most records that one execution gets.
const BATCH: usize = 5;
/// Time that a reader waits for records, and pause before it delivers a batch again.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest wait for events to arrive in a topic.
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

    /// Variables by which the chunker sends its chunks to the topic.
    pub(crate) fn variables(&self) -> [(&'static str, String); 4] {
        [
            ("CHUNK_TRANSPORT", "kafka".to_owned()),
            ("KAFKA_AUTHENTICATION", "none".to_owned()),
            ("KAFKA_BOOTSTRAP_SERVERS", self.broker.bootstrap_servers().to_owned()),
            ("KAFKA_CHUNKS_TOPIC", TOPIC.to_owned()),
        ]
    }

    /// Waits for this many events in a topic, and then a moment for more of them. Returns each
    /// record's key and event.
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

    /// Begins to deliver records to a function, with one execution for each partition.
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

    /// True if the function took every record that the readers have received so far.
    pub(crate) fn is_idle(&self) -> bool {
        self.readers.iter().all(|(_, is_idle)| is_idle.load(Ordering::Relaxed))
    }

    /// Makes the cluster unreachable for a while: it stops responding, and then a broker is off the
    /// network.
    pub(crate) async fn fail_for(&self, time: Duration) {
        self.broker.pause();
        tokio::time::sleep(time).await;
        self.broker.resume();
        self.broker.take_down(1);
        tokio::time::sleep(time).await;
        self.broker.bring_up(1);
    }

    /// Puts records that the chunker did not write among the others.
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

    /// Invokes the function with a batch; true if it took it: anything but an error commits the
    /// batch.
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

/// Returns the event in which Lambda hands over records.
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
