//! Tests of the results beside dropped objects: an earlier version of an object must not replace
//! the result of a later one.

use std::time::Duration;

use end_to_end::TENANT_A;
use futures_util::future::join_all;
use ingestion::drops::StateFromTags;
use ingestion::payload::{AcceptedBatch, LoadType, Source};
use jiff::{SignedDuration, Timestamp};
use objects::Objects;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::reconcile::stand::{Stand, batch, run, stand_test, upload};

const BYTES: &[u8] = br#"[{"CNPJ": "not one", "SHOPID": 1, "PRODUCTID": "1"}]"#;

fn key() -> String {
    format!("drop/{TENANT_A}/delta/a.json")
}

async fn drop_object(stand: &Stand, bytes: &[u8]) -> (Source, Timestamp) {
    let put = stand.s3.put_object().bucket(&stand.bucket).key(key()).body(bytes.to_vec().into());
    put.send().await.unwrap();
    let head = stand.s3.head_object().bucket(&stand.bucket).key(key()).send().await.unwrap();
    let modified_at = Timestamp::from_second(head.last_modified.unwrap().secs()).unwrap();
    let (bucket, etag) = (stand.bucket.clone(), head.e_tag.unwrap());
    (Source { bucket, key: key(), etag, version_id: None }, modified_at)
}

async fn write(stand: &Stand, key: &str, content: &Value) {
    let put = stand.s3.put_object().bucket(&stand.bucket).key(key);
    put.body(content.to_string().into_bytes().into()).send().await.unwrap();
}

async fn read(stand: &Stand, key: &str) -> Value {
    let object = stand.s3.get_object().bucket(&stand.bucket).key(key).send().await.unwrap();
    serde_json::from_slice(&object.body.collect().await.unwrap().to_vec()).unwrap()
}

async fn result(stand: &Stand) -> Value {
    read(stand, &ingestion::drops::result_key(&key())).await
}

/// Returns the state in the tags of the object's present version. Returns `None` if no tags are
/// about this version.
async fn tagged_state(stand: &Stand) -> Option<StateFromTags> {
    let objects = Objects::new(stand.s3.clone(), stand.bucket.clone());
    let (version, tags) = (objects.version(&key(), None).await.unwrap(), objects.tags(&key()).await.unwrap());
    ingestion::drops::tagged_state(&tags, &version.etag, version.modified_at)
}

/// Drops an object and loads it. Returns its batch, which is final and has an item in error.
async fn loaded(stand: &Stand) -> AcceptedBatch {
    let (source, modified_at) = drop_object(stand, BYTES).await;
    let mut batch = batch(LoadType::Delta);
    batch.metadata.idempotency_key = ingestion::drops::idempotency_key(&source, modified_at);
    batch.metadata.source = Some(source);
    stand.accept(&batch).await;
    let put = stand.s3.put_object().bucket(&stand.bucket).key(batch.metadata.key());
    let put = put.set_metadata(Some(batch.metadata.to_map().into_iter().collect()));
    put.body(BYTES.to_vec().into()).send().await.unwrap();
    run(&stand.reconcile()).await.unwrap();
    stand.work().await;
    let written = result(stand).await;
    assert_eq!(written["errors"]["listed"], 1, "{written}");
    assert_eq!(tagged_state(stand).await, Some(StateFromTags::Settled));
    batch
}

/// Releases the objects of a batch once more and writes its result, as a function does that was
/// slow.
async fn end(stand: &Stand, batch: &AcceptedBatch) {
    let objects = Objects::new(stand.s3.clone(), stand.bucket.clone());
    payloads::retention::try_release(&stand.database(), &objects, batch.metadata.batch_id).await.unwrap();
}

#[tokio::test]
async fn an_earlier_batch_that_ends_slowly_leaves_the_result_of_a_later_version() {
    stand_test(async |stand| {
        let batch = loaded(stand).await;
        let errors = ingestion::drops::errors_key(&key());
        // The earlier batch has read the result, and waits for its items in error.
        stand.sql.batch_execute("BEGIN; LOCK TABLE batch_item_errors").await.unwrap();
        let later = async {
            let waits = "SELECT count(*) FROM pg_locks JOIN pg_database ON database = pg_database.oid \
                 WHERE NOT granted AND datname = current_database()";
            while stand.number(waits).await == 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let (source, _) = drop_object(stand, b"[]").await;
            write(stand, &errors, &json!({"item_index": 7})).await;
            let written = ingestion::drops::received(&source, Uuid::now_v7());
            write(stand, &ingestion::drops::result_key(&key()), &written).await;
            stand.sql.batch_execute("COMMIT").await.unwrap();
            written
        };
        let ((), written) = tokio::join!(end(stand, &batch), later);
        assert_eq!(result(stand).await, written);
        assert_eq!(read(stand, &errors).await, json!({"item_index": 7}));
        assert_eq!(tagged_state(stand).await, None, "the later version is not final");
    })
    .await;
}

#[tokio::test]
async fn the_same_bytes_written_again_are_another_object_which_does_not_expire() {
    stand_test(async |stand| {
        let batch = loaded(stand).await;
        // S3 keeps whole seconds.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let (source, _) = drop_object(stand, BYTES).await;
        assert_eq!(Some(&source), batch.metadata.source.as_ref(), "only the time differs");
        end(stand, &batch).await;
        assert_eq!(tagged_state(stand).await, None, "nobody has looked at it");

        let refusal = ingestion::drops::refused(&source, "TENANT_NOT_ALLOWED", "the grant was removed");
        write(stand, &ingestion::drops::result_key(&key()), &refusal).await;
        end(stand, &batch).await;
        assert_eq!(result(stand).await, refusal);
    })
    .await;
}

/// Returns a batch that was accepted two hours ago for a dropped object, and the object's version.
/// The object was deleted before its content was copied.
async fn gone(stand: &Stand) -> (AcceptedBatch, Source) {
    let (source, modified_at) = drop_object(stand, BYTES).await;
    let mut batch = upload(2);
    batch.metadata.idempotency_key = ingestion::drops::idempotency_key(&source, modified_at);
    batch.metadata.source = Some(source.clone());
    stand.accept(&batch).await;
    let received = ingestion::drops::received(&source, batch.metadata.batch_id);
    write(stand, &ingestion::drops::result_key(&key()), &received).await;
    stand.s3.delete_object().bucket(&stand.bucket).key(key()).send().await.unwrap();
    (batch, source)
}

#[tokio::test]
async fn the_result_of_an_object_that_was_deleted_before_its_copy_says_that_it_expired() {
    stand_test(async |stand| {
        let (batch, source) = gone(stand).await;
        let runs = [stand.reconcile(), stand.reconcile(), stand.reconcile()];
        for report in join_all(runs.iter().map(run)).await {
            report.unwrap();
        }
        let expired = ingestion::drops::expired(&source, batch.metadata.batch_id);
        assert_eq!(result(stand).await, expired);

        // An attempt extends the time after all, and then another run sees what it did.
        let objects = Objects::new(stand.s3.clone(), stand.bucket.clone());
        payloads::retention::note_under_way(&objects, &batch.metadata).await.unwrap();
        assert_eq!(result(stand).await["status"], "RECEIVED");
        payloads::retention::note_expired(&objects, &batch.metadata).await.unwrap();
        assert_eq!(result(stand).await, expired);
    })
    .await;
}

#[tokio::test]
async fn a_batch_that_expires_leaves_the_result_of_a_later_version_and_of_its_own_end() {
    stand_test(async |stand| {
        let (batch, source) = gone(stand).await;
        let later = Source { etag: "\"ab\"".to_owned(), ..source.clone() };
        let objects = Objects::new(stand.s3.clone(), stand.bucket.clone());
        for written in [
            ingestion::drops::received(&later, Uuid::now_v7()),
            ingestion::drops::refused(&later, "TENANT_NOT_ALLOWED", "no grant"),
            json!({"object": source, "status": "COMPLETED", "batch_id": batch.metadata.batch_id}),
        ] {
            write(stand, &ingestion::drops::result_key(&key()), &written).await;
            payloads::retention::note_expired(&objects, &batch.metadata).await.unwrap();
            assert_eq!(result(stand).await, written);
        }
        assert_eq!(run(&stand.reconcile()).await.unwrap().uploads.expired, 1);
    })
    .await;
}

#[tokio::test]
async fn a_result_that_cannot_be_written_does_not_hold_up_other_uploads() {
    stand_test(async |stand| {
        let (mut lost, never_used) = (upload(3), upload(2));
        let bucket = format!("gone-{}", Uuid::new_v4().simple());
        let etag = "\"ab\"".to_owned();
        lost.metadata.source = Some(Source { bucket, key: key(), etag, version_id: None });
        stand.accept(&lost).await;
        stand.accept(&never_used).await;
        run(&stand.reconcile()).await.unwrap_err();
        let left = stand.accepted.awaited(Timestamp::MAX, 10).await.unwrap();
        let [left] = &left[..] else { panic!("{left:?}") };
        assert_eq!(left.batch_id, lost.metadata.batch_id);
        let soon = Timestamp::now() + SignedDuration::from_mins(30);
        assert_eq!(stand.accepted.awaited(soon, 10).await.unwrap(), [], "it is looked at later");
    })
    .await;
}
