//! Tests of events that a function publishes itself, right after it committed the changes that they
//! report.

use std::time::Duration;

use attempt::Deadline;
use catalog::{LeftEvents, OutboxMode};
use events::{Event, Publisher};
use serde_json::Value;

use crate::publishing::stand::{FIFO, FINAL, GIVEN_UP, Stand, batch, begin, conforms, end, types};

#[tokio::test]
async fn events_are_published_once_they_are_committed_and_leave_the_outbox() {
    let stand = Stand::open().await;
    let publisher = stand.to_both().await;
    let (database, batch) = (stand.database(&publisher), batch());
    database.publish_committed(&publisher).await;
    assert!(stand.bus.calls().is_empty(), "nothing was committed");
    begin(&database, &batch).await;
    assert!(stand.bus.calls().is_empty());
    database.publish_committed(&publisher).await;
    assert_eq!(types(&stand.bus.on_the_bus()), [GIVEN_UP]);
    end(&database, &batch).await;
    database.publish_committed(&publisher).await;
    assert_eq!(stand.waiting().await, 0);

    let events = stand.bus.on_the_bus();
    assert_eq!(types(&events), [GIVEN_UP, FINAL]);
    assert_eq!(stand.bus.on_the_topic(), events);
    events.iter().for_each(conforms);
    let last = &events[1];
    assert_eq!(last["id"], last["idempotencykey"]);
    assert_eq!(last["source"], format!("/batches/{}", batch.metadata.batch_id));
    assert_eq!(
        (&last["tenant"], &last["traceid"]),
        (&batch.metadata.tenant_id.to_string().into(), &"trace-1".into())
    );
    assert_eq!(last["data"]["source_idempotency_key"], "loja-12-2026-11-22");
    let entry = &stand.bus.calls()[1][0];
    assert_eq!((&entry["Source"], &entry["DetailType"]), (&"integrahub".into(), &FINAL.into()));
    assert_eq!(entry["EventBusName"], "arn:aws:events:us-east-1:111122223333:event-bus/news");
}

#[tokio::test]
async fn a_topic_gets_attributes_to_filter_by_and_one_in_order_gets_a_group_for_each_batch() {
    let stand = Stand::open().await;
    let publisher = stand.to_the_topic(FIFO).await;
    let (database, batch) = (stand.database(&publisher), batch());
    begin(&database, &batch).await;
    database.publish_committed(&publisher).await;
    let (attributes, event) = (&stand.bus.attributes()[0], &stand.bus.on_the_topic()[0]);
    let attribute = |number: usize| {
        let of = |part: &str| attributes[&format!("MessageAttributes.entry.{number}.{part}")].clone();
        (of("Name"), of("Value.StringValue"))
    };
    let mut named = [attribute(1), attribute(2)];
    named.sort();
    let tenant = batch.metadata.tenant_id.to_string();
    assert_eq!(named, [("tenant".to_owned(), tenant), ("type".to_owned(), GIVEN_UP.to_owned())]);
    assert_eq!(attributes["MessageGroupId"], batch.metadata.batch_id.to_string());
    assert_eq!(attributes["MessageDeduplicationId"], event["id"]);
}

#[tokio::test]
async fn a_bus_that_is_away_fails_nothing_and_the_next_fact_takes_the_earlier_events_along_in_order() {
    let stand = Stand::open().await;
    let publisher = stand.to_the_bus().await;
    let (database, batch) = (stand.database(&publisher), batch());
    stand.bus.go_away(true);
    begin(&database, &batch).await;
    database.publish_committed(&publisher).await;
    assert_eq!(stand.waiting().await, 1);
    stand.bus.go_away(false);
    end(&database, &batch).await;
    database.publish_committed(&publisher).await;
    assert_eq!(types(&stand.bus.on_the_bus()), [GIVEN_UP, FINAL]);
    assert_eq!(stand.waiting().await, 0);
}

#[tokio::test]
async fn an_event_that_is_published_again_is_the_same_event() {
    let stand = Stand::open().await;
    let publisher = stand.to_the_bus().await;
    let database = stand.database(&publisher);
    begin(&database, &batch()).await;
    // The bus takes the event, and the function dies before it deletes it from the outbox.
    stand.tables.execute("CREATE RULE keep AS ON DELETE TO outbox DO INSTEAD NOTHING").await;
    database.publish_committed(&publisher).await;
    stand.tables.execute("DROP RULE keep ON outbox").await;
    assert_eq!(stand.waiting().await, 1);
    let left = database.publish_left(&publisher, Duration::ZERO, 10, soon()).await.unwrap();
    assert_eq!(left, LeftEvents { published: 1, ..LeftEvents::default() });
    let events = stand.bus.on_the_bus();
    assert_eq!(events.len(), 2);
    assert_eq!(events[0], events[1]);
    let read = |event: &Value| Event::<Value>::read(event.to_string().as_bytes()).unwrap();
    assert_eq!(read(&events[0]).fingerprint(), read(&events[1]).fingerprint());
}

#[tokio::test]
async fn without_a_destination_nothing_is_written_read_or_published() {
    let stand = Stand::open().await;
    let publisher = Publisher::new(Vec::new());
    assert_eq!(OutboxMode::needed_by(&publisher), OutboxMode::Unused);
    let database = stand.database(&publisher);
    begin(&database, &batch()).await;
    database.publish_committed(&publisher).await;
    assert_eq!(stand.waiting().await, 0);
    let left = database.publish_left(&publisher, Duration::ZERO, 10, soon()).await.unwrap();
    assert_eq!(left, LeftEvents::default());
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(20))
}
