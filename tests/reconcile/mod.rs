//! Tests that one call of `reconcile` lets stalled work of the ingest continue.

mod deployed;
mod drops;
mod events;
mod history;
mod replays;
mod results;
mod stand;
mod uploads;

use futures_util::future::join_all;
use ingestion::batch::BatchStatus;
use ingestion::payload::LoadType;
use reconcile::{BatchesReport, Check, HistoryReport, ReconcileError, Report};
use uuid::Uuid;

use stand::{Stand, batch, run, stand_test};

/// Returns the report of a call of `reconcile` that found nothing to do and no stuck batch.
fn nothing() -> Report {
    Report {
        batches: BatchesReport { stuck: Some(0), chunks_behind_minutes: Some(0), ..BatchesReport::default() },
        history: HistoryReport { behind_minutes: Some(0), ..HistoryReport::default() },
        ..Report::default()
    }
}

async fn completed(stand: &Stand, batch_id: Uuid) {
    let batch = stand.batch(batch_id).await;
    assert_eq!(batch.status, BatchStatus::Completed, "{batch:?}");
}

#[tokio::test]
async fn a_payload_whose_notification_was_lost_becomes_a_batch() {
    stand_test(async |stand| {
        let reconcile = stand.reconcile();
        assert_eq!(run(&reconcile).await.unwrap(), nothing());
        let batch_id = stand.lose(LoadType::Delta, 1200).await;
        let report = run(&reconcile).await.unwrap();
        assert_eq!((report.objects.seen, report.objects.found), (1, 1));
        assert_eq!(stand.work().await, (1, 2));
        completed(stand, batch_id).await;
        let after = run(&reconcile).await.unwrap();
        assert_eq!((after.objects.seen, after.objects.found, after.batches), (1, 0, nothing().batches));
        assert_eq!(stand.work().await, (0, 0));
    })
    .await;
}

#[tokio::test]
async fn a_young_object_is_left_to_its_own_notification() {
    stand_test(async |stand| {
        stand.lose(LoadType::Delta, 10).await;
        let mut reconcile = stand.reconcile();
        reconcile.settings.object_age = reconcile::Settings::default().object_age;
        let report = run(&reconcile).await.unwrap();
        assert_eq!((report.objects.seen, report.objects.found), (1, 0));
        assert_eq!(stand.work().await, (0, 0));
    })
    .await;
}

#[tokio::test]
async fn concurrent_runs_notify_of_each_payload_once() {
    stand_test(async |stand| {
        let mut lost = Vec::new();
        for _ in 0..20 {
            lost.push(stand.lose(LoadType::Delta, 3).await);
        }
        let runs = [stand.reconcile(), stand.reconcile(), stand.reconcile()];
        let reports = join_all(runs.iter().map(run)).await;
        let found: u64 = reports.iter().map(|report| report.as_ref().unwrap().objects.found).sum();
        assert_eq!(found, 20);
        assert_eq!(stand.work().await, (20, 20));
        for batch_id in lost {
            completed(stand, batch_id).await;
        }
    })
    .await;
}

#[tokio::test]
async fn objects_that_are_not_payloads_are_reported_and_left_alone() {
    stand_test(async |stand| {
        let accepted = batch(LoadType::Delta);
        let folder = accepted.metadata.key();
        let folder = folder.rsplit_once('/').unwrap().0;
        for name in ["not-a-payload".to_owned(), Uuid::now_v7().to_string()] {
            let put = stand.s3.put_object().bucket(&stand.bucket).key(format!("{folder}/{name}"));
            put.send().await.unwrap();
        }
        // It names its batch, which was never accepted.
        stand.put(&accepted.metadata, 1).await;
        let report = run(&stand.reconcile()).await.unwrap();
        assert_eq!((report.objects.seen, report.objects.found, report.objects.foreign), (3, 0, 3));
        assert_eq!(stand.work().await, (0, 0));
    })
    .await;
}

#[tokio::test]
async fn chunks_that_were_never_announced_are_written() {
    stand_test(async |stand| {
        let batch_id = stand.lose(LoadType::Delta, 2500).await;
        run(&stand.reconcile()).await.unwrap();
        assert_eq!(stand.cut().await, 1);
        assert_eq!(stand.lose_chunks().await, 3);
        // It stalled only now.
        assert_eq!(run(&stand.reconcile()).await.unwrap().batches, nothing().batches);
        stand.age(1).await;
        let runs = [stand.reconcile(), stand.reconcile()];
        let reports = join_all(runs.iter().map(run)).await;
        let restarted: u64 = reports.iter().map(|report| report.as_ref().unwrap().batches.restarted).sum();
        assert_eq!(restarted, 1);
        assert_eq!(stand.work().await, (1, 3));
        completed(stand, batch_id).await;
    })
    .await;
}

#[tokio::test]
async fn a_run_of_the_chunker_that_died_is_repeated() {
    stand_test(async |stand| {
        let batch_id = stand.lose(LoadType::Delta, 700).await;
        run(&stand.reconcile()).await.unwrap();
        stand.work().await;
        // The payload was being read, and its message is lost.
        let sql = format!(
            "DELETE FROM batch_chunks; DELETE FROM products; UPDATE batches SET status = 'CHUNKING', finished_at = NULL, \
             sealed_at = NULL, chunks_done = 0 WHERE batch_id = '{batch_id}'"
        );
        stand.sql.batch_execute(&sql).await.unwrap();
        stand.age(1).await;
        assert_eq!(run(&stand.reconcile()).await.unwrap().batches.restarted, 1);
        assert_eq!(stand.work().await, (1, 1));
        completed(stand, batch_id).await;
        assert_eq!(stand.batch(batch_id).await.changes.inserted, 700);
    })
    .await;
}

#[tokio::test]
async fn a_full_load_that_was_not_finalized_is_finalized() {
    stand_test(async |stand| {
        let batch_id = stand.lose(LoadType::Full, 300).await;
        run(&stand.reconcile()).await.unwrap();
        stand.work().await;
        completed(stand, batch_id).await;
        let key = stand.s3.list_objects_v2().bucket(&stand.bucket).prefix("incoming/").send().await.unwrap();
        let key = key.contents()[0].key().unwrap().to_owned();
        stand.s3.delete_object_tagging().bucket(&stand.bucket).key(&key).send().await.unwrap();
        // The writer died between the last chunk's transaction and that of the end.
        let sql = "UPDATE batches SET status = 'PROCESSING', finished_at = NULL, deactivation = '{\"state\": \"pending\"}'";
        stand.sql.batch_execute(sql).await.unwrap();
        assert_eq!(run(&stand.reconcile()).await.unwrap().batches.finalized, 0);
        stand.age(48).await;
        let runs = [stand.reconcile(), stand.reconcile()];
        let reports = join_all(runs.iter().map(run)).await;
        let finalized: u64 = reports.iter().map(|report| report.as_ref().unwrap().batches.finalized).sum();
        assert_eq!(finalized, 1);
        completed(stand, batch_id).await;
        let tags = stand.s3.get_object_tagging().bucket(&stand.bucket).key(&key).send().await.unwrap();
        assert_eq!((tags.tag_set[0].key.as_str(), tags.tag_set[0].value.as_str()), ("state", "final"));
        assert_eq!(stand.work().await, (0, 0));
    })
    .await;
}

#[tokio::test]
async fn a_batch_that_restarting_does_not_help_is_reported_after_a_day() {
    stand_test(async |stand| {
        stand.lose(LoadType::Delta, 10).await;
        run(&stand.reconcile()).await.unwrap();
        stand.cut().await;
        stand.lose_chunks().await;
        stand.age(25).await;
        for _ in 0..2 {
            let report = run(&stand.reconcile()).await.unwrap();
            assert_eq!((report.batches.restarted, report.batches.stuck), (0, Some(1)));
        }
        assert_eq!(stand.work().await, (0, 0));
    })
    .await;
}

#[tokio::test]
async fn a_run_without_its_database_fails_and_the_next_makes_up_for_it() {
    stand_test(async |stand| {
        let batch_id = stand.lose(LoadType::Delta, 10).await;
        stand.accept(&stand::upload(2)).await;
        let failed = run(&stand.without_database()).await.unwrap_err();
        let ReconcileError::Checks(checks) = &failed else { panic!("{failed:?}") };
        let all = [
            Check::Objects,
            Check::Stopped,
            Check::Unfinished,
            Check::Kept,
            Check::Uploads,
            Check::Drops,
            Check::History,
        ];
        assert_eq!(checks[..], all);
        let names = "objects, stopped, unfinished, kept, uploads, drops, history";
        assert!(failed.to_string().ends_with(names), "{failed}");
        assert_eq!(stand.work().await, (0, 0));
        let report = run(&stand.reconcile()).await.unwrap();
        assert_eq!((report.objects.found, report.uploads.expired), (1, 1));
        stand.work().await;
        completed(stand, batch_id).await;
    })
    .await;
}

#[tokio::test]
async fn a_notification_that_failed_is_sent_by_the_next_run() {
    stand_test(async |stand| {
        let stopped = stand.lose(LoadType::Delta, 10).await;
        run(&stand.reconcile()).await.unwrap();
        stand.cut().await;
        stand.lose_chunks().await;
        stand.age(1).await;
        let lost = stand.lose(LoadType::Delta, 10).await;
        stand.accept(&stand::upload(2)).await;
        let failed = run(&stand.without_queue()).await.unwrap_err();
        let ReconcileError::Checks(checks) = &failed else { panic!("{failed:?}") };
        assert_eq!(checks[..], [Check::Objects, Check::Stopped], "the others did their work");
        let report = run(&stand.reconcile()).await.unwrap();
        let told = (report.objects.found, report.batches.restarted, report.uploads.expired);
        assert_eq!(told, (1, 1, 0), "the upload had expired in the run before");
        assert_eq!(stand.work().await, (2, 2));
        completed(stand, stopped).await;
        completed(stand, lost).await;
    })
    .await;
}
