use std::collections::HashMap;
use std::time::Duration;

use events::kafka::{Producer, Record};
use krafka::producer::murmur2;
use krafka::testing::{ApiKey, FakeBroker};
use test_support::kafka::Broker;

use crate::support::{TOPIC, cluster, consume, producer, read, records};

#[tokio::test]
async fn records_of_one_key_keep_their_order_in_the_partition_that_java_chooses() {
    const PARTITIONS: i32 = 6;
    let broker = Broker::start();
    broker.create_topic(TOPIC, 6);
    let producer = producer(broker.bootstrap_servers()).await;
    // More than one batch, and more than one call.
    producer.send(records(0..1_700)).await.unwrap();
    producer.send(records(1_700..2_000)).await.unwrap();

    let read = read(broker.bootstrap_servers(), PARTITIONS, 2_000).await;
    assert_eq!(read.len(), 2_000);
    let mut last: HashMap<String, u32> = HashMap::new();
    for (partition, key, number) in read {
        let hash = i32::try_from(murmur2(key.as_bytes()) & 0x7fff_ffff).unwrap();
        assert_eq!(partition, hash % PARTITIONS, "{key}");
        if let Some(before) = last.insert(key.clone(), number) {
            assert!(before < number, "{key}: {number} after {before}");
        }
    }
    assert_eq!(last.len(), 10);
}

#[tokio::test]
async fn headers_arrive_in_their_order() {
    let broker = Broker::start();
    broker.create_topic(TOPIC, 1);
    let record = Record::new("batch", b"7".to_vec());
    let record = record.with_header("content-type", "application/json").with_header("type", "é");
    producer(broker.bootstrap_servers()).await.send(vec![record]).await.unwrap();
    let read = consume(broker.bootstrap_servers(), 1, 1).await;
    let headers = read[0].headers.iter();
    let headers: Vec<_> = headers.map(|(name, value)| (name.as_str(), value.as_deref().unwrap())).collect();
    assert_eq!(headers, [("content-type", b"application/json".as_slice()), ("type", "é".as_bytes())]);
}

/// Checks hashes of keys against values from `UtilsTest` in Kafka's own repository.
#[test]
fn keys_are_hashed_as_java_does() {
    for (key, hash) in [
        ("21", -973_932_308),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
    ] {
        assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
    }
}

#[tokio::test]
async fn one_client_serves_several_calls() {
    let broker = FakeBroker::start().await.unwrap();
    broker.create_topic(TOPIC, 3);
    let producer = producer(&broker.bootstrap_servers()).await;
    for number in 0..3 {
        producer.send(records(number..number + 1)).await.unwrap();
    }
    producer.send(Vec::new()).await.unwrap();
    assert_eq!(broker.request_count(ApiKey::InitProducerId), 1);
    assert_eq!(broker.all_records(TOPIC).unwrap().len(), 3);
}

#[tokio::test]
async fn a_client_that_was_idle_for_too_long_is_replaced() {
    let broker = FakeBroker::start().await.unwrap();
    broker.create_topic(TOPIC, 3);
    let cluster = cluster(&broker.bootstrap_servers()).await.with_max_idle(Duration::ZERO);
    let producer = Producer::new(cluster);
    for number in 0..3 {
        producer.send(records(number..number + 1)).await.unwrap();
    }
    assert_eq!(broker.request_count(ApiKey::InitProducerId), 3);
    assert_eq!(broker.all_records(TOPIC).unwrap().len(), 3);
}
