use aws_sdk_dynamodb::types::AttributeValue;
use batch_items::{Stored, Wanted};
use catalog::BatchRow;
use futures_util::future::join_all;
use ingestion::Viewer;
use ingestion::batch::BatchStatus;
use ingestion::chunk::Plan;
use ingestion::payload::AcceptedBatch;
use ingestion::product::CnpjAccess;
use jiff::{SignedDuration, Timestamp};

use crate::reconcile::completed;
use crate::reconcile::stand::{run, stand_test, upload};

#[tokio::test]
async fn an_upload_that_was_never_used_expires_once() {
    stand_test(async |stand| {
        let (never_used, young) = (upload(2), upload(0));
        stand.accept(&never_used).await;
        stand.accept(&young).await;
        let before = stand
            .accepted
            .get(&Viewer::whole(never_used.metadata.tenant_id), never_used.metadata.batch_id)
            .await
            .unwrap();
        let report = run(&stand.reconcile()).await.unwrap();
        assert_eq!((report.uploads.expired, report.uploads.found, report.uploads.arrived), (1, 0, 0));
        assert_eq!(run(&stand.reconcile()).await.unwrap().uploads.expired, 0);
        // Its view is the same as before.
        let after = stand
            .accepted
            .get(&Viewer::whole(never_used.metadata.tenant_id), never_used.metadata.batch_id)
            .await
            .unwrap();
        assert_eq!(after, before);
        assert_eq!(after.unwrap().status(Timestamp::now()), BatchStatus::Expired);
        // A payload that comes later is processed: S3 sends its notification, or a run finds it.
        stand.put(&never_used.metadata, 10).await;
        assert_eq!(run(&stand.reconcile()).await.unwrap().objects.found, 1);
        stand.work().await;
        completed(stand, never_used.metadata.batch_id).await;
    })
    .await;
}

#[tokio::test]
async fn an_item_of_another_form_does_not_hide_the_others() {
    stand_test(async |stand| {
        let (junk, never_used) = (upload(3), upload(2));
        stand.accept(&junk).await;
        stand.accept(&never_used).await;
        let text = |id: uuid::Uuid| AttributeValue::S(id.to_string());
        let spoil = stand.dynamodb.update_item().table_name(&stand.table);
        let spoil = spoil.key("tenantId", text(junk.metadata.tenant_id));
        let spoil = spoil.key("batchId", text(junk.metadata.batch_id));
        spoil.update_expression("REMOVE receivedAt, loadType").send().await.unwrap();
        assert_eq!(run(&stand.reconcile()).await.unwrap().uploads.expired, 1);
        let viewer = Viewer::whole(never_used.metadata.tenant_id);
        let recent = stand.accepted.recent(&viewer, &Wanted::default(), Timestamp::now(), 10).await.unwrap();
        let ids: Vec<_> = recent.batches.iter().map(|batch| batch.metadata.batch_id).collect();
        assert_eq!(ids, [never_used.metadata.batch_id]);
    })
    .await;
}

#[tokio::test]
async fn concurrent_runs_count_each_upload_once() {
    stand_test(async |stand| {
        // More than there are shards.
        for _ in 0..40 {
            stand.accept(&upload(3)).await;
        }
        let runs = [stand.reconcile(), stand.reconcile(), stand.reconcile()];
        let reports = join_all(runs.iter().map(run)).await;
        let expired: u64 = reports.iter().map(|report| report.as_ref().unwrap().uploads.expired).sum();
        assert_eq!(expired, 40);
    })
    .await;
}

#[tokio::test]
async fn announcements_that_nobody_used_do_not_delay_a_lost_notification_to_the_next_run() {
    stand_test(async |stand| {
        let used = upload(24 * 20);
        stand.accept(&used).await;
        stand.put(&used.metadata, 10).await;
        // More of the same shard of the index than are read at once, all older than the one that
        // was used. The id's last byte decides about the shard.
        let shard = used.metadata.batch_id.as_u128() & 0xff;
        for _ in 0..40 {
            let mut unused = upload(24 * 25);
            let id = unused.metadata.batch_id.as_u128();
            unused.metadata.batch_id = uuid::Uuid::from_u128((id & !0xff) | shard);
            stand.accept(&unused).await;
        }
        let report = run(&stand.reconcile()).await.unwrap();
        assert_eq!((report.uploads.expired, report.uploads.found), (40, 1));
    })
    .await;
}

#[tokio::test]
async fn an_upload_without_a_notification_is_found_however_old_its_request_is() {
    stand_test(async |stand| {
        // It was signed again and again: its key is of an hour that no run lists any more.
        let old = upload(24 * 20);
        stand.accept(&old).await;
        stand.put(&old.metadata, 10).await;
        let runs = [stand.reconcile(), stand.reconcile()];
        let reports = join_all(runs.iter().map(run)).await;
        let found: u64 = reports.iter().map(|report| report.as_ref().unwrap().uploads.found).sum();
        assert_eq!(found, 1);
        assert_eq!(run(&stand.reconcile()).await.unwrap().uploads, Default::default());
        assert_eq!(stand.work().await, (1, 1));
        completed(stand, old.metadata.batch_id).await;
    })
    .await;
}

#[tokio::test]
async fn an_upload_that_arrived_is_waited_for_no_longer() {
    stand_test(async |stand| {
        let used = upload(2);
        stand.accept(&used).await;
        stand.put(&used.metadata, 10).await;
        let reconcile = stand.reconcile();
        reconcile.queue.notify(&stand.bucket, &used.metadata.key(), None).await.unwrap();
        assert_eq!(stand.work().await, (1, 1));
        assert_eq!(stand.accepted.awaited(Timestamp::MAX, 10).await.unwrap(), []);
        assert_eq!(run(&reconcile).await.unwrap().uploads, Default::default());
        assert_eq!(stand.work().await, (0, 0));
    })
    .await;
}

#[tokio::test]
async fn an_upload_whose_batch_is_known_is_waited_for_no_longer() {
    stand_test(async |stand| {
        let used = upload(2);
        stand.accept(&used).await;
        let payload_uri = format!("s3://{}/{}", stand.bucket, used.metadata.key());
        let batch = BatchRow {
            metadata: used.metadata.clone(),
            payload_uri,
            payload_bytes: None,
            cnpjs: CnpjAccess::Any,
        };
        stand.database().begin_chunking(&batch, Plan::default()).await.unwrap();
        let reconcile = stand.reconcile();
        assert_eq!(run(&reconcile).await.unwrap().uploads.arrived, 1);
        assert_eq!(stand.accepted.awaited(Timestamp::MAX, 10).await.unwrap(), []);
        assert_eq!(run(&reconcile).await.unwrap().uploads.arrived, 0);
    })
    .await;
}

#[tokio::test]
async fn an_upload_is_offered_until_its_payload_arrives_or_its_item_is_gone() {
    stand_test(async |stand| {
        let put = async |batch: &AcceptedBatch, minutes: i64| {
            let later = batch.upload_expires_at.unwrap() + SignedDuration::from_mins(minutes);
            let batch = AcceptedBatch { upload_expires_at: Some(later), ..batch.clone() };
            stand.accepted.put(&batch).await.unwrap()
        };
        let batch = upload(2);
        let (tenant, id) = (batch.metadata.tenant_id, batch.metadata.batch_id);
        assert_eq!((put(&batch, 0).await, put(&batch, 15).await), (Stored::Written, Stored::Written));
        assert_eq!(put(&batch, 5).await, Stored::Written, "a later time stands there");
        run(&stand.reconcile()).await.unwrap();
        assert_eq!(put(&batch, 30).await, Stored::Written, "it expired, and is offered again");
        stand.accepted.note_arrival(tenant, id).await.unwrap();
        assert_eq!(put(&batch, 45).await, Stored::Arrived);
        let kept = stand.accepted.get(&Viewer::whole(tenant), id).await.unwrap().unwrap();
        assert_eq!(kept.status(Timestamp::now()), BatchStatus::Received);

        let mut old = upload(24 * 31);
        old.upload_expires_at = Some(Timestamp::now());
        assert_eq!(put(&old, 0).await, Stored::Gone, "its item may have said that it arrived");
        stand.accepted.note_arrival(tenant, old.metadata.batch_id).await.unwrap();
        assert_eq!(stand.accepted.get(&Viewer::whole(tenant), old.metadata.batch_id).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn an_upload_that_was_signed_again_is_still_waited_for() {
    stand_test(async |stand| {
        let mut extended = upload(2);
        stand.accept(&extended).await;
        let awaited = stand.accepted.awaited(Timestamp::now(), 10).await.unwrap();
        let [seen] = &awaited[..] else { panic!("{awaited:?}") };
        extended.upload_expires_at = Some(Timestamp::now() + SignedDuration::from_mins(15));
        stand.accept(&extended).await;
        assert!(!stand.accepted.expire(seen).await.unwrap());
        stand.accepted.arrived(seen).await.unwrap();
        let awaited = stand.accepted.awaited(Timestamp::MAX, 10).await.unwrap();
        // Items have microseconds.
        let expected = extended.upload_expires_at.unwrap().as_microsecond();
        assert_eq!(awaited[0].upload_expires_at.as_microsecond(), expected);
    })
    .await;
}
