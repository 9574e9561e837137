//! Tests of publishing events that stayed in the outbox, as `reconcile` does.

use std::time::Duration;

use attempt::Deadline;
use catalog::{LeftEvents, OutboxError};
use events::PublishError;
use uuid::Uuid;

use crate::publishing::stand::{FINAL, GIVEN_UP, Stand, batch, begin, end, types};

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(20))
}

#[tokio::test]
async fn events_of_a_function_that_died_after_its_commit_are_published() {
    let stand = Stand::open().await;
    let publisher = stand.to_the_bus().await;
    let died = stand.database(&publisher);
    let batch = batch();
    begin(&died, &batch).await;
    end(&died, &batch).await;
    drop(died);
    let database = stand.database(&publisher);
    database.publish_committed(&publisher).await;
    let recent = database.publish_left(&publisher, Duration::from_mins(1), 10, soon()).await.unwrap();
    assert_eq!(recent, LeftEvents::default(), "it may still be at it");
    let left = database.publish_left(&publisher, Duration::ZERO, 10, soon()).await.unwrap();
    assert_eq!(left, LeftEvents { published: 2, ..LeftEvents::default() });
    assert_eq!(types(&stand.bus.on_the_bus()), [GIVEN_UP, FINAL]);
    assert_eq!(stand.waiting().await, 0);
}

#[tokio::test]
async fn an_event_that_is_refused_stays_and_the_others_of_its_call_do_not() {
    let stand = Stand::open().await;
    let publisher = stand.to_both().await;
    let (database, batch) = (stand.database(&publisher), batch());
    begin(&database, &batch).await;
    end(&database, &batch).await;
    stand.bus.refuse(&[GIVEN_UP]);
    database.publish_committed(&publisher).await;
    assert_eq!(types(&stand.bus.on_the_bus()), [FINAL]);
    assert_eq!(types(&stand.bus.on_the_topic()), [FINAL]);
    let left = database.publish_left(&publisher, Duration::ZERO, 10, soon()).await.unwrap();
    assert_eq!(left, LeftEvents { refused: 1, ..LeftEvents::default() });
    stand.bus.refuse(&[]);
    let left = database.publish_left(&publisher, Duration::ZERO, 10, soon()).await.unwrap();
    assert_eq!(left, LeftEvents { published: 1, ..LeftEvents::default() });
    assert_eq!(types(&stand.bus.on_the_topic()), [FINAL, GIVEN_UP]);
    assert_eq!(stand.waiting().await, 0);
}

#[tokio::test]
async fn a_bus_that_is_away_ends_the_run_and_keeps_every_event_in_its_place() {
    let stand = Stand::open().await;
    let publisher = stand.to_the_bus().await;
    let (database, batch) = (stand.database(&publisher), batch());
    begin(&database, &batch).await;
    end(&database, &batch).await;
    stand.bus.go_away(true);
    let failed = database.publish_left(&publisher, Duration::ZERO, 10, soon()).await.unwrap_err();
    assert!(matches!(failed, OutboxError::Publish(PublishError::Bus(_))), "{failed:?}");
    assert_eq!(stand.waiting().await, 2);
    stand.bus.go_away(false);
    database.publish_left(&publisher, Duration::ZERO, 10, soon()).await.unwrap();
    assert_eq!(types(&stand.bus.on_the_bus()), [GIVEN_UP, FINAL]);
}

#[tokio::test]
async fn a_run_publishes_as_many_as_it_may_ten_in_a_call_in_their_order() {
    let stand = Stand::open().await;
    let publisher = stand.to_the_bus().await;
    let database = stand.database(&publisher);
    let ids: Vec<Uuid> = (0..250).map(|_| Uuid::now_v7()).collect();
    let insert = "INSERT INTO outbox (event_id, event_type, batch_id, tenant_id, idempotency_key, trace_id, data) \
        SELECT id, 'integrahub.batch.received', id, id, 'k', 't', '{}' FROM unnest($1::uuid[]) WITH ORDINALITY AS e (id, n) \
        ORDER BY n";
    stand.tables.client.execute(insert, &[&ids]).await.unwrap();
    let run = async |limit| database.publish_left(&publisher, Duration::ZERO, limit, soon()).await.unwrap();
    assert_eq!(run(120).await, LeftEvents { published: 120, refused: 0, is_more: true });
    assert!(stand.bus.calls().iter().all(|call| call.len() == 10));
    assert_eq!(run(1000).await, LeftEvents { published: 130, refused: 0, is_more: false });
    let published: Vec<String> =
        stand.bus.on_the_bus().iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(published, ids.iter().map(Uuid::to_string).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_event_that_can_never_be_published_does_not_stand_in_the_way() {
    let stand = Stand::open().await;
    let publisher = stand.to_the_bus().await;
    let (database, batch) = (stand.database(&publisher), batch());
    let insert = "INSERT INTO outbox (event_id, event_type, batch_id, tenant_id, idempotency_key, trace_id, data) \
        SELECT gen_random_uuid(), 'x', gen_random_uuid(), gen_random_uuid(), 'k', 't', \
            jsonb_build_object('text', repeat('x', size)) FROM unnest(ARRAY[300000, 1]) AS size";
    stand.tables.client.execute(insert, &[]).await.unwrap();
    begin(&database, &batch).await;
    let left = database.publish_left(&publisher, Duration::ZERO, 10, soon()).await.unwrap();
    assert_eq!(left, LeftEvents { published: 2, refused: 1, is_more: false });
    assert_eq!(types(&stand.bus.on_the_bus()), ["x", GIVEN_UP]);
}

#[tokio::test]
async fn two_publishers_at_once_lose_nothing_and_repeat_under_the_same_id() {
    let stand = Stand::open().await;
    let publisher = stand.to_the_bus().await;
    let (one, other) = (stand.database(&publisher), stand.database(&publisher));
    for number in 0..20 {
        let mut batch = batch();
        batch.metadata.idempotency_key = format!("loja-{number}");
        begin(&one, &batch).await;
        end(&one, &batch).await;
    }
    let runs = tokio::join!(
        one.publish_committed(&publisher),
        other.publish_left(&publisher, Duration::ZERO, 100, soon()),
    );
    runs.1.unwrap();
    assert_eq!(stand.waiting().await, 0);
    let mut ids: Vec<String> =
        stand.bus.on_the_bus().iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect();
    assert!(ids.len() >= 40, "{}", ids.len());
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 40);
}
