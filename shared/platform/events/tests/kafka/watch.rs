use std::time::Duration;

use events::kafka::{PartitionLag, TopicWatch, WatchError};
use krafka::Kafka;
use krafka::admin::{AlterConsumerGroupOffsetsOptions, TopicPartition};
use krafka::testing::{ApiKey, FakeBroker};
use test_support::kafka::Broker;

use crate::support::{TOPIC, cluster, producer, records};

const GROUP: &str = "integrahub-upsert";

async fn watch(servers: &str) -> TopicWatch {
    TopicWatch::new(cluster(servers).await, GROUP.to_owned())
}

/// Commits offsets of partitions for the consumer group of the topic.
async fn commit(servers: &str, offsets: &[(i32, i64)]) {
    let kafka = Kafka::builder(servers).connect().await.unwrap();
    let offsets = offsets.iter().map(|(partition, offset)| (TopicPartition::new(TOPIC, *partition), *offset));
    let options = AlterConsumerGroupOffsetsOptions::default();
    let committed = kafka.admin().alter_consumer_group_offsets(GROUP, offsets, options).await.unwrap();
    assert!(committed.values().all(Result::is_ok), "{committed:?}");
}

fn numbers(lag: &[PartitionLag]) -> Vec<(i32, u64)> {
    lag.iter().map(|of| (of.partition, of.records)).collect()
}

#[tokio::test]
async fn the_lag_of_a_partition_is_what_the_group_did_not_commit() {
    let broker = FakeBroker::start_cluster(3).await.unwrap();
    broker.create_topic(TOPIC, 3);
    let servers = broker.bootstrap_servers();
    producer(&servers).await.send(records(0..30)).await.unwrap();
    let ends = [0, 1, 2].map(|partition| broker.next_offset(TOPIC, partition).unwrap());
    assert!(ends.iter().all(|end| *end > 2), "{ends:?}");
    commit(&servers, &[(0, ends[0]), (1, 2)]).await;
    // What the retention removed is not waiting for a group that begins at the beginning.
    broker.with_state(|state| state.partition_mut(TOPIC, 2).unwrap().log_start_offset = 1);
    let lag = watch(&servers).await.lag().await.unwrap();
    let expected = [(0, 0), (1, ends[1] - 2), (2, ends[2] - 1)];
    assert_eq!(
        numbers(&lag),
        expected.map(|(partition, records)| (partition, u64::try_from(records).unwrap()))
    );
}

#[tokio::test]
async fn questions_share_their_connections() {
    let broker = FakeBroker::start().await.unwrap();
    broker.create_topic(TOPIC, 3);
    let watch = watch(&broker.bootstrap_servers()).await;
    watch.lag().await.unwrap();
    let connections = broker.request_count(ApiKey::ApiVersions);
    watch.lag().await.unwrap();
    assert_eq!(broker.request_count(ApiKey::ApiVersions), connections);
}

#[tokio::test]
async fn the_login_of_a_first_question_that_failed_serves_the_second() {
    let broker = FakeBroker::start().await.unwrap();
    broker.with_state(|state| state.auto_create_topics = false);
    let watch = watch(&broker.bootstrap_servers()).await;
    watch.probe().await.unwrap_err();
    let connections = broker.request_count(ApiKey::ApiVersions);
    broker.create_topic(TOPIC, 3);
    watch.probe().await.unwrap();
    assert_eq!(broker.request_count(ApiKey::ApiVersions), connections);
}

#[tokio::test]
async fn a_topic_that_is_missing_or_lacks_a_leader_takes_no_records() {
    let broker = FakeBroker::start().await.unwrap();
    broker.with_state(|state| state.auto_create_topics = false);
    let watch = watch(&broker.bootstrap_servers()).await;
    let error = watch.probe().await.unwrap_err();
    assert!(matches!(&error, WatchError::Refused { topic, .. } if topic == TOPIC), "{error:?}");
    broker.create_topic(TOPIC, 3);
    watch.probe().await.unwrap();
    broker.with_state(|state| state.partition_mut(TOPIC, 1).unwrap().leader = -1);
    let error = watch.probe().await.unwrap_err();
    assert!(matches!(error, WatchError::WithoutLeader { partitions: 1, .. }), "{error:?}");
}

#[tokio::test]
async fn after_a_question_that_was_given_up_the_next_one_is_answered() {
    let broker = Broker::start();
    broker.create_topic(TOPIC, 4);
    producer(broker.bootstrap_servers()).await.send(records(0..20)).await.unwrap();
    let watch = watch(broker.bootstrap_servers()).await;
    watch.probe().await.unwrap();
    broker.pause();
    assert!(tokio::time::timeout(Duration::from_millis(200), watch.probe()).await.is_err());
    broker.resume();
    let lag = watch.lag().await.unwrap();
    assert_eq!((lag.len(), lag.iter().map(|of| of.records).sum::<u64>()), (4, 20));
}
