//! Tests of ingest work that fails again and again: its message moves to a dead-letter queue, and
//! its chunk or batch is recorded as failed. The work may still succeed later.

use std::time::{Duration, Instant};

use end_to_end::Products;
use ingestion::Cnpj;
use ingestion::batch::BatchStatus;
use ingestion::chunk::{ChunkReady, Generation, encode};
use ingestion::payload::{MediaType, PayloadMetadata};
use jiff::{SignedDuration, Timestamp};
use runtime::metrics;
use serde_json::{Value, json};
use transport::chunk_event;
use uuid::Uuid;

use super::chunks::{chunks, chunks_of, origin};
use super::functions::{Functions, PATIENCE, batch, is_completed};
use super::queues::Unhandled;
use super::{CHUNKER, DEAD_LETTER, UPSERT, catalogue};
use crate::alarms::Emitted;

/// Returns the status, the number of attempts and the last error of each chunk of a batch, by
/// index.
async fn attempts(batch_id: Uuid) -> Vec<(String, i32, Option<String>)> {
    let sql =
        "SELECT status, attempts, last_error FROM batch_chunks WHERE batch_id = $1 ORDER BY chunk_index";
    let rows = Products::open().await.rows(sql, &[&batch_id]).await;
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

#[tokio::test]
async fn a_chunk_whose_object_is_damaged_is_given_up_and_done_once_it_is_repaired() {
    let functions = Functions::open().await;
    let batch = batch(MediaType::Json);
    let chunks = chunks(&batch, 2);
    functions.put_chunk(&chunks[0], &batch, encode(&chunks[0]).unwrap()).await;
    functions.put_chunk(&chunks[1], &batch, b"not a chunk".to_vec()).await;
    functions.seal(&batch, &chunks).await;

    let view = functions.settled(batch.batch_id).await;
    assert_eq!((view.status, view.chunks.done, view.chunks.failed), (BatchStatus::PartialFail, 1, 1));
    assert_eq!((view.items_parsed, view.items_processed, view.items_failed), (6, 3, 3));
    functions.payloads.let_go(&batch.key()).await;
    let attempts_at = attempts(batch.batch_id).await;
    assert_eq!(attempts_at[0], ("DONE".to_owned(), 1, None));
    let (status, count, error) = &attempts_at[1];
    assert_eq!((status.as_str(), *count), ("FAILED", 5), "as often as the queue says");
    assert!(error.as_ref().unwrap().starts_with("the chunk's object is damaged: "), "{error:?}");

    functions.put_chunk(&chunks[1], &batch, encode(&chunks[1]).unwrap()).await;
    functions.announce(&chunks[1], &batch).await;
    let view = functions.completed(batch.batch_id).await;
    assert_eq!((view.chunks.done, view.chunks.failed), (2, 0));
    assert_eq!((view.items_processed, view.items_failed, view.changes.inserted), (6, 0, 6));
    assert_eq!(attempts(batch.batch_id).await[1], ("DONE".to_owned(), 6, None));
}

#[tokio::test]
async fn a_chunk_that_only_waits_for_others_uses_up_no_attempts() {
    let (functions, database) = (Functions::open().await, Products::open().await);
    let batch = batch(MediaType::Json);
    let cnpj = Cnpj::from_base(&format!("{:012}", fastrand::u64(1..1_000_000_000_000))).unwrap();
    let chunks = chunks_of(cnpj, &batch, 1);
    functions.put_chunk(&chunks[0], &batch, encode(&chunks[0]).unwrap()).await;
    // Another session holds the lock of its establishment for a long time.
    let hash = "(SELECT sha256($1::text::bytea) AS hash) AS h";
    let lock = "x'636e706a00000000'::bigint + (get_byte(hash, 0) * 256 + get_byte(hash, 1)) % 16384";
    database.rows(&format!("SELECT pg_advisory_lock({lock}) FROM {hash}"), &[&cnpj.as_str()]).await;
    functions.seal(&batch, &chunks).await;
    // Its last delivery, after which the message would be given up.
    let delivery = |announced: Timestamp| {
        let event = chunk_event(&origin(&batch), functions.ready(&chunks[0], &batch), announced).unwrap();
        let mut delivery = message("m-1", &serde_json::to_string(&event).unwrap());
        delivery["Records"][0]["receiptHandle"] = json!("receipt");
        delivery["Records"][0]["attributes"] = json!({"ApproximateReceiveCount": "5"});
        delivery
    };
    let taken = functions.invoke(UPSERT, &delivery(Timestamp::now())).await.unwrap();
    assert_eq!(taken, json!({"batchItemFailures": []}));
    assert_eq!(attempts(batch.batch_id).await, [("PENDING".to_owned(), 0, None)]);
    // An hour after the chunk was announced, waiting counts.
    let an_hour_ago = Timestamp::now() - SignedDuration::from_mins(61);
    let failed = functions.invoke(UPSERT, &delivery(an_hour_ago)).await.unwrap();
    assert_eq!(failed, json!({"batchItemFailures": [{"itemIdentifier": "m-1"}]}));
    let attempts_at = attempts(batch.batch_id).await;
    assert_eq!((attempts_at[0].0.as_str(), attempts_at[0].1), ("PENDING", 1));
    database.rows("SELECT pg_advisory_unlock_all()", &[]).await;
    let view = functions.completed(batch.batch_id).await;
    assert_eq!((view.chunks.done, view.changes.inserted), (1, 3));
    assert_eq!(attempts(batch.batch_id).await, [("DONE".to_owned(), 2, None)]);
}

#[tokio::test]
async fn a_batch_whose_only_chunk_is_gone_is_failed() {
    let functions = Functions::open().await;
    let batch = batch(MediaType::Json);
    let chunks = chunks(&batch, 1);
    functions.seal(&batch, &chunks).await;
    let view = functions.settled(batch.batch_id).await;
    assert_eq!((view.status, view.chunks.failed, view.items_failed), (BatchStatus::Failed, 1, 3));
    assert_eq!(view.error, None, "its payload is not at fault");
    let (status, _, error) = &attempts(batch.batch_id).await[0];
    assert_eq!(status, "FAILED");
    let error = error.as_ref().unwrap();
    assert!(
        error.starts_with("cannot read the chunk's object: ") && error.ends_with(" does not exist"),
        "{error}"
    );
}

#[tokio::test]
async fn an_event_that_names_another_object_gives_no_chunk_up() {
    let functions = Functions::open().await;
    let (batch, other) = (batch(MediaType::Json), batch(MediaType::Json));
    let cut = chunks(&batch, 1);
    functions.seal_quietly(&batch, &cut).await;
    let ready = functions.ready(&cut[0], &batch);
    let elsewhere = functions.ready(&chunks(&other, 1)[0], &other).chunk_uri;
    let later = ready.chunk_uri.replace("/1/", "/2/");
    for (chunk_uri, status) in [
        (elsewhere, "PENDING"),
        ("s3://other/chunks/1".to_owned(), "PENDING"),
        (later, "PENDING"),
        (ready.chunk_uri.clone(), "FAILED"),
    ] {
        let named = ChunkReady { chunk_uri: chunk_uri.clone(), ..ready.clone() };
        let event = chunk_event(&origin(&batch), named, Timestamp::now()).unwrap();
        let event = message("m-1", &serde_json::to_string(&event).unwrap());
        let handled = json!({"batchItemFailures": []});
        assert_eq!(functions.invoke(DEAD_LETTER, &event).await.unwrap(), handled, "{chunk_uri}");
        assert_eq!(attempts(batch.batch_id).await[0].0, status, "{chunk_uri}");
    }
}

/// Makes PostgreSQL refuse the chunker's update that begins the batch, by a trigger. Returns the
/// name of the trigger function, whose removal with CASCADE ends the refusal.
async fn refuse_chunking(database: &Products, batch_id: Uuid) -> String {
    let name = format!("refuse_{}", batch_id.simple());
    let refuse = format!(
        "CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$"
    );
    let trigger = format!(
        "CREATE TRIGGER {name} BEFORE UPDATE ON batches FOR EACH ROW \
         WHEN (NEW.batch_id = '{batch_id}' AND NEW.status = 'CHUNKING') EXECUTE FUNCTION {name}()"
    );
    database.rows(&refuse, &[]).await;
    database.rows(&trigger, &[]).await;
    name
}

#[tokio::test]
async fn a_batch_that_cannot_be_cut_is_given_up() {
    let (functions, database) = (Functions::open().await, Products::open().await);
    let batch = batch(MediaType::Json);
    let refusal = refuse_chunking(&database, batch.batch_id).await;
    functions.put(&batch, catalogue(10).payload(ingestion::generate::Layout::Array)).await;
    // The chunker's message waits for a repair, for longer than this test has.
    let notification = message("m-1", &super::notification(&functions.bucket, &batch.key()).to_string());
    let answer = functions.invoke(DEAD_LETTER, &notification).await.unwrap();
    assert_eq!(answer, json!({"batchItemFailures": []}));
    let view = functions.settled(batch.batch_id).await;
    database.rows(&format!("DROP FUNCTION {refusal} CASCADE"), &[]).await;
    let error = view.error.unwrap();
    assert_eq!(
        (view.status, error.code.as_ref(), error.byte_offset),
        (BatchStatus::Failed, "GIVEN_UP", None)
    );
    assert!(error.detail.contains("replayed"), "{}", error.detail);
    functions.payloads.let_go(&batch.key()).await;
    // A late notification continues the batch after all, and a late message for dead-letter changes
    // nothing.
    for function in [DEAD_LETTER, CHUNKER, DEAD_LETTER] {
        assert_eq!(
            functions.invoke(function, &notification).await.unwrap(),
            json!({"batchItemFailures": []})
        );
    }
    let view = functions.completed(batch.batch_id).await;
    assert_eq!((view.error, view.items_processed, view.generation), (None, 10, Generation::FIRST));
}

#[tokio::test]
async fn a_batch_that_is_sealed_is_not_given_up_for_its_payload() {
    let functions = Functions::open().await;
    let batch = batch(MediaType::Json);
    let chunks = chunks(&batch, 1);
    functions.put_chunk(&chunks[0], &batch, encode(&chunks[0]).unwrap()).await;
    functions.seal(&batch, &chunks).await;
    let message = message("m-1", &super::notification(&functions.bucket, &batch.key()).to_string());
    let answer = functions.invoke(DEAD_LETTER, &message).await.unwrap();
    assert_eq!(answer, json!({"batchItemFailures": []}));
    assert!(is_completed(&functions.settled(batch.batch_id).await));
}

#[tokio::test]
async fn a_batch_whose_item_has_expired_is_recorded_like_any_other() {
    let (functions, database) = (Functions::open().await, Products::open().await);
    let handled = json!({"batchItemFailures": []});
    // One that is sealed stays as it is.
    let sealed = batch(MediaType::Json);
    let chunks = chunks(&sealed, 1);
    functions.put_chunk(&chunks[0], &sealed, encode(&chunks[0]).unwrap()).await;
    functions.seal(&sealed, &chunks).await;
    functions.completed(sealed.batch_id).await;
    functions.forget(&sealed).await;
    let message_of = |batch: &PayloadMetadata| {
        message("m-1", &super::notification(&functions.bucket, &batch.key()).to_string())
    };
    assert_eq!(functions.invoke(DEAD_LETTER, &message_of(&sealed)).await.unwrap(), handled);
    assert!(is_completed(&functions.settled(sealed.batch_id).await));
    // One that is being cut is given up.
    let open = batch(MediaType::Json);
    functions.begin(&open).await;
    let refusal = refuse_chunking(&database, open.batch_id).await;
    functions.store(&open, b"[]".to_vec()).await;
    assert_eq!(functions.invoke(DEAD_LETTER, &message_of(&open)).await.unwrap(), handled);
    let view = functions.settled(open.batch_id).await;
    database.rows(&format!("DROP FUNCTION {refusal} CASCADE"), &[]).await;
    assert_eq!(view.error.map(|error| error.code.into_owned()), Some("GIVEN_UP".to_owned()));
}

#[tokio::test]
async fn a_batch_whose_payload_is_gone_is_failed() {
    let functions = Functions::open().await;
    let batch = batch(MediaType::Json);
    functions.begin(&batch).await;
    let message = message("m-1", &super::notification(&functions.bucket, &batch.key()).to_string());
    let answer = functions.invoke(DEAD_LETTER, &message).await.unwrap();
    assert_eq!(answer, json!({"batchItemFailures": []}));
    let view = functions.settled(batch.batch_id).await;
    let error = view.error.unwrap();
    assert_eq!((view.status, error.code.as_ref()), (BatchStatus::Failed, "GIVEN_UP"));
    assert!(error.detail.contains("no longer in storage"), "{}", error.detail);
}

#[tokio::test]
async fn a_message_that_no_function_can_handle_is_in_the_unhandled_queue() {
    let functions = Functions::open().await;
    let queue = Unhandled::open().await;
    let strange = format!("not an event {}", Uuid::new_v4());
    queue.send("CHUNKS_QUEUE_URL", &strange).await;
    queue.send("BATCHES_QUEUE_URL", &strange).await;
    // An object that is not a payload. S3 sends its notification.
    let key = format!("incoming/2026/11/21/23/{}", Uuid::new_v4());
    let put = functions.s3.put_object().bucket(&functions.bucket).key(&key);
    put.body(b"[]".to_vec().into()).send().await.unwrap();
    // A chunk of an unknown batch.
    let unknown = batch(MediaType::Json);
    functions.announce(&chunks(&unknown, 1)[0], &unknown).await;

    let mut reasons = Vec::new();
    for (needle, count) in [(strange, 2), (key, 1), (unknown.batch_id.to_string(), 1)] {
        for _ in 0..count {
            let kept = queue.take(&needle).await;
            assert!(kept.source.starts_with("arn:aws:sqs:") && !kept.message_id.is_empty(), "{kept:?}");
            reasons.push(kept.reason);
        }
    }
    assert!(reasons[0].starts_with("the message is not JSON") && reasons[1] == reasons[0], "{reasons:?}");
    assert!(reasons[2].starts_with("the object is not a payload"), "{reasons:?}");
    assert!(reasons[3].contains("is not known"), "{reasons:?}");
}

#[tokio::test]
async fn what_is_stuck_and_what_is_given_up_reach_the_thresholds_of_their_alarms() {
    let (emitted, functions, database) =
        (Emitted::from_now(), Functions::open().await, Products::open().await);
    let (stuck, lost) = (batch(MediaType::Json), batch(MediaType::Json));
    let cut = chunks(&stuck, 1);
    functions.seal_quietly(&stuck, &cut).await;
    // Its chunk was announced a day ago, and nobody wrote it.
    for sql in [
        "UPDATE batches SET received_at = now() - interval '25 h', generation_began_at = now() - interval '25 h', \
         moved_at = now() - interval '25 h' WHERE batch_id = $1",
        "UPDATE batch_chunks SET created_at = now() - interval '25 h' WHERE batch_id = $1",
    ] {
        database.rows(sql, &[&stuck.batch_id]).await;
    }
    let began = Instant::now();
    // Another test may take a store away for a while.
    while let Err(error) = functions.invoke("RECONCILE_FUNCTION", &json!({})).await {
        assert!(began.elapsed() < PATIENCE, "{error}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    functions.begin(&lost).await;
    let ready = functions.ready(&cut[0], &stuck);
    let announced = chunk_event(&origin(&stuck), ready, Timestamp::now()).unwrap();
    let notification = super::notification(&functions.bucket, &lost.key());
    for body in [serde_json::to_string(&announced).unwrap(), notification.to_string()] {
        let answer = functions.invoke(DEAD_LETTER, &message("m-1", &body)).await.unwrap();
        assert_eq!(answer, json!({"batchItemFailures": []}));
    }
    for (alarm, metric) in [
        ("BatchesStuck", metrics::BATCHES_STUCK),
        ("ChunksBehind", metrics::OLDEST_CHUNK_AGE),
        ("ChunksGivenUp", metrics::CHUNKS_GIVEN_UP),
        ("BatchesGivenUp", metrics::BATCHES_GIVEN_UP),
    ] {
        emitted.reach(alarm, metric, &[]).await;
    }
}

fn message(id: &str, body: &str) -> Value {
    json!({"Records": [{"eventSource": "aws:sqs", "messageId": id, "body": body}]})
}
