//! Tests of publishing events to Kafka topics, alone and together with the other destinations.

use std::time::{Duration, Instant};

use attempt::{Deadline, Retry, Retryable as _};
use catalog::{LeftEvents, OutboxError};
use events::PublishError;
use krafka::consumer::ConsumerRecord;
use krafka::error::ErrorCode;
use krafka::testing::{ApiKey, Control, FakeBroker};
use runtime::Envelope;
use serde_json::Value;
use test_support::log::Sink;
use tracing::instrument::WithSubscriber as _;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::publishing::stand::{
    EVENTS_TOPIC, FAILURES_TOPIC, FINAL, GIVEN_UP, Stand, batch, begin, conforms, end, types,
};

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(20))
}

async fn broker() -> FakeBroker {
    let broker = FakeBroker::start().await.unwrap();
    broker.create_topic(FAILURES_TOPIC, 3);
    broker.create_topic(EVENTS_TOPIC, 3);
    broker
}

/// Returns the records of both Kafka topics, first those of [`FAILURES_TOPIC`].
fn records(broker: &FakeBroker) -> Vec<ConsumerRecord> {
    let of_topic = |topic| broker.all_records(topic).unwrap();
    [FAILURES_TOPIC, EVENTS_TOPIC].into_iter().flat_map(of_topic).collect()
}

fn events(broker: &FakeBroker) -> Vec<Value> {
    let event = |record: ConsumerRecord| serde_json::from_slice(&record.value.unwrap()).unwrap();
    records(broker).into_iter().map(event).collect()
}

#[tokio::test]
async fn every_destination_gets_the_same_events() {
    let (stand, broker) = (Stand::open().await, broker().await);
    let publisher = stand.to_all(&broker).await;
    let (database, batch) = (stand.database(&publisher), batch());
    begin(&database, &batch).await;
    end(&database, &batch).await;
    database.publish_committed(&publisher).await;
    assert_eq!(stand.waiting().await, 0);
    let events = events(&broker);
    assert_eq!(types(&events), [GIVEN_UP, FINAL]);
    events.iter().for_each(conforms);
    assert_eq!(stand.bus.on_the_bus(), events);
    assert_eq!(stand.bus.on_the_topic(), events);
}

#[tokio::test]
async fn a_record_is_in_the_topic_of_its_kind_keyed_by_its_tenant_and_has_headers_to_choose_by() {
    let (stand, broker) = (Stand::open().await, broker().await);
    let publisher = stand.to_kafka(&broker.bootstrap_servers()).await;
    let (database, batch) = (stand.database(&publisher), batch());
    begin(&database, &batch).await;
    end(&database, &batch).await;
    database.publish_committed(&publisher).await;
    let records = records(&broker);
    assert_eq!(records.len(), 2);
    let tenant = batch.metadata.tenant_id.to_string();
    let kinds = [(FAILURES_TOPIC, GIVEN_UP), (EVENTS_TOPIC, FINAL)];
    for (record, (topic, of_type)) in records.iter().zip(kinds) {
        assert_eq!(record.topic.as_ref() as &str, topic);
        assert_eq!(record.key.as_deref(), Some(tenant.as_bytes()));
        let envelope = "application/cloudevents+json; charset=UTF-8";
        assert_eq!(record.header_str("content-type"), Some(envelope));
        assert_eq!(record.header_str("type"), Some(of_type));
        assert_eq!(record.header_str("tenant"), Some(tenant.as_str()));
    }
}

#[tokio::test]
async fn a_topic_that_takes_nothing_keeps_no_event_from_the_others_and_gets_it_later() {
    let (stand, broker) = (Stand::open().await, broker().await);
    let publisher = stand.to_all(&broker).await;
    let database = stand.database(&publisher);
    broker.on(ApiKey::Produce, |_| Control::Error(ErrorCode::TopicAuthorizationFailed));
    // More batches than a call has events, committed by one process.
    let batches: Vec<_> = (0..12)
        .map(|number| {
            let mut batch = batch();
            batch.metadata.idempotency_key = format!("loja-{number}");
            batch
        })
        .collect();
    for batch in &batches {
        begin(&database, batch).await;
    }
    database.publish_committed(&publisher).await;
    assert_eq!(stand.waiting().await, 12);
    assert_eq!((stand.bus.on_the_bus().len(), stand.bus.on_the_topic().len()), (12, 12));
    let tried = broker.request_count(ApiKey::Produce);
    assert_eq!(tried, 1, "a destination that failed gets no further call of the run");

    let failed = database.publish_left(&publisher, Duration::ZERO, 100, soon()).await.unwrap_err();
    assert!(matches!(failed, OutboxError::Publish(PublishError::Kafka(_))), "{failed:?}");
    assert_eq!(failed.retry(), Retry::AfterRepair);
    assert_eq!(stand.waiting().await, 12);
    assert_eq!((stand.bus.on_the_bus().len(), stand.bus.on_the_topic().len()), (24, 24));

    broker.clear_hooks();
    let left = database.publish_left(&publisher, Duration::ZERO, 100, soon()).await.unwrap();
    assert_eq!(left, LeftEvents { published: 12, ..LeftEvents::default() });
    assert_eq!(stand.waiting().await, 0);
    let mut ids: Vec<String> =
        stand.bus.on_the_bus().iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 12, "what is published again has the same id");
    let mut in_kafka: Vec<String> =
        events(&broker).iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect();
    in_kafka.sort();
    assert_eq!(in_kafka, ids);
}

#[tokio::test]
async fn a_topic_of_failures_that_is_not_there_keeps_no_event_from_the_other_topic() {
    let (stand, broker) = (Stand::open().await, FakeBroker::start().await.unwrap());
    broker.create_topic(EVENTS_TOPIC, 3);
    let publisher = stand.to_kafka(&broker.bootstrap_servers()).await;
    let (database, batch) = (stand.database(&publisher), batch());
    begin(&database, &batch).await;
    end(&database, &batch).await;
    database.publish_committed(&publisher).await;
    let received = broker.all_records(EVENTS_TOPIC).unwrap();
    let types: Vec<_> = received.iter().map(|record| record.header_str("type")).collect();
    assert_eq!(types, [Some(FINAL)]);
    assert_eq!(stand.waiting().await, 2, "both are sent again");
}

/// Checks that a topic whose call failed gets no further call, and that the other topic still gets
/// all of its events. There are more events than fit into one call.
#[tokio::test]
async fn a_topic_that_failed_keeps_no_later_event_from_the_other_topic() {
    let (stand, broker) = (Stand::open().await, FakeBroker::start().await.unwrap());
    broker.create_topic(EVENTS_TOPIC, 3);
    let publisher = stand.to_kafka(&broker.bootstrap_servers()).await;
    let database = stand.database(&publisher);
    for number in 0..12 {
        let mut batch = batch();
        batch.metadata.idempotency_key = format!("loja-{number}");
        begin(&database, &batch).await;
        end(&database, &batch).await;
    }
    database.publish_left(&publisher, Duration::ZERO, 100, soon()).await.unwrap_err();
    let received = broker.all_records(EVENTS_TOPIC).unwrap();
    assert_eq!(received.len(), 12);
    assert!(received.iter().all(|record| record.header_str("type") == Some(FINAL)));
    assert_eq!(stand.waiting().await, 24, "all are sent again");
}

#[tokio::test]
async fn each_topic_that_failed_is_logged() {
    let (stand, broker) = (Stand::open().await, FakeBroker::start().await.unwrap());
    let publisher = stand.to_kafka(&broker.bootstrap_servers()).await;
    let (database, batch) = (stand.database(&publisher), batch());
    begin(&database, &batch).await;
    end(&database, &batch).await;
    let sink = Sink::default();
    let make_writer = sink.clone();
    let subscriber = tracing_subscriber::registry().with(Envelope::to(move || make_writer.clone()));
    let publishing = database.publish_left(&publisher, Duration::ZERO, 100, soon());
    publishing.with_subscriber(subscriber).await.unwrap_err();
    let lines = sink.lines();
    let failed = lines.iter().filter(|line| line["event_type"] == "destination.failed");
    let topics: Vec<&Value> = failed.map(|line| &line["context"]["topic"]).collect();
    assert_eq!(topics, [FAILURES_TOPIC, EVENTS_TOPIC]);
}

#[tokio::test]
async fn one_topic_for_all_events_has_those_of_a_batch_in_their_order() {
    let (stand, broker) = (Stand::open().await, FakeBroker::start().await.unwrap());
    broker.create_topic(EVENTS_TOPIC, 3);
    let publisher = stand.to_one_topic_of_kafka(&broker.bootstrap_servers()).await;
    let (database, batch) = (stand.database(&publisher), batch());
    begin(&database, &batch).await;
    end(&database, &batch).await;
    database.publish_committed(&publisher).await;
    let received = broker.all_records(EVENTS_TOPIC).unwrap();
    let types: Vec<_> = received.iter().map(|record| record.header_str("type")).collect();
    assert_eq!(types, [Some(GIVEN_UP), Some(FINAL)]);
    assert_eq!(stand.waiting().await, 0);
}

#[tokio::test]
async fn a_bus_that_is_away_keeps_no_event_from_the_topics() {
    let (stand, broker) = (Stand::open().await, broker().await);
    let publisher = stand.to_all(&broker).await;
    let (database, batch) = (stand.database(&publisher), batch());
    stand.bus.bus_goes_away(true);
    begin(&database, &batch).await;
    database.publish_committed(&publisher).await;
    assert_eq!(stand.waiting().await, 1);
    assert_eq!(types(&events(&broker)), [GIVEN_UP]);
    assert_eq!(types(&stand.bus.on_the_topic()), [GIVEN_UP]);
    stand.bus.bus_goes_away(false);
    end(&database, &batch).await;
    database.publish_committed(&publisher).await;
    assert_eq!(stand.waiting().await, 0);
    assert_eq!(types(&stand.bus.on_the_bus()), [GIVEN_UP, FINAL]);
    assert_eq!(types(&events(&broker)), [GIVEN_UP, GIVEN_UP, FINAL]);
}

#[tokio::test]
async fn an_event_that_one_destination_refused_stays_and_is_repeated_to_all() {
    let (stand, broker) = (Stand::open().await, broker().await);
    let publisher = stand.to_all(&broker).await;
    let (database, batch) = (stand.database(&publisher), batch());
    begin(&database, &batch).await;
    end(&database, &batch).await;
    stand.bus.refuse(&[GIVEN_UP]);
    database.publish_committed(&publisher).await;
    assert_eq!(stand.waiting().await, 1);
    assert_eq!(types(&events(&broker)), [GIVEN_UP, FINAL]);
    stand.bus.refuse(&[]);
    database.publish_left(&publisher, Duration::ZERO, 10, soon()).await.unwrap();
    assert_eq!(stand.waiting().await, 0);
    let records = events(&broker);
    assert_eq!(types(&records), [GIVEN_UP, GIVEN_UP, FINAL]);
    assert_eq!(records[0], records[1]);
}

/// Checks that an unavailable Kafka cluster costs a function only seconds and loses no event. The
/// function publishes with little time left, after its own work succeeded.
#[tokio::test]
async fn a_cluster_that_is_away_costs_a_function_seconds_and_no_event() {
    let [port] = test_support::ports::free().unwrap();
    let stand = Stand::open().await;
    let publisher = stand.to_kafka(&format!("127.0.0.1:{port}")).await;
    let database = stand.database(&publisher);
    begin(&database, &batch()).await;
    let began = Instant::now();
    database.publish_committed(&publisher).await;
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert_eq!(stand.waiting().await, 1);
}
