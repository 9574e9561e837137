//! Batches that are older than the history of loads.

use std::time::Duration;

use ingestion::batch::BatchStatus;
use ingestion::payload::LoadType;

use crate::stand::{Stand, run, stand_test};

/// As if so many days had passed for all batches, and since the history was last moved.
async fn days_pass(stand: &Stand, days: u32) {
    stand.age(days * 24).await;
    let sql = format!(
        "UPDATE batches SET received_at = received_at - interval '{days} d', finished_at = finished_at - interval '{days} d'; \
         UPDATE batch_history SET announced_at = announced_at - interval '{days} d'"
    );
    stand.sql.batch_execute(&sql).await.unwrap();
}

async fn batches(stand: &Stand) -> i64 {
    stand.sql.query_one("SELECT count(*) FROM batches", &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn what_was_final_for_as_long_as_the_history_lasts_is_deleted_ten_minutes_after_that_was_said() {
    stand_test(async |stand| {
        let old = stand.lose(LoadType::Full, 1200).await;
        run(&stand.reconcile()).await.unwrap();
        assert_eq!(stand.work().await, (1, 2));
        let mut reconcile = stand.reconcile();
        reconcile.settings.history = Duration::from_hours(24 * 90);
        days_pass(stand, 91).await;
        let young = stand.lose(LoadType::Delta, 10).await;

        let announced = run(&reconcile).await.unwrap();
        assert_eq!(announced.history.rows_pruned, 0, "somebody may not know yet");
        let behind = announced.history.behind_minutes.unwrap();
        assert!((1438..=1440).contains(&behind), "{behind} of the minutes of a day");
        assert_eq!(run(&reconcile).await.unwrap().history.rows_pruned, 0);
        assert_eq!((batches(stand).await, stand.work().await), (1, (1, 1)));

        stand
            .sql
            .batch_execute("UPDATE batch_history SET announced_at = announced_at - interval '10 min'")
            .await
            .unwrap();
        let pruned = run(&reconcile).await.unwrap().history;
        // Two chunks, two establishments, and the batch.
        assert_eq!((pruned.batches_pruned, pruned.rows_pruned, pruned.behind_minutes), (1, 5, Some(0)));
        assert_eq!(batches(stand).await, 1);
        assert_eq!(stand.batch(young).await.status, BatchStatus::Completed);
        let products = stand.sql.query_one("SELECT count(*) FROM products", &[]).await.unwrap();
        assert_eq!(products.get::<_, i64>(0), 1210, "products stay");
        // Told of once more, it is left to people: nobody accepted such a batch any more.
        assert_eq!(stand.database().unknown(&[old]).await.unwrap(), [old]);
    })
    .await;
}

#[tokio::test]
async fn a_batch_that_never_ended_is_ended_before_it_is_deleted() {
    stand_test(async |stand| {
        let stuck = stand.lose(LoadType::Full, 1200).await;
        run(&stand.reconcile()).await.unwrap();
        stand.cut().await;
        days_pass(stand, 91).await;
        let reconcile = stand.reconcile();
        assert_eq!(run(&reconcile).await.unwrap().history.too_old, 0, "the history begins later from now on");
        let report = run(&reconcile).await.unwrap();
        assert_eq!((report.history.too_old, report.history.batches_pruned), (1, 0));
        let batch = stand.batch(stuck).await;
        assert_eq!((batch.status, batch.chunks.failed), (BatchStatus::Failed, 2));
        assert_eq!(batch.error.unwrap().code, "TOO_OLD");
        // Its chunks come late, and are acknowledged.
        assert_eq!(stand.work().await, (0, 2));
        let products = stand.sql.query_one("SELECT count(*) FROM products", &[]).await.unwrap();
        assert_eq!(products.get::<_, i64>(0), 0);
        days_pass(stand, 91).await;
        run(&reconcile).await.unwrap();
        days_pass(stand, 1).await;
        assert_eq!(run(&reconcile).await.unwrap().history.batches_pruned, 1);
        assert_eq!(batches(stand).await, 0);
    })
    .await;
}
