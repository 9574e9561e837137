//! Tests of the ingest behind the API, from a stored payload to rows in PostgreSQL. They invoke the
//! functions as S3, SQS and Kafka do.

mod chunks;
pub(crate) mod functions;
mod given_up;
mod queues;

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use ingestion::batch::BatchStatus;
use ingestion::chunk::Generation;
use ingestion::generate::{Catalogue, Layout};
use ingestion::payload::{MediaType, PayloadMetadata, chunk_key, errors_key};
use serde_json::{Value, json};
use uuid::Uuid;

use functions::{Functions, batch, is_completed, notification};

const CHUNKER: &str = "CHUNKER_FUNCTION";
const UPSERT: &str = "UPSERT_FUNCTION";
const DEAD_LETTER: &str = "DEAD_LETTER_FUNCTION";

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// Returns a random catalogue of three establishments, whose products no other test has.
fn catalogue(items: u32) -> Catalogue {
    Catalogue { seed: fastrand::u64(..), items, establishments: 3, ..Catalogue::default() }
}

#[tokio::test]
async fn many_runs_at_once_make_one_set_of_chunks() {
    let functions = Functions::open().await;
    let batch = batch(MediaType::NdJson);
    functions.put(&batch, gzip(&catalogue(2600).payload(Layout::Lines))).await;
    // S3's own notification of the object is on its way as well.
    let notification = notification(&functions.bucket, &batch.key());
    let runs = futures_util::future::join_all((0..3).map(|_| functions.invoke(CHUNKER, &notification))).await;
    for answer in runs {
        assert_eq!(answer.unwrap(), json!({"batchItemFailures": []}));
    }
    let settled = functions.settled(batch.batch_id).await;
    assert!(is_completed(&settled), "{settled:?}");
    assert_eq!((settled.items_parsed, settled.items_processed, settled.chunks.total), (2600, 2600, 3));
    assert_eq!(settled.changes.inserted, 2600);
    let chunks = functions.chunks(batch.batch_id).await;
    assert_eq!(chunks.len(), 3);
    for key in chunks.iter().map(|(key, _)| key.as_str()).chain([batch.key().as_str()]) {
        functions.payloads.let_go(key).await;
    }
    // Notified again, the function finds the batch final, and its objects do not change.
    assert_eq!(functions.invoke(CHUNKER, &notification).await.unwrap(), json!({"batchItemFailures": []}));
    assert_eq!(functions.chunks(batch.batch_id).await, chunks);
}

#[tokio::test]
async fn a_payload_that_cannot_be_used_fails_its_batch_and_says_why() {
    let functions = Functions::open().await;
    let whole = catalogue(1500).payload(Layout::Array);
    let broken_off = whole.len() / 2;
    let compressed = gzip(&whole);
    let bomb = gzip(&vec![b' '; 200_000_001]);
    let wrong_checksum = Some("ab".repeat(32));
    for (payload, checksum, code, offset) in [
        (b"".to_vec(), None, "MALFORMED_JSON", Some(0)),
        (br#"{"CNPJ":"05927228000145"}"#.to_vec(), None, "MALFORMED_JSON", Some(0)),
        (whole[..broken_off].to_vec(), None, "MALFORMED_JSON", Some(broken_off)),
        (compressed[..compressed.len() / 2].to_vec(), None, "CONTENT_CORRUPT", None),
        (whole.clone(), wrong_checksum, "CONTENT_CORRUPT", None),
        (bomb, None, "MAX_PAYLOAD_EXCEEDED", Some(200_000_000)),
    ] {
        let batch = PayloadMetadata { checksum, ..batch(MediaType::Json) };
        functions.put(&batch, payload).await;
        let settled = functions.settled(batch.batch_id).await;
        let error = settled.error.unwrap_or_else(|| panic!("{code} was expected"));
        assert_eq!((settled.status, error.code.as_ref()), (BatchStatus::Failed, code));
        if let Some(offset) = offset {
            assert_eq!(error.byte_offset, Some(u64::try_from(offset).unwrap()), "{code}");
        }
        assert_eq!((settled.items_processed, settled.chunks.total), (0, 0), "{code}");
        functions.payloads.let_go(&batch.key()).await;
        for (key, _) in functions.chunks(batch.batch_id).await {
            functions.payloads.let_go(&key).await;
        }
    }
}

#[tokio::test]
async fn a_payload_of_nothing_but_errors_is_complete_and_reports_each_once() {
    let functions = Functions::open().await;
    let batch = batch(MediaType::Json);
    functions.put(&batch, gzip(format!("[{}{{}}]", "{},".repeat(100_000)).as_bytes())).await;
    let notification = notification(&functions.bucket, &batch.key());
    let runs = futures_util::future::join_all((0..2).map(|_| functions.invoke(CHUNKER, &notification))).await;
    for answer in runs {
        assert_eq!(answer.unwrap(), json!({"batchItemFailures": []}));
    }
    let settled = functions.settled(batch.batch_id).await;
    assert!(is_completed(&settled), "{settled:?}");
    assert_eq!(
        (settled.items_parsed, settled.items_failed, settled.errors_omitted),
        (100_001, 100_001, 90_001)
    );
    assert_eq!(settled.errors_url, Some(catalog::errors_url(batch.batch_id)));
    let key = errors_key(batch.batch_id, Generation::FIRST);
    functions.payloads.let_go(&key).await;
    let object = functions.s3.get_object().bucket(&functions.bucket).key(&key).send().await.unwrap();
    assert_eq!(
        (object.content_type(), object.content_encoding()),
        (Some("application/x-ndjson"), Some("gzip"))
    );
    let bytes = object.body.collect().await.unwrap().to_vec();
    let text = std::io::read_to_string(GzDecoder::new(bytes.as_slice()).take(100_000_000)).unwrap();
    assert_eq!(text.lines().count(), 100_001);
    for (index, line) in text.lines().enumerate().step_by(1000) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&line["item_index"], &line["item"]), (&json!(index), &json!("{}")));
    }
}

/// Checks that the error report of a batch is one S3 object even if it takes several parts of 5
/// MiB.
#[tokio::test]
async fn a_report_of_many_megabytes_is_one_file() {
    let functions = Functions::open().await;
    let batch = batch(MediaType::NdJson);
    let line = |_| {
        let text: String = std::iter::repeat_with(fastrand::alphanumeric).take(200_000).collect();
        format!("{{\"CNPJ\":\"1\",\"TITLE\":\"{text}\"}}")
    };
    let lines: Vec<String> = (0..80).map(line).collect();
    functions.put(&batch, lines.join("\n").into_bytes()).await;
    assert_eq!(functions.settled(batch.batch_id).await.items_failed, 80);
    let key = errors_key(batch.batch_id, Generation::FIRST);
    let object = functions.s3.get_object().bucket(&functions.bucket).key(&key).send().await.unwrap();
    let bytes = object.body.collect().await.unwrap().to_vec();
    assert!(bytes.len() > 2 * objects::PART, "{} bytes", bytes.len());
    let text = std::io::read_to_string(GzDecoder::new(bytes.as_slice()).take(100_000_000)).unwrap();
    let found: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(found.iter().map(|line| line["item"].as_str().unwrap()).eq(lines.iter().map(String::as_str)));
}

/// Checks that objects which an earlier attempt left get the tag that lets them expire. In that
/// attempt a chunker of an older version began to cut the batch, and died.
#[tokio::test]
async fn what_an_earlier_generation_left_may_expire() {
    let functions = Functions::open().await;
    let batch = batch(MediaType::Json);
    let second = Generation::FIRST.next();
    let left =
        [chunk_key(batch.batch_id, Generation::FIRST, 7), errors_key(batch.batch_id, Generation::FIRST)];
    for key in &left {
        let put = functions.s3.put_object().bucket(&functions.bucket).key(key);
        put.body(b"left".to_vec().into()).send().await.unwrap();
    }
    functions.begun_by_an_older_planner(&batch).await;
    functions.put(&batch, gzip(&catalogue(100).payload(Layout::Array))).await;
    let settled = functions.settled(batch.batch_id).await;
    assert_eq!((settled.generation, settled.items_processed), (second, 100));
    for key in left.iter().chain([&chunk_key(batch.batch_id, second, 0)]) {
        functions.payloads.let_go(key).await;
    }
}

#[tokio::test]
async fn an_empty_array_is_a_batch_that_is_complete() {
    let functions = Functions::open().await;
    let batch = batch(MediaType::Json);
    functions.put(&batch, gzip(b"[]")).await;
    let settled = functions.settled(batch.batch_id).await;
    assert!(is_completed(&settled));
    assert_eq!((settled.items_parsed, settled.chunks.total), (0, 0));
    functions.payloads.let_go(&batch.key()).await;
}

#[tokio::test]
async fn an_object_that_is_not_a_payload_stays_and_its_message_is_returned() {
    let functions = Functions::open().await;
    let strange = format!("incoming/2026/11/21/23/{}", Uuid::new_v4());
    let put = functions.s3.put_object().bucket(&functions.bucket).key(&strange);
    put.body(b"[]".to_vec().into()).send().await.unwrap();
    // A copy with another object's metadata.
    let copied = batch(MediaType::Json);
    functions.put(&copied, b"[]".to_vec()).await;
    let copy = format!("incoming/1999/01/01/00/{}", copied.batch_id);
    let put = functions.s3.put_object().bucket(&functions.bucket).key(&copy);
    put.set_metadata(Some(copied.to_map().into_iter().collect()))
        .body(b"[]".to_vec().into())
        .send()
        .await
        .unwrap();
    for (bucket, key) in
        [(functions.bucket.as_str(), &strange), (&functions.bucket, &copy), ("elsewhere", &copied.key())]
    {
        let notification = notification(bucket, key);
        assert!(functions.invoke(CHUNKER, &notification).await.is_err(), "{key}");
        let message = json!({"Records": [{"eventSource": "aws:sqs", "messageId": "m-1", "body": notification.to_string()}]});
        let answer = functions.invoke(CHUNKER, &message).await.unwrap();
        assert_eq!(answer, json!({"batchItemFailures": [{"itemIdentifier": "m-1"}]}), "{key}");
    }
    functions.s3.head_object().bucket(&functions.bucket).key(&strange).send().await.unwrap();
}

#[tokio::test]
async fn every_sample_event_is_answered_as_its_name_says() {
    let functions = Functions::open().await;
    let first = "059f36b4-87a3-44ab-83d2-661975830a7d";
    // The samples are about one payload, and the two chunks that it is cut into.
    let payload = PayloadMetadata {
        batch_id: "019aa8ec-98d3-7e83-98f2-17f2d7e0e6d7".parse().unwrap(),
        received_at: "2026-11-21T23:59:59.123Z".parse().unwrap(),
        idempotency_key: "5c1e0a56-4a58-4aaf-9359-83ec8f663f10".to_owned(),
        ..batch(MediaType::Json)
    };
    let catalogue = Catalogue { seed: 7, items: 1200, ..Catalogue::default() };
    functions.put(&payload, catalogue.payload(Layout::Array)).await;
    let none = json!([]);
    let message = json!([{"itemIdentifier": first}]);
    for (function, folder, name, failures) in [
        (CHUNKER, "chunker", "s3-put", &none),
        (CHUNKER, "chunker", "s3-through-sqs", &none),
        (CHUNKER, "chunker", "multipart-upload-through-sqs", &none),
        (CHUNKER, "chunker", "duplicate", &none),
        (CHUNKER, "chunker", "test-event", &none),
        (CHUNKER, "chunker", "bare-test-event", &none),
        (CHUNKER, "chunker", "object-removed", &none),
        (CHUNKER, "chunker", "malformed", &message),
        (CHUNKER, "chunker", "unknown-object", &message),
        (UPSERT, "upsert", "chunk-ready-sqs", &none),
        (UPSERT, "upsert", "chunk-ready-kafka", &none),
        (UPSERT, "upsert", "duplicate", &none),
        (UPSERT, "upsert", "duplicate-kafka", &none),
        (UPSERT, "upsert", "malformed", &message),
        (UPSERT, "upsert", "key-of-another-chunk", &message),
        (UPSERT, "upsert", "malformed-kafka", &none),
    ] {
        let event = sample(folder, name, &functions.bucket);
        let answer =
            functions.invoke(function, &event).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(&answer["batchItemFailures"], failures, "{folder}/{name}");
    }
    let settled = functions.settled(payload.batch_id).await;
    assert!(is_completed(&settled));
    assert_eq!((settled.items_processed, settled.chunks.total), (1200, 2));
    assert!(functions.invoke(UPSERT, &json!({"Records": []})).await.is_err());
    // It was done before, is a test, or is forwarded.
    for name in ["payload", "chunk", "test-event", "malformed", "another-event"] {
        let answer = functions.invoke(DEAD_LETTER, &sample("dead-letter", name, &functions.bucket)).await;
        assert_eq!(answer.unwrap(), json!({"batchItemFailures": []}), "dead-letter/{name}");
    }
    assert!(functions.invoke(DEAD_LETTER, &json!({"Records": [{}]})).await.is_err());
}

/// Returns a sample event of `events/ingest`, with `bucket` as its bucket. In Kafka events the
/// change is made inside the records, which are in Base64.
fn sample(folder: &str, name: &str, bucket: &str) -> Value {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    let path = format!("{}/../events/ingest/{folder}/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let here = |text: &str| {
        text.replace(r#""payloads""#, &format!(r#""{bucket}""#))
            .replace(r#"\"payloads\""#, &format!(r#"\"{bucket}\""#))
            .replace("s3://payloads/", &format!("s3://{bucket}/"))
    };
    let mut event: Value = serde_json::from_str(&here(&text)).unwrap();
    if let Some(partitions) = event["records"].as_object_mut() {
        for record in partitions.values_mut().flat_map(|records| records.as_array_mut().unwrap()) {
            let value = STANDARD.decode(record["value"].as_str().unwrap()).unwrap();
            record["value"] = STANDARD.encode(here(std::str::from_utf8(&value).unwrap())).into();
        }
    }
    event
}
