//! Tests of files that are dropped into a bucket which the deployment does not own.

use end_to_end::{Ingest, Payloads, Products, TENANT_A, gzip};
use ingestion::generate::Layout;
use serde_json::json;
use uuid::Uuid;

use super::pipeline::{Pipeline, catalogue, key};
use super::{INTAKE, TENANT_B, TENANT_PHARMACY, batches_of};
use crate::chunking::functions::{Functions, notification};

#[tokio::test]
async fn a_bucket_that_the_deployment_does_not_own_is_served_and_has_all_that_is_said_of_its_files() {
    let (partner, ingest, products) = (Pipeline::of_a_partner().await, Ingest::new(), Products::open().await);
    let own = Pipeline::open().await;
    let (taken, catalogue) = (key(TENANT_A, "full", ".ndjson.gz"), catalogue(1200));
    let etag = partner.put(&taken, gzip(&catalogue.payload(Layout::Lines), 6)).await;
    let result = partner.finished(&taken, &etag).await;
    assert_eq!(
        (&result["status"], &result["object"]["bucket"]),
        (&json!("COMPLETED"), &json!(partner.bucket)),
        "{result}"
    );
    let id = result["batch_id"].as_str().unwrap();
    let batch = ingest.finished(id).await;
    assert_eq!(batch["source"], result["object"]);
    assert_eq!(products.of(catalogue.cnpjs()[0].as_str()).await.len(), 1200);
    assert_eq!(partner.tagged(&taken, "state", "final").await["batch"], id);
    // Its payload is a copy in the bucket of payloads, where nothing else tells of it.
    assert_eq!(Payloads::open().await.keys(id).await.len(), 1);
    assert_eq!((own.get(&taken).await, own.result(&taken).await), (None, None));

    let failed = key(TENANT_A, "delta", ".json");
    let etag = partner.put(&failed, b"[{".to_vec()).await;
    assert_eq!(partner.finished(&failed, &etag).await["status"], "FAILED");

    let refused = key(TENANT_B, "full", ".json");
    let etag = partner.put(&refused, b"[]".to_vec()).await;
    assert_eq!(partner.finished(&refused, &etag).await["reason"], "TENANT_NOT_ALLOWED");
    assert_eq!(partner.tagged(&refused, "drop", "refused").await["reason"], "TENANT_NOT_ALLOWED");
    assert_eq!(own.result(&refused).await, None);

    // This tenant's grant names the stack's own bucket alone.
    let refused = key(TENANT_PHARMACY, "full", ".json");
    let etag = partner.put(&refused, b"[]".to_vec()).await;
    assert_eq!(partner.finished(&refused, &etag).await["reason"], "BUCKET_NOT_ALLOWED");
    assert_eq!(partner.tagged(&refused, "drop", "refused").await["reason"], "BUCKET_NOT_ALLOWED");
}

/// Checks that notifications of objects outside `drop/` are ignored. The owner of such a bucket
/// configures the notifications, and may leave out the prefix.
#[tokio::test]
async fn nothing_is_written_about_objects_that_nobody_dropped() {
    let (functions, partner) = (Functions::open().await, Pipeline::of_a_partner().await);
    for key in [format!("incoming/{}.json", Uuid::new_v4()), format!("drop-results/{}.json", Uuid::new_v4())]
    {
        partner.put(&key, b"[]".to_vec()).await;
        let body = notification(&partner.bucket, &key).to_string();
        let event = json!({"Records": [{"eventSource": "aws:sqs", "messageId": "m-1", "body": body}]});
        assert_eq!(functions.invoke(INTAKE, &event).await.unwrap()["batchItemFailures"], json!([]));
        let result = partner.get(&format!("drop-results/{key}.json")).await;
        assert_eq!((result, partner.tags(&key).await.len()), (None, 0), "{key}");
    }
}

#[tokio::test]
async fn equal_names_in_two_buckets_are_two_batches() {
    let (own, partner) = (Pipeline::open().await, Pipeline::of_a_partner().await);
    let (key, payload) = (key(TENANT_A, "delta", ".json"), catalogue(5).payload(Layout::Array));
    let etag = own.put(&key, payload.clone()).await;
    assert_eq!(etag, partner.put(&key, payload).await);
    let (first, second) = (own.finished(&key, &etag).await, partner.finished(&key, &etag).await);
    assert_ne!(first["batch_id"], second["batch_id"]);
    let mut ids = [&first, &second].map(|result| result["batch_id"].as_str().unwrap().to_owned());
    ids.sort_by(|left, right| right.cmp(left));
    assert_eq!(batches_of(&key).await, ids);
}

#[tokio::test]
async fn a_bucket_that_nobody_named_is_not_looked_at() {
    let functions = Functions::open().await;
    let body = notification("no-bucket-of-ours", &key(TENANT_A, "full", ".json")).to_string();
    let event = json!({"Records": [{"eventSource": "aws:sqs", "messageId": "m-1", "body": body}]});
    let answer = functions.invoke(INTAKE, &event).await.unwrap();
    assert_eq!(answer["batchItemFailures"], json!([{"itemIdentifier": "m-1"}]));
}
