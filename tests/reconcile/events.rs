//! Tests of `reconcile` with events that were not published when their facts were committed.

use std::time::Duration;

use ingestion::chunk::{ChunkReady, Generation};
use ingestion::payload::LoadType;
use reconcile::{Check, EventsReport, Reconcile, ReconcileError};
use serde_json::Value;
use test_support::event_bus::FakeEventBus;

use crate::reconcile::completed;
use crate::reconcile::stand::{Stand, run, stand_test};

const FINAL: &str = "integrahub.batch.final";

/// Returns `reconcile` with a setting by which it publishes every event in the outbox, however new.
fn at_once(stand: &Stand) -> Reconcile {
    let mut reconcile = stand.reconcile();
    reconcile.settings.events_after = Duration::ZERO;
    reconcile
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_batch_completes_while_the_bus_is_away_and_its_events_follow() {
    stand_test(async |stand| {
        let bus = FakeEventBus::start().await;
        stand.publish_to(&bus).await;
        bus.go_away(true);
        let batch_id = stand.lose(LoadType::Full, 1200).await;
        run(&stand.reconcile()).await.unwrap();
        assert_eq!(stand.work().await, (1, 2), "no message is retried");
        completed(stand, batch_id).await;
        assert_eq!(stand.number("SELECT count(*) FROM outbox").await, 1);
        let failed = run(&at_once(stand)).await.unwrap_err();
        assert!(
            matches!(&failed, ReconcileError::Checks(checks) if *checks == [Check::Events]),
            "{failed:?}"
        );

        bus.go_away(false);
        let report = run(&stand.reconcile()).await.unwrap().events;
        assert_eq!(report, EventsReport { behind_minutes: Some(0), ..EventsReport::default() }, "too early");
        let report = run(&at_once(stand)).await.unwrap().events;
        assert_eq!(report, EventsReport { published: 1, behind_minutes: Some(0), ..EventsReport::default() });
        assert_eq!(types(&bus.on_the_bus()), [FINAL]);
        assert_eq!(bus.on_the_bus()[0]["data"]["batch_id"], batch_id.to_string());
        assert_eq!(run(&at_once(stand)).await.unwrap().events.published, 0);
        assert_eq!(stand.number("SELECT count(*) FROM outbox").await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_function_that_dies_between_its_commit_and_its_call_leaves_its_event_to_the_next_run() {
    stand_test(async |stand| {
        let bus = FakeEventBus::start().await;
        stand.publish_to(&bus).await;
        let batch_id = stand.lose(LoadType::Delta, 10).await;
        run(&stand.reconcile()).await.unwrap();
        assert_eq!(stand.cut().await, 1);
        // The facts of a process that never calls the bus.
        let died = stand.database();
        let generation = Generation::FIRST;
        let key = ingestion::payload::chunk_key(batch_id, generation, 0);
        let chunk_uri = objects::uri_of(&stand.bucket, &key);
        let cnpj = "11222333000181".parse().unwrap();
        let chunk = ChunkReady { batch_id, generation, chunk_index: 0, chunk_uri, cnpj, items: 10 };
        died.fail_chunk(&chunk, "no answer").await.unwrap();
        drop(died);
        assert!(bus.on_the_bus().is_empty());
        let report = run(&at_once(stand)).await.unwrap().events;
        assert_eq!(report.published, 2);
        assert_eq!(types(&bus.on_the_bus()), ["integrahub.chunk.given_up", FINAL]);
        assert_eq!(bus.on_the_bus()[1]["data"]["status"], "FAILED");
    })
    .await;
}

#[tokio::test]
async fn a_batch_that_a_run_finalizes_is_published_by_that_run() {
    stand_test(async |stand| {
        let bus = FakeEventBus::start().await;
        stand.publish_to(&bus).await;
        let batch_id = stand.lose(LoadType::Delta, 10).await;
        run(&stand.reconcile()).await.unwrap();
        assert_eq!(stand.work().await, (1, 1));
        // As if the writer of the last chunk had died before the end of a full load.
        stand
            .sql
            .batch_execute(
                "UPDATE batches SET load_type = 'full', status = 'PROCESSING', finished_at = NULL, \
                 deactivation = '{\"state\": \"pending\"}'; UPDATE batch_cnpjs SET deactivation = NULL",
            )
            .await
            .unwrap();
        stand.age(1).await;
        let report = run(&stand.reconcile()).await.unwrap();
        assert_eq!((report.batches.finalized, report.events.published), (1, 0));
        assert_eq!(types(&bus.on_the_bus()), [FINAL, FINAL]);
        completed(stand, batch_id).await;
    })
    .await;
}
