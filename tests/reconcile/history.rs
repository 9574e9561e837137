//! Tests of `reconcile` with batches from before the start of the history of loads.

use ingestion::batch::BatchStatus;
use ingestion::payload::LoadType;
use jiff::{SignedDuration, Timestamp};
use reconcile::{Check, ReconcileError};

use crate::reconcile::stand::{Stand, batch, run, stand_test};

/// Moves all times in the database back by `days`, those of batches and those of the history of
/// loads.
async fn days_pass(stand: &Stand, days: u32) {
    stand.age(days * 24).await;
    time_passes(stand, &format!("{days} d")).await;
    let sql = format!(
        "UPDATE batches SET received_at = received_at - interval '{days} d'; \
         UPDATE batch_history SET kept_since = kept_since - interval '{days} d'"
    );
    stand.sql.batch_execute(&sql).await.unwrap();
}

/// Moves back the time of the last change of the history's start (`announced_at`), by this
/// PostgreSQL interval.
async fn time_passes(stand: &Stand, time: &str) {
    let sql = format!("UPDATE batch_history SET announced_at = announced_at - interval '{time}'");
    stand.sql.batch_execute(&sql).await.unwrap();
}

async fn batches(stand: &Stand) -> i64 {
    stand.sql.query_one("SELECT count(*) FROM batches", &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_batch_is_deleted_ten_minutes_after_the_history_moved_past_its_end() {
    stand_test(async |stand| {
        let old = stand.lose(LoadType::Full, 1200).await;
        run(&stand.reconcile()).await.unwrap();
        assert_eq!(stand.work().await, (1, 2));
        let reconcile = stand.reconcile();
        days_pass(stand, 91).await;
        let young = stand.lose(LoadType::Delta, 10).await;

        let announced = run(&reconcile).await.unwrap();
        assert_eq!(announced.history.rows_pruned, 0, "somebody may not know yet");
        let behind = announced.history.behind_minutes.unwrap();
        assert!((1438..=1440).contains(&behind), "{behind} of the minutes of a day");
        assert_eq!(run(&reconcile).await.unwrap().history.rows_pruned, 0);
        assert_eq!(batches(stand).await, 1);
        // Both runs may have sent the notification of the young one's payload.
        assert!(stand.work().await.0 > 0);

        time_passes(stand, "10 min").await;
        let pruned = run(&reconcile).await.unwrap().history;
        // Two chunks, two establishments, and the batch.
        assert_eq!((pruned.batches_pruned, pruned.rows_pruned, pruned.behind_minutes), (1, 5, Some(0)));
        assert_eq!(batches(stand).await, 1);
        assert_eq!(stand.batch(young).await.status, BatchStatus::Completed);
        let products = stand.sql.query_one("SELECT count(*) FROM products", &[]).await.unwrap();
        assert_eq!(products.get::<_, i64>(0), 1210, "products stay");
        assert_eq!(stand.database().unknown(&[old]).await.unwrap(), [old]);
    })
    .await;
}

#[tokio::test]
async fn a_batch_that_never_ended_is_ended_before_it_is_deleted() {
    stand_test(async |stand| {
        let mut accepted = batch(LoadType::Full);
        accepted.metadata.received_at = Timestamp::now() - SignedDuration::from_hours(24 * 91);
        let (stuck, key) = (accepted.metadata.batch_id, accepted.metadata.key());
        stand.accept(&accepted).await;
        stand.put(&accepted.metadata, 1200).await;
        let reconcile = stand.reconcile();
        reconcile.queue.notify(&stand.bucket, &key, None).await.unwrap();
        assert_eq!(stand.cut().await, 1);
        time_passes(stand, "10 min").await;
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
        // It is deleted as long after its end as any other.
        time_passes(stand, "10 min").await;
        assert_eq!(run(&reconcile).await.unwrap().history.batches_pruned, 0);
        days_pass(stand, 91).await;
        run(&reconcile).await.unwrap();
        time_passes(stand, "10 min").await;
        assert_eq!(run(&reconcile).await.unwrap().history.batches_pruned, 1);
        assert_eq!(batches(stand).await, 0);
    })
    .await;
}

/// Checks that a payload which is stored too late fails, and that its message is acknowledged. That
/// happens if a client repeats an old request that failed before it stored anything.
#[tokio::test]
async fn a_payload_that_comes_too_late_fails_and_its_message_is_acknowledged() {
    stand_test(async |stand| {
        let mut accepted = batch(LoadType::Delta);
        accepted.metadata.received_at = Timestamp::now() - SignedDuration::from_hours(24 * 91);
        stand.accept(&accepted).await;
        stand.put(&accepted.metadata, 10).await;
        let reconcile = stand.reconcile();
        time_passes(stand, "10 min").await;
        run(&reconcile).await.unwrap();
        reconcile.queue.notify(&stand.bucket, &accepted.metadata.key(), None).await.unwrap();
        assert_eq!(stand.work().await, (1, 0));
        let batch = stand.batch(accepted.metadata.batch_id).await;
        assert_eq!((batch.status, batch.error.unwrap().code.as_ref()), (BatchStatus::Failed, "TOO_OLD"));
    })
    .await;
}

#[tokio::test]
async fn a_batch_that_cannot_be_ended_does_not_stop_others_from_being_deleted() {
    stand_test(async |stand| {
        stand.lose(LoadType::Full, 10).await;
        run(&stand.reconcile()).await.unwrap();
        assert_eq!(stand.work().await, (1, 1));
        let reconcile = stand.reconcile();
        days_pass(stand, 91).await;
        let mut accepted = batch(LoadType::Full);
        accepted.metadata.received_at = Timestamp::now() - SignedDuration::from_hours(24 * 91);
        stand.accept(&accepted).await;
        stand.put(&accepted.metadata, 10).await;
        reconcile.queue.notify(&stand.bucket, &accepted.metadata.key(), None).await.unwrap();
        assert_eq!(stand.cut().await, 1);
        let refuse = format!(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$; \
             CREATE TRIGGER refuse BEFORE UPDATE ON batches FOR EACH ROW WHEN (NEW.batch_id = '{}') \
             EXECUTE FUNCTION refuse()",
            accepted.metadata.batch_id
        );
        stand.sql.batch_execute(&refuse).await.unwrap();
        run(&reconcile).await.unwrap();
        time_passes(stand, "10 min").await;
        let failed = run(&reconcile).await.unwrap_err();
        assert!(
            matches!(&failed, ReconcileError::Checks(checks) if checks[..] == [Check::History]),
            "{failed:?}"
        );
        assert_eq!(batches(stand).await, 1, "only the batch that cannot be ended is left");
    })
    .await;
}
