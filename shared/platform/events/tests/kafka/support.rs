use std::time::Duration;

use events::kafka::{Cluster, Producer, Record, Settings};
use krafka::Kafka;
use krafka::consumer::ConsumerRecord;
use runtime::{Environment, Sdk};

pub(crate) const TOPIC: &str = "chunks.ready";
pub(crate) const TIMEOUT: Duration = Duration::from_secs(4);

pub(crate) fn settings(servers: &str, authentication: &str) -> Settings {
    let mut environment = Environment::of(|name| match name {
        "KAFKA_BOOTSTRAP_SERVERS" => Some(servers.to_owned()),
        "KAFKA_AUTHENTICATION" => Some(authentication.to_owned()),
        "KAFKA_SECRET_ARN" => Some("arn:aws:secretsmanager:us-east-1:1:secret:kafka".to_owned()),
        _ => None,
    });
    let settings = Settings::read(&mut environment);
    environment.check().unwrap();
    settings
}

/// Creates a cluster without login.
pub(crate) async fn cluster(servers: &str) -> Cluster {
    let sdk = Sdk::at("http://127.0.0.1:9", "us-east-1", "id", "key").await;
    Cluster::new(settings(servers, "none"), &sdk).with_timeout(TIMEOUT)
}

pub(crate) async fn producer(servers: &str) -> Producer {
    Producer::new(cluster(servers).await)
}

/// Creates records with the numbers of the range as values, in order and distributed over ten keys.
pub(crate) fn records(numbers: std::ops::Range<u32>) -> Vec<Record> {
    numbers.map(|number| Record::new(key(number), number.to_string().into_bytes())).collect()
}

pub(crate) fn key(number: u32) -> String {
    format!("0592722800{:04}", number % 10)
}

/// Waits for `count` records, and a moment longer for unexpected ones. Returns the partition, key
/// and number of each.
pub(crate) async fn read(servers: &str, partitions: i32, count: usize) -> Vec<(i32, String, u32)> {
    let text = |bytes: Option<_>| String::from_utf8(AsRef::<[u8]>::as_ref(&bytes.unwrap()).to_vec()).unwrap();
    let number =
        |record: ConsumerRecord| (record.partition, text(record.key), text(record.value).parse().unwrap());
    consume(servers, partitions, count).await.into_iter().map(number).collect()
}

/// Waits for `count` records, and a moment longer for unexpected ones. Returns the records as
/// consumed.
pub(crate) async fn consume(servers: &str, partitions: i32, count: usize) -> Vec<ConsumerRecord> {
    let kafka = Kafka::builder(servers).connect().await.unwrap();
    let consumer = kafka.consumer_without_group().build().await.unwrap();
    consumer.assign(TOPIC, (0..partitions).collect()).await.unwrap();
    for partition in 0..partitions {
        consumer.seek_to_beginning(TOPIC, partition).await.unwrap();
    }
    let (mut read, mut waits) = (Vec::new(), 0);
    while waits < 20 {
        let records = consumer.poll(Duration::from_millis(500)).await.unwrap();
        // Once all records are there, one more poll finds surplus ones.
        waits += if read.len() >= count && records.is_empty() { 20 } else { usize::from(records.is_empty()) };
        read.extend(records);
    }
    read
}
