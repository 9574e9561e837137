use std::time::Duration;

use catalog::{BatchRow, PayloadFailure, ReplayOutcome, ReplayRequest};
use end_to_end::TENANT_A;
use ingestion::Viewer;
use ingestion::batch::{BatchStatus, Replay, ReplayScope};
use ingestion::payload::{AcceptedBatch, LoadType};
use ingestion::product::CnpjAccess;
use jiff::Timestamp;
use objects::Objects;
use reconcile::{Check, ReconcileError};
use uuid::Uuid;

use crate::reconcile::stand::{Stand, batch, run, stand_test};

/// Records a batch as given up, as after too many failures of its payload's message, and releases
/// its objects so that they may expire.
async fn give_up(stand: &Stand, batch: &AcceptedBatch) {
    let payload_uri = format!("s3://{}/{}", stand.bucket, batch.metadata.key());
    let new = BatchRow {
        metadata: batch.metadata.clone(),
        payload_uri,
        payload_bytes: None,
        cnpjs: CnpjAccess::Any,
    };
    let failure = PayloadFailure {
        code: PayloadFailure::GIVEN_UP.into(),
        detail: "its processing failed repeatedly".to_owned(),
        byte_offset: None,
    };
    let status = stand.database().fail_payload(&new, &failure, None).await.unwrap();
    assert_eq!(status, BatchStatus::Failed);
    let objects = Objects::new(stand.s3.clone(), stand.bucket.clone());
    payloads::retention::release(&stand.database(), &objects, batch.metadata.batch_id).await;
}

/// Returns the number of these objects that have the tag by which they may expire.
async fn tagged(stand: &Stand, uris: &[String]) -> usize {
    let mut tagged = 0;
    for uri in uris {
        let key = uri.split_once(&stand.bucket).unwrap().1.trim_start_matches('/');
        let tags = stand.s3.get_object_tagging().bucket(&stand.bucket).key(key).send().await.unwrap();
        tagged += usize::from(tags.tag_set.iter().any(|tag| tag.key == "state"));
    }
    tagged
}

async fn replay(stand: &Stand, batch_id: Uuid) -> ReplayOutcome {
    let request = ReplayRequest {
        replay: Replay { scope: ReplayScope::All, confirm_deactivation: false },
        idempotency_key: Uuid::new_v4().to_string(),
        requested_at: Timestamp::now(),
    };
    stand.database().replay(&Viewer::whole(TENANT_A.parse().unwrap()), batch_id, &request).await.unwrap()
}

#[tokio::test]
async fn a_replay_removes_the_tags_of_the_generation_before() {
    stand_test(async |stand| {
        let objects = Objects::new(stand.s3.clone(), stand.bucket.clone());
        let (database, queue) = (stand.database(), stand.reconcile().queue);
        let batch_id = stand.lose(LoadType::Delta, 2_100).await;
        run(&stand.reconcile()).await.unwrap();
        assert_eq!(stand.work().await, (1, 3));
        let seen = database.final_batch(batch_id).await.unwrap().unwrap();
        assert_eq!((seen.uris.len(), tagged(stand, &seen.uris).await), (4, 4));

        // A slow function saw the final batch, and tags its objects only now.
        let ReplayOutcome::Begun(begun) = replay(stand, batch_id).await else { panic!() };
        queue.notify(&stand.bucket, objects.key(&begun.payload_uri).unwrap(), None).await.unwrap();
        assert_eq!(stand.cut().await, 1);
        assert_eq!(tagged(stand, &seen.uris).await, 0, "the chunker keeps what it announces");
        let is_final = payloads::retention::tag_as_seen(&database, &objects, &seen).await.unwrap();
        assert_eq!((is_final, tagged(stand, &seen.uris).await), (false, 0));
        payloads::retention::release(&database, &objects, batch_id).await;
        assert_eq!(tagged(stand, &seen.uris).await, 0, "it is not final");

        assert_eq!(stand.work().await, (0, 3));
        assert_eq!(stand.batch(batch_id).await.status, BatchStatus::Completed);
        assert_eq!(tagged(stand, &seen.uris).await, 4);
    })
    .await;
}

/// SQL that makes the chunker wait for an advisory lock before it seals a batch, and takes that
/// lock.
const WAIT_TO_SEAL: &str = "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN PERFORM pg_advisory_xact_lock(42); RETURN NEW; END'; \
     CREATE TRIGGER wait BEFORE INSERT ON batch_chunks FOR EACH STATEMENT EXECUTE FUNCTION wait(); \
     SELECT pg_advisory_lock(42)";

#[tokio::test]
async fn the_payload_of_a_batch_that_continues_after_it_was_given_up_does_not_expire() {
    stand_test(async |stand| {
        let objects = Objects::new(stand.s3.clone(), stand.bucket.clone());
        for while_it_is_read in [false, true] {
            let batch = batch(LoadType::Delta);
            let (key, batch_id) = (batch.metadata.key(), batch.metadata.batch_id);
            let payload = [format!("s3://{}/{key}", stand.bucket)];
            stand.accept(&batch).await;
            stand.put(&batch.metadata, 10).await;
            stand.reconcile().queue.notify(&stand.bucket, &key, None).await.unwrap();
            if while_it_is_read {
                stand.sql.batch_execute(WAIT_TO_SEAL).await.unwrap();
                let tag = async {
                    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                         AND wait_event_type = 'Lock'";
                    while stand.number(waiting).await == 0 {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    // The batch was given up after this run began.
                    objects.tag_final(payload.to_vec()).await.unwrap();
                    stand.sql.batch_execute("SELECT pg_advisory_unlock(42)").await.unwrap();
                };
                assert_eq!(tokio::join!(stand.cut(), tag).0, 1);
            } else {
                give_up(stand, &batch).await;
                assert_eq!(tagged(stand, &payload).await, 1);
                assert_eq!(stand.cut().await, 1);
            }
            assert_eq!(stand.batch(batch_id).await.status, BatchStatus::Processing);
            assert_eq!(tagged(stand, &payload).await, 0, "while it is read: {while_it_is_read}");
            assert_eq!(stand.work().await, (0, 1));
            assert_eq!(stand.batch(batch_id).await.status, BatchStatus::Completed);
            assert_eq!(tagged(stand, &payload).await, 1);
        }
    })
    .await;
}

#[tokio::test]
async fn objects_that_were_not_released_at_the_end_of_their_batch_are_released_later() {
    stand_test(async |stand| {
        let batch_id = stand.lose(LoadType::Delta, 1_200).await;
        run(&stand.reconcile()).await.unwrap();
        assert_eq!(stand.work().await, (1, 2));
        let uris = stand.database().final_batch(batch_id).await.unwrap().unwrap().uris;
        stand.age(1).await;
        assert_eq!(run(&stand.reconcile()).await.unwrap().batches.released, 0, "they have been");

        // As if `upsert` had died between the batch's end and its objects' last tag. One object is
        // gone.
        let objects = Objects::new(stand.s3.clone(), stand.bucket.clone());
        objects.untag_final(uris.clone()).await.unwrap();
        stand.sql.batch_execute("UPDATE batches SET objects_let_go = false").await.unwrap();
        let (gone, left) = uris.split_last().unwrap();
        let gone = objects.key(gone).unwrap();
        stand.s3.delete_object().bucket(&stand.bucket).key(gone).send().await.unwrap();
        assert_eq!(run(&stand.reconcile()).await.unwrap().batches.released, 1);
        assert_eq!(tagged(stand, left).await, 2);
        assert_eq!(run(&stand.reconcile()).await.unwrap().batches.released, 0);

        // Without storage, the batch waits until its time has doubled.
        stand
            .sql
            .batch_execute("UPDATE batches SET objects_let_go = false, reconciled_at = NULL")
            .await
            .unwrap();
        let mut without = stand.reconcile();
        without.objects = Objects::new(stand.s3.clone(), format!("{}-gone", stand.bucket));
        let ReconcileError::Checks(checks) = run(&without).await.unwrap_err() else { panic!() };
        assert!(checks.contains(&Check::Kept), "{checks:?}");
        assert_eq!(run(&stand.reconcile()).await.unwrap().batches.released, 0);
        stand.age(2).await;
        assert_eq!(run(&stand.reconcile()).await.unwrap().batches.released, 1);

        // A new generation has an end of its own.
        let ReplayOutcome::Begun(_) = replay(stand, batch_id).await else { panic!() };
        assert_eq!(stand.number("SELECT count(*) FROM batches WHERE objects_let_go").await, 0);
    })
    .await;
}
