use attempt::{Retry, Retryable as _};
use events::kafka::{Topic, TopicError, TopicPlan, TopicState};
use krafka::error::ErrorCode;
use krafka::testing::{ApiKey, Control, FakeBroker};
use runtime::Environment;

use crate::support::{TOPIC, cluster};

const PLAN: TopicPlan = TopicPlan { partitions: 5, replication: None };

async fn topic(broker: &FakeBroker) -> Topic {
    Topic::new(cluster(&broker.bootstrap_servers()).await, PLAN)
}

#[tokio::test]
async fn a_topic_is_created_once_and_left_alone_afterwards() {
    let broker = FakeBroker::start_cluster(3).await.unwrap();
    let topic = topic(&broker).await;
    assert_eq!(topic.ensure().await.unwrap(), TopicState::Created);
    assert_eq!(topic.ensure().await.unwrap(), TopicState::Exists { partitions: 5 });
    assert_eq!(broker.request_count(ApiKey::CreateTopics), 1);
}

#[tokio::test]
async fn an_existing_topic_needs_no_right_to_create() {
    let broker = FakeBroker::start().await.unwrap();
    broker.create_topic(TOPIC, 3);
    broker.on(ApiKey::CreateTopics, |_| Control::Error(ErrorCode::ClusterAuthorizationFailed));
    assert_eq!(topic(&broker).await.ensure().await.unwrap(), TopicState::Exists { partitions: 3 });
}

#[tokio::test]
async fn a_login_that_may_not_create_is_told_who_can() {
    for refusal in [ErrorCode::TopicAuthorizationFailed, ErrorCode::ClusterAuthorizationFailed] {
        let broker = FakeBroker::start().await.unwrap();
        broker.on(ApiKey::CreateTopics, move |_| Control::Error(refusal));
        let error = topic(&broker).await.ensure().await.unwrap_err();
        assert!(matches!(error, TopicError::MayNotCreate(_)), "{error:?}");
        assert_eq!(error.retry(), Retry::AfterRepair);
        assert!(error.to_string().contains(TOPIC), "{error}");
    }
}

#[tokio::test]
async fn a_plan_that_the_cluster_cannot_keep_needs_repair() {
    let broker = FakeBroker::start().await.unwrap();
    broker.on(ApiKey::CreateTopics, |_| Control::Error(ErrorCode::InvalidReplicationFactor));
    let error = topic(&broker).await.ensure().await.unwrap_err();
    assert!(matches!(error, TopicError::Refused { .. }), "{error:?}");
    assert_eq!(error.retry(), Retry::AfterRepair);
}

#[test]
fn a_plan_has_partitions_and_may_leave_the_replication_to_the_cluster() {
    let read = |partitions: &str, replication: &str| {
        let mut environment = Environment::of(|name| match name {
            "KAFKA_CHUNKS_PARTITIONS" => Some(partitions.to_owned()),
            "KAFKA_CHUNKS_REPLICATION" => Some(replication.to_owned()),
            _ => None,
        });
        let plan = TopicPlan::read(&mut environment);
        environment.check().map(|()| plan).map_err(|error| error.to_string())
    };
    assert_eq!(read("", ""), Ok(TopicPlan { partitions: 12, replication: None }));
    assert_eq!(read("24", "3"), Ok(TopicPlan { partitions: 24, replication: Some(3) }));
    let wrong = read("0", "40000").unwrap_err();
    assert!(
        wrong.contains("KAFKA_CHUNKS_PARTITIONS") && wrong.contains("KAFKA_CHUNKS_REPLICATION"),
        "{wrong}"
    );
}
