//! Tests of catalogues that pipelines drop into S3, from the object to the rows in the table and
//! the result beside the object.

mod buckets;
mod pipeline;

use std::time::{Duration, Instant};

use end_to_end::{Access, Gateway, Ingest, Payloads, Products, TENANT_A, gzip};
use ingestion::generate::{Catalogue, Layout};
use serde_json::{Value, json};
use url::form_urlencoded;
use uuid::Uuid;

use crate::chunking::functions::{Functions, notification};
use crate::products::conforms;

use pipeline::{PATIENCE, Pipeline, catalogue, key, result_key};

const TENANT_B: &str = "22222222-2222-4222-8222-222222222222";
const TENANT_PHARMACY: &str = "33333333-3333-4333-8333-333333333333";
const INTAKE: &str = "DROP_INTAKE_FUNCTION";

/// Returns the ids of the batches that were made of an object, as the batches API lists them.
async fn batches_of(key: &str) -> Vec<String> {
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("source_key", key).finish();
    let page = Gateway::new().get(&format!("/v1/inovafarma/batches?{query}")).await.expect(200).json();
    let batches = page["batches"].as_array().unwrap();
    batches.iter().map(|batch| batch["batch_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn each_kind_of_file_becomes_a_batch_with_its_result_beside_it() {
    let (pipeline, ingest, products) = (Pipeline::open().await, Ingest::new(), Products::open().await);
    for (load, ending, layout, is_gzip) in [
        ("delta", ".json", Layout::Array, false),
        ("full", ".ndjson", Layout::Lines, false),
        ("full", ".json.gz", Layout::Pretty, true),
        ("delta", ".NDJSON.gz", Layout::Lines, true),
    ] {
        let (key, catalogue) = (key(TENANT_A, load, ending), catalogue(1200));
        let payload = catalogue.payload(layout);
        let bytes = if is_gzip { gzip(&payload, 6) } else { payload };
        let etag = pipeline.put(&key, bytes.clone()).await;
        let result = pipeline.finished(&key, &etag).await;
        assert_eq!(result["status"], "COMPLETED", "{key}: {result}");
        assert_eq!(result["errors"], json!({"key": null, "listed": 0, "omitted": 0, "url": null}), "{key}");
        conforms("ProductBatch", &result["batch"]);
        let id = result["batch_id"].as_str().unwrap();
        let shown = ingest.finished(id).await;
        assert_eq!((&shown["load_type"], &shown["items_processed"]), (&json!(load), &json!(1200)), "{key}");
        assert_eq!(shown, result["batch"]);
        assert_eq!(
            shown["source"],
            json!({"bucket": pipeline.bucket, "key": key, "etag": etag, "version_id": null})
        );
        assert_eq!(batches_of(&key).await, [id]);
        assert_eq!(products.of(catalogue.cnpjs()[0].as_str()).await.len(), 1200, "{key}");
        let tags = pipeline.tagged(&key, "state", "final").await;
        assert_eq!((tags["drop"].as_str(), tags["batch"].as_str()), ("accepted", id), "{key}");
        let payload = Payloads::open().await.only(id).await;
        assert_eq!(payload.bytes, bytes, "{key}");
    }
}

#[tokio::test]
async fn a_version_is_one_batch_and_an_object_that_is_written_again_is_another() {
    let (pipeline, functions) = (Pipeline::open().await, Functions::open().await);
    let key = key(TENANT_A, "delta", ".json");
    let payload = catalogue(10).payload(Layout::Array);
    let etag = pipeline.put(&key, payload.clone()).await;
    let first = pipeline.finished(&key, &etag).await;
    let escaped = key.replace(' ', "+");
    let message = |id: &str| {
        let body = notification(&functions.bucket, &escaped).to_string();
        json!({"eventSource": "aws:sqs", "messageId": id, "body": body})
    };
    let again = json!({"Records": [message("m-1"), message("m-2")]});
    assert_eq!(functions.invoke(INTAKE, &again).await.unwrap(), json!({"batchItemFailures": []}));
    assert_eq!(pipeline.result(&key).await.unwrap(), first);
    assert_eq!(Payloads::open().await.keys(first["batch_id"].as_str().unwrap()).await.len(), 1);

    // The same bytes, a second later: S3 keeps whole seconds.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let etag = pipeline.put(&key, payload).await;
    let begin = Instant::now();
    let second = loop {
        let result = pipeline.finished(&key, &etag).await;
        if result["batch_id"] != first["batch_id"] {
            break result;
        }
        assert!(begin.elapsed() < PATIENCE, "it was not taken again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(batches_of(&key).await, [&second, &first].map(|result| result["batch_id"].as_str().unwrap()));
    assert_eq!(
        (&second["status"], &second["batch"]["changes"]["unchanged"]),
        (&json!("COMPLETED"), &json!(10))
    );
}

#[tokio::test]
async fn what_cannot_be_used_fails_its_batch_and_the_result_says_why() {
    let (pipeline, whole) = (Pipeline::open().await, catalogue(1500).payload(Layout::Array));
    let compressed = gzip(&whole, 6);
    for (ending, bytes, code) in [
        (".json", whole[..whole.len() / 2].to_vec(), "MALFORMED_JSON"),
        (".json.gz", compressed[..compressed.len() / 2].to_vec(), "CONTENT_CORRUPT"),
        (".json", b"CNPJ;SHOPID;PRODUCTID\n1;2;3\n".to_vec(), "MALFORMED_JSON"),
        (".json.gz", gzip(&vec![b' '; 200_000_001], 1), "MAX_PAYLOAD_EXCEEDED"),
    ] {
        let key = key(TENANT_A, "full", ending);
        let etag = pipeline.put(&key, bytes).await;
        let result = pipeline.finished(&key, &etag).await;
        assert_eq!(
            (&result["status"], &result["batch"]["error"]["code"]),
            (&json!("FAILED"), &json!(code)),
            "{result}"
        );
        pipeline.tagged(&key, "state", "final").await;
    }
}

#[tokio::test]
async fn a_grant_limits_the_establishments_and_items_in_error_are_listed_beside_the_object() {
    let pipeline = Pipeline::open().await;
    let key = key(TENANT_PHARMACY, "delta", ".ndjson");
    let id = Uuid::new_v4().to_string();
    let line = |cnpj: &str| json!({"CNPJ": cnpj, "SHOPID": 1, "PRODUCTID": id}).to_string();
    let lines = [line("11222333000181"), line("11444777000161"), "{".to_owned()].join("\n");
    let etag = pipeline.put(&key, lines.into_bytes()).await;
    let result = pipeline.finished(&key, &etag).await;
    assert_eq!((&result["status"], &result["batch"]["items_processed"]), (&json!("COMPLETED"), &json!(1)));
    let errors = result["errors"]["key"].as_str().unwrap();
    assert_eq!(errors, result_key(&key).replace(".ndjson.json", ".ndjson.errors.ndjson"));
    assert_eq!((&result["errors"]["listed"], &result["errors"]["omitted"]), (&json!(2), &json!(0)));
    let file = catalog::errors_url(result["batch_id"].as_str().unwrap().parse().unwrap());
    assert_eq!(result["errors"]["url"], file, "{result}");
    let errors = String::from_utf8(pipeline.get(errors).await.unwrap()).unwrap();
    let errors: Vec<Value> = errors.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for error in &errors {
        conforms("ItemError", error);
    }
    assert_eq!((&errors[0]["item_index"], &errors[1]["item_index"]), (&json!(1), &json!(2)));
}

#[tokio::test]
async fn what_is_refused_stays_where_it_is_and_says_why() {
    let (pipeline, access) = (Pipeline::open().await, Access::open().await);
    let disabled = Uuid::new_v4().to_string();
    access.put(&json!({"pk": format!("DROPS#{disabled}"), "allCnpjs": true})).await;
    access.tenant(&disabled, json!({"enabled": false})).await;
    for (key, reason) in [
        (key(TENANT_B, "full", ".json"), "TENANT_NOT_ALLOWED"),
        (key(&disabled, "full", ".json"), "TENANT_NOT_ALLOWED"),
        (key(&Uuid::new_v4().to_string(), "full", ".json"), "TENANT_NOT_ALLOWED"),
        (key("pharmacy", "full", ".json"), "KEY_UNKNOWN"),
        (key(TENANT_A, "everything", ".json"), "KEY_UNKNOWN"),
        (key(TENANT_A, "full", ".csv"), "CONTENT_TYPE"),
        (key(TENANT_A, "full", ".ndjson.gz"), "EMPTY"),
        (key(&Uuid::new_v4().to_string(), "delta", ".json"), "EMPTY"),
    ] {
        let bytes: &[u8] = if reason == "EMPTY" { b"" } else { b"[]" };
        let etag = pipeline.put(&key, bytes.to_vec()).await;
        let result = pipeline.finished(&key, &etag).await;
        assert_eq!((&result["status"], &result["reason"]), (&json!("REFUSED"), &json!(reason)), "{key}");
        let tags = pipeline.tagged(&key, "drop", "refused").await;
        assert_eq!((tags["reason"].as_str(), tags.get("state")), (reason, None), "{key}");
        assert_eq!(pipeline.get(&key).await.unwrap(), bytes, "{key}");
    }
}

#[tokio::test]
async fn markers_and_unfinished_files_are_left_alone() {
    let (pipeline, functions) = (Pipeline::open().await, Functions::open().await);
    let folder = format!("drop/{TENANT_A}/full/{}", Uuid::new_v4());
    for (name, bytes) in [("", &b""[..]), ("_SUCCESS", b"x"), ("a.json.tmp", b"["), ("empty", b"")] {
        let key = format!("{folder}/{name}");
        pipeline.put(&key, bytes.to_vec()).await;
        let body = notification(&functions.bucket, &key).to_string();
        let event = json!({"Records": [{"eventSource": "aws:sqs", "messageId": "m-1", "body": body}]});
        assert_eq!(
            functions.invoke(INTAKE, &event).await.unwrap(),
            json!({"batchItemFailures": []}),
            "{key}"
        );
        assert!(pipeline.tags(&key).await.is_empty(), "{key}");
        assert_eq!(pipeline.result(&key).await, None, "{key}");
    }
}

#[tokio::test]
async fn of_two_writers_on_one_key_the_last_one_has_the_result() {
    let (pipeline, products) = (Pipeline::open().await, Products::open().await);
    let (key, catalogue) = (key(TENANT_A, "delta", ".json"), catalogue(50));
    let editions: Vec<Vec<u8>> = (0..6)
        .map(|edition| Catalogue { edition, newer: 1000, ..catalogue }.payload(Layout::Array))
        .collect();
    let writes = editions.iter().map(|payload| pipeline.put(&key, payload.clone()));
    futures_util::future::join_all(writes).await;
    let there = pipeline.get(&key).await.unwrap();
    let head = pipeline.s3.head_object().bucket(&pipeline.bucket).key(&key).send().await.unwrap();
    let result = pipeline.finished(&key, &head.e_tag.unwrap()).await;
    assert_eq!(result["status"], "COMPLETED", "{result}");
    let payload = Payloads::open().await.only(result["batch_id"].as_str().unwrap()).await;
    assert_eq!(payload.bytes, there, "no mixture");
    assert_eq!(products.of(catalogue.cnpjs()[0].as_str()).await.len(), 50);
}

#[tokio::test]
async fn an_object_that_is_replaced_while_its_batch_is_read_is_two_whole_batches() {
    let (pipeline, ingest, payloads) = (Pipeline::open().await, Ingest::new(), Payloads::open().await);
    let key = key(TENANT_A, "delta", ".ndjson");
    let first = catalogue(20_000).payload(Layout::Lines);
    let etag = pipeline.put(&key, first.clone()).await;
    let begin = Instant::now();
    // From its copy on, the batch does not depend on the object.
    let id = loop {
        if let Some(result) = pipeline.result(&key).await.filter(|result| result["object"]["etag"] == etag) {
            let id = result["batch_id"].as_str().unwrap().to_owned();
            if payloads.keys(&id).await.len() == 1 {
                break id;
            }
        }
        assert!(begin.elapsed() < PATIENCE, "the first version was not taken");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let etag = pipeline.put(&key, catalogue(10).payload(Layout::Lines)).await;
    let second = pipeline.finished(&key, &etag).await;
    assert_eq!(
        (&second["status"], &second["batch"]["items_processed"]),
        (&json!("COMPLETED"), &json!(10)),
        "{second}"
    );
    let read = ingest.finished(&id).await;
    assert_eq!((&read["status"], &read["items_processed"]), (&json!("COMPLETED"), &json!(20_000)));
    assert_eq!(payloads.only(&id).await.bytes, first, "no mixture");
    assert_eq!(pipeline.result(&key).await.unwrap(), second, "the result is about the later version");
    assert_eq!(batches_of(&key).await, [second["batch_id"].as_str().unwrap(), &id]);
}

/// Checks that a large file which was uploaded in parts becomes a batch. `DROP_MEGABYTES` sets its
/// size in MB; the default is 12.
#[tokio::test]
async fn a_large_file_is_uploaded_in_parts() {
    let megabytes: usize = std::env::var("DROP_MEGABYTES").map_or(12, |text| text.parse().unwrap());
    let pipeline = Pipeline::open().await;
    let one = catalogue(1).payload(Layout::Lines).len();
    let items = u32::try_from(megabytes * 1_000_000 / one).unwrap() + 1000;
    let (key, payload) = (key(TENANT_A, "delta", ".ndjson"), catalogue(items).payload(Layout::Lines));
    let etag = pipeline.put_in_parts(&key, &payload).await;
    assert!(etag.contains('-'), "{etag} is not of a multipart upload");
    let result = pipeline.finished(&key, &etag).await;
    assert_eq!(
        (&result["status"], &result["batch"]["items_processed"], &result["batch"]["payload"]["bytes"]),
        (&json!("COMPLETED"), &json!(items), &json!(payload.len())),
        "{} bytes",
        payload.len()
    );
}

#[tokio::test]
async fn a_replay_writes_the_result_again() {
    let (pipeline, ingest) = (Pipeline::open().await, Ingest::new());
    let key = key(TENANT_A, "full", ".json");
    let etag = pipeline.put(&key, catalogue(20).payload(Layout::Array)).await;
    let first = pipeline.finished(&key, &etag).await;
    assert_eq!(first["batch"]["generation"], 1);
    let id = first["batch_id"].as_str().unwrap();
    Payloads::open().await.released(id).await;
    ingest.replay(id, Uuid::new_v4(), &json!({"scope": "all"})).await.expect(202);
    let begin = Instant::now();
    loop {
        let result = pipeline.finished(&key, &etag).await;
        if result["batch"]["generation"] == 2 {
            assert_eq!((&result["batch_id"], &result["status"]), (&first["batch_id"], &json!("COMPLETED")));
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{result}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn every_sample_event_is_answered_as_its_name_says() {
    let functions = Functions::open().await;
    for (name, failures) in [
        ("put", json!([])),
        ("multipart-upload", json!([])),
        ("version", json!([])),
        ("duplicate", json!([])),
        ("test-event", json!([])),
        ("malformed", json!([{"itemIdentifier": "059f36b4-87a3-44ab-83d2-661975830a7d"}])),
    ] {
        let path = format!("{}/../events/ingest/drop-intake/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let text = text.replace(r#"\"payloads\""#, &format!(r#"\"{}\""#, functions.bucket));
        let answer = functions.invoke(INTAKE, &serde_json::from_str(&text).unwrap()).await.unwrap();
        assert_eq!(answer["batchItemFailures"], failures, "{name}");
    }
}
