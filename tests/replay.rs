//! Tests of replays: the effects of processing a batch again, and the states in which a replay is
//! refused.

use std::time::Duration;

use batch_items::BatchItems;
use end_to_end::{Gateway, Ingest, KEY_B, Load, Payloads, Products, READONLY_KEY, variable};
use ingestion::generate::{Catalogue, Layout};
use ingestion::payload::{AcceptedBatch, MediaType};
use ingestion::product::CnpjAccess;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::chunking::functions::{Functions, batch};
use crate::products::conforms;

/// Returns a random catalogue of an establishment that no other test has.
fn catalogue(items: u32) -> Catalogue {
    Catalogue { seed: Uuid::new_v4().as_u64_pair().0, items, ..Catalogue::default() }
}

fn cnpj(catalogue: &Catalogue) -> String {
    catalogue.cnpjs()[0].as_str().to_owned()
}

fn id(batch: &Value) -> &str {
    batch["batch_id"].as_str().unwrap()
}

/// Requests a replay that must be refused, and returns the detail of the problem.
async fn refused(ingest: &Ingest, batch_id: &str, body: &Value) -> String {
    let answer = ingest.replay(batch_id, Uuid::new_v4(), body).await;
    let problem = answer.expect_problem(409, "BATCH_NOT_REPLAYABLE").json();
    conforms("Problem", &problem);
    problem["detail"].as_str().unwrap().to_owned()
}

/// Replays a batch, and returns the batch when it is final again.
async fn replayed(ingest: &Ingest, batch_id: &str, body: &Value) -> Value {
    let begun = ingest.replay(batch_id, Uuid::new_v4(), body).await.expect(202).json();
    conforms("ReplayResult", &begun);
    let batch = ingest.finished(batch_id).await;
    assert_eq!(batch["generation"], begun["generation"]);
    batch
}

#[tokio::test]
async fn replaying_everything_changes_no_row_and_a_retry_is_the_same_replay() {
    let (ingest, products, payloads) = (Ingest::new(), Products::open().await, Payloads::open().await);
    let catalogue = catalogue(2_300);
    let loaded = ingest.load(Load::full(&catalogue.payload(Layout::Array))).await;
    let batch_id = id(&loaded);
    let rows = products.of(&cnpj(&catalogue)).await;
    payloads.released(batch_id).await;

    let (key, all) = (Uuid::new_v4(), json!({"scope": "all"}));
    let begun = ingest.replay(batch_id, key, &all).await.expect(202);
    conforms("ReplayResult", &begun.json());
    let expected =
        json!({"batch_id": batch_id, "status": "PROCESSING", "generation": 2, "scope": "all", "chunks": 3});
    assert_eq!(begun.json(), expected);
    assert_eq!(begun.header("location"), Some(format!("/v1/inovafarma/batches/{batch_id}").as_str()));
    assert_eq!(begun.header("idempotency-key"), Some(key.to_string().as_str()));
    let batch = ingest.finished(batch_id).await;
    assert_eq!((&batch["status"], &batch["generation"]), (&json!("COMPLETED"), &json!(2)));
    let changes = json!({"inserted": 0, "updated": 0, "unchanged": 2_300, "stale": 0, "deactivated": 0});
    assert_eq!(batch["changes"], changes);
    assert_eq!(batch["chunks"], json!({"total": 3, "done": 3, "failed": 0, "pending": 0}));
    assert_eq!(batch["deactivation"]["state"], "done");
    assert_eq!(products.of(&cnpj(&catalogue)).await, rows, "no row was written");
    payloads.released(batch_id).await;

    // Spelt otherwise it is the same request, and long over.
    let again = json!({"confirm_deactivation": false, "scope": "all"});
    let other = ingest.replay(batch_id, key, &again).await;
    other.expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");
    let same = ingest.replay(batch_id, key, &all).await.expect(202);
    assert_eq!(same.bytes, begun.bytes);
    assert_eq!(same.header("idempotent-replay"), Some("true"));
    assert_eq!(ingest.get(batch_id, "").await.expect(200).json()["generation"], 2);
    let elsewhere = ingest.load(Load::delta(&catalogue.payload(Layout::Array))).await;
    let elsewhere = ingest.replay(id(&elsewhere), key, &all).await;
    elsewhere.expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");
}

#[tokio::test]
async fn an_old_batch_that_is_replayed_rolls_nothing_back() {
    let (ingest, products) = (Ingest::new(), Products::open().await);
    let first = catalogue(1_200);
    let old = ingest.load(Load::full(&first.payload(Layout::Array))).await;
    let newer = Catalogue { edition: 1, newer: 400, items: 1_100, ..first };
    let new = ingest.load(Load::full(&newer.payload(Layout::Array))).await;
    let rows = products.of(&cnpj(&first)).await;
    let batch = replayed(&ingest, id(&old), &json!({"scope": "all"})).await;
    assert_eq!(batch["status"], "COMPLETED", "{batch}");
    let (stale, updated) = (&batch["changes"]["stale"], &new["changes"]["updated"]);
    assert_eq!(stale, updated, "what the newer load changed is stale in the old one");
    assert_eq!((&batch["changes"]["inserted"], &batch["changes"]["updated"]), (&json!(0), &json!(0)));
    assert_eq!(products.of(&cnpj(&first)).await, rows);
}

#[tokio::test]
async fn what_failed_is_written_by_a_replay_and_the_full_load_is_carried_out() {
    let (ingest, products) = (Ingest::new(), Products::open().await);
    let whole = catalogue(2_500);
    ingest.load(Load::full(&whole.payload(Layout::Array))).await;
    let shorter = Catalogue { items: 2_300, edition: 1, newer: 1_000, ..whole };
    let loaded = ingest.load(Load::full(&shorter.payload(Layout::Array))).await;
    let rows = products.of(&cnpj(&whole)).await;
    // As if the second chunk had been given up, and the end had never come.
    let batch_id: Uuid = id(&loaded).parse().unwrap();
    for sql in [
        "UPDATE batch_chunks SET status = 'FAILED', inserted = 0, updated = 0, unchanged = 0, stale = 0, key_hashes = NULL, \
         row_hashes = NULL WHERE batch_id = $1 AND chunk_index = 1",
        "UPDATE batch_cnpjs SET deactivation = NULL WHERE batch_id = $1",
        "UPDATE products SET active = true, deactivated_at = NULL WHERE NOT active AND cnpj IN \
         (SELECT cnpj FROM batch_cnpjs WHERE batch_id = $1)",
        "UPDATE products SET title = NULL, row_hash = decode(repeat('00', 16), 'hex'), source_updated_at = '2000-01-01' \
         WHERE last_batch_id = $1 AND last_item_index BETWEEN 1000 AND 1999",
        "UPDATE batches SET status = 'PARTIAL_FAIL', chunks_done = 2, chunks_failed = 1, items_failed = 1000, \
         deactivation = '{\"state\":\"pending\"}' WHERE batch_id = $1",
    ] {
        products.rows(sql, &[&batch_id]).await;
    }
    let batch = replayed(&ingest, id(&loaded), &json!({"scope": "failed"})).await;
    assert_eq!((&batch["status"], &batch["items_failed"]), (&json!("COMPLETED"), &json!(0)), "{batch}");
    assert_eq!(batch["chunks"]["done"], 3);
    assert_eq!(
        (&batch["deactivation"]["state"], &batch["changes"]["deactivated"]),
        (&json!("done"), &json!(200))
    );
    let content = |products: Vec<end_to_end::Product>| -> Vec<_> {
        products.into_iter().map(|row| (row.product_id, row.title, row.price, row.active)).collect()
    };
    assert_eq!(content(products.of(&cnpj(&whole)).await), content(rows));
    let nothing = refused(&ingest, id(&loaded), &json!({"scope": "failed"})).await;
    assert!(nothing.starts_with("no chunk of the batch failed; items in error"), "{nothing}");
}

#[tokio::test]
async fn a_payload_that_failed_is_read_again() {
    let (ingest, products, functions) = (Ingest::new(), Products::open().await, Functions::open().await);
    let catalogue = catalogue(1_500);
    let whole = catalogue.payload(Layout::Array);
    let metadata = batch(MediaType::Json);
    let batch_id = metadata.batch_id.to_string();
    functions.put(&metadata, whole[..whole.len() - 40].to_vec()).await;
    assert_eq!(ingest.finished(&batch_id).await["error"]["code"], "MALFORMED_JSON");
    let again = replayed(&ingest, &batch_id, &json!({"scope": "failed"})).await;
    assert_eq!((&again["status"], &again["generation"]), (&json!("FAILED"), &json!(2)));
    assert_eq!(again["error"]["code"], "MALFORMED_JSON");
    assert!(products.of(&cnpj(&catalogue)).await.is_empty());

    functions.put(&metadata, whole).await;
    // A month later nobody but the database knows of the batch.
    functions.forget(&metadata).await;
    let read = replayed(&ingest, &batch_id, &json!({"scope": "all"})).await;
    assert_eq!((&read["status"], &read["generation"]), (&json!("COMPLETED"), &json!(3)));
    assert_eq!((&read["changes"]["inserted"], &read["error"]), (&json!(1_500), &Value::Null));
    assert_eq!(products.of(&cnpj(&catalogue)).await.len(), 1_500);
}

#[tokio::test]
async fn a_deactivation_that_is_held_is_carried_out_once_it_is_confirmed() {
    let (ingest, products) = (Ingest::new(), Products::open().await);
    let catalogue = catalogue(300);
    ingest.load(Load::full(&catalogue.payload(Layout::Array))).await;
    let few = Catalogue { items: 20, ..catalogue };
    let held = ingest.load(Load::full(&few.payload(Layout::Array))).await;
    assert_eq!(held["deactivation"]["state"], "held");
    let why = refused(&ingest, id(&held), &json!({"scope": "failed"})).await;
    assert!(why.contains("confirm_deactivation"), "{why}");
    let confirmed = json!({"scope": "failed", "confirm_deactivation": true});
    let batch = replayed(&ingest, id(&held), &confirmed).await;
    assert_eq!(batch["deactivation"], json!({"state": "done", "would_deactivate": 0, "reason": null}));
    assert_eq!((&batch["changes"]["deactivated"], &batch["generation"]), (&json!(280), &json!(2)));
    assert_eq!(batch["status"], "COMPLETED");
    let rows = products.of(&cnpj(&catalogue)).await;
    assert_eq!((rows.len(), rows.iter().filter(|row| row.active).count()), (300, 20));
}

#[tokio::test]
async fn what_is_not_at_its_end_is_refused_with_its_state() {
    let (ingest, products) = (Ingest::new(), Products::open().await);
    let all = json!({"scope": "all"});
    let empty = ingest.load(Load::delta(b"[]")).await;
    assert_eq!(refused(&ingest, id(&empty), &all).await, "the batch has no chunk");

    // Of these the database knows nothing yet.
    let sdk = runtime::Sdk::from_environment().await.single_attempt(Duration::from_secs(20));
    let items = BatchItems::new(aws_sdk_dynamodb::Client::new(&sdk), variable("BATCHES_TABLE"));
    let in_seconds = |seconds| Some(Timestamp::now() + SignedDuration::from_secs(seconds));
    for (upload_expires_at, reason) in
        [(in_seconds(900), "nothing was uploaded yet"), (in_seconds(-1), "nothing was ever uploaded")]
    {
        let batch = AcceptedBatch {
            metadata: batch(MediaType::Json),
            payload_bytes: None,
            cnpjs: CnpjAccess::Any,
            upload_expires_at,
        };
        items.put(&batch).await.unwrap();
        assert_eq!(refused(&ingest, &batch.metadata.batch_id.to_string(), &all).await, reason);
    }

    let loaded = ingest.load(Load::delta(&catalogue(3).payload(Layout::Array))).await;
    let batch_id: Uuid = id(&loaded).parse().unwrap();
    for status in ["CHUNKING", "PROCESSING", "COMPLETED"] {
        // For a moment, in which nobody looks for what stands still.
        let stated = products
            .rows(
                "UPDATE batches SET status = $2 WHERE batch_id = $1 RETURNING status",
                &[&batch_id, &status],
            )
            .await;
        assert_eq!(stated.len(), 1);
        if status != "COMPLETED" {
            let why = refused(&ingest, id(&loaded), &all).await;
            assert_eq!(
                why,
                format!("the batch is still under way: it is {status}; wait until its status is final")
            );
        }
    }
    assert_eq!(replayed(&ingest, id(&loaded), &all).await["changes"]["unchanged"], 3);
}

#[tokio::test]
async fn only_who_may_load_a_batch_may_replay_it() {
    let ingest = Ingest::new();
    let loaded = ingest.load(Load::delta(&catalogue(3).payload(Layout::Array))).await;
    let (path, all) = (format!("/v1/inovafarma/batches/{}/replay", id(&loaded)), json!({"scope": "all"}));
    let stranger = ingest.with_key(KEY_B);
    let answer = stranger.replay(id(&loaded), Uuid::new_v4(), &all).await;
    answer.expect_problem(404, "BATCH_NOT_FOUND");
    let reader = Gateway::new().with_key(READONLY_KEY);
    reader.post_once(&path, Uuid::new_v4(), &all).await.expect_problem(403, "SCOPE_REQUIRED");
    let gateway = Gateway::new();
    gateway.post(&path, &all).await.expect_problem(400, "IDEMPOTENCY_KEY_REQUIRED");
    gateway.get(&path).await.expect_problem(405, "METHOD_NOT_ALLOWED");
    for wrong in [json!({}), json!({"scope": "some"}), json!({"scope": "all", "force": true})] {
        let answer = ingest.replay(id(&loaded), Uuid::new_v4(), &wrong).await;
        answer.expect_problem(400, "SCHEMA_VIOLATION");
    }
    assert_eq!(ingest.get(id(&loaded), "").await.expect(200).json()["generation"], 1);
}

#[tokio::test]
async fn what_is_not_kept_any_more_cannot_be_replayed() {
    let (ingest, payloads) = (Ingest::new(), Payloads::open().await);
    let loaded = ingest.load(Load::delta(&catalogue(1_500).payload(Layout::Array))).await;
    payloads.released(id(&loaded)).await;
    payloads.remove(&format!("chunks/{}/1/000001", id(&loaded))).await;
    let why = refused(&ingest, id(&loaded), &json!({"scope": "all"})).await;
    assert!(why.ends_with("is not kept any more"), "{why}");
    assert_eq!(ingest.get(id(&loaded), "").await.expect(200).json()["status"], "COMPLETED");
    // What is left of it may expire again.
    payloads.released(id(&loaded)).await;
}
