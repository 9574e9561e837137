//! Tests that Kafka topics are created, before the schema is migrated.

use events::kafka::{Cluster, EventTopics, Settings, Topic, TopicPlan};
use krafka::testing::{ApiKey, FakeBroker};
use migrate::{InvocationError, Migrate, MigrateError};
use runtime::{Environment, Sdk};

use crate::listener::Listener;
use crate::{deadline, nowhere, sample};

/// Builds the topics of chunks, of events and of failed events on the given brokers.
async fn topics(servers: &str) -> Vec<Topic> {
    let mut environment = Environment::of(|name| match name {
        "KAFKA_BOOTSTRAP_SERVERS" => Some(servers.to_owned()),
        "KAFKA_AUTHENTICATION" => Some("none".to_owned()),
        "KAFKA_EVENTS_TOPIC" => Some("batches.received".to_owned()),
        _ => None,
    });
    let chunks = Settings::read(&mut environment);
    let EventTopics { events, failures } = EventTopics::read(&mut environment).unwrap();
    let all = [chunks, events, failures];
    environment.check().unwrap();
    let sdk = Sdk::at("http://127.0.0.1:9", "us-east-1", "id", "key").await;
    let plan = TopicPlan { partitions: 3, replication: Some(1) };
    all.into_iter().map(|settings| Topic::new(Cluster::new(settings, &sdk), plan)).collect()
}

#[tokio::test]
async fn each_topic_is_created_before_the_database_is_asked_and_once() {
    let broker = FakeBroker::start().await.unwrap();
    let topics = topics(&broker.bootstrap_servers()).await;
    let migrate = Migrate::new(Ok(()), async || nowhere()).with_topics(topics);
    for _ in 0..2 {
        let failed = migrate.handle(sample("direct", ""), deadline()).await.unwrap_err();
        assert!(matches!(failed, InvocationError::Migrate(MigrateError::Database(_))), "{failed:?}");
    }
    assert_eq!(broker.request_count(ApiKey::CreateTopics), 3);
    for topic in ["chunks.ready", "batches.received", "chunks.failed"] {
        assert_eq!(broker.next_offset(topic, 2), Some(0), "{topic} has three partitions");
        assert_eq!(broker.next_offset(topic, 3), None, "{topic}");
    }
}

#[tokio::test]
async fn a_cluster_that_is_away_fails_the_deployment_and_is_named() {
    let [port] = test_support::ports::free().unwrap();
    let servers = format!("127.0.0.1:{port}");
    let listener = Listener::start(&[]).await;
    let migrate = Migrate::new(Ok(()), async || nowhere()).with_topics(topics(&servers).await);
    migrate.handle(sample("create", &listener.url), deadline()).await.unwrap();
    let answers = listener.answers();
    assert_eq!(answers[0]["Status"], "FAILED");
    assert!(answers[0]["Reason"].as_str().unwrap().contains(&servers), "{answers:?}");
}
