//! Tests of catalogues from the request to the rows in the table: what the sender sees, and what an
//! independent client finds in the table.

use std::collections::BTreeMap;

use end_to_end::{Ingest, KEY_B, Load, PHARMACY_KEY, Product, Products, gzip};
use ingestion::generate::{Catalogue, Layout};
use serde_json::{Value, json};
use uuid::Uuid;

/// Returns a random catalogue of establishments that no other test has.
fn catalogue(items: u32) -> Catalogue {
    Catalogue { seed: Uuid::new_v4().as_u64_pair().0, items, ..Catalogue::default() }
}

fn cnpj(catalogue: &Catalogue) -> String {
    catalogue.cnpjs()[0].as_str().to_owned()
}

#[track_caller]
fn completed(batch: &Value, changes: &Value) {
    assert_eq!(batch["status"], "COMPLETED", "{batch}");
    let mut expected = json!({"inserted": 0, "updated": 0, "unchanged": 0, "stale": 0, "deactivated": 0});
    for (name, number) in changes.as_object().unwrap() {
        expected[name] = number.clone();
    }
    assert_eq!(batch["changes"], expected, "{batch}");
}

/// Returns the expected rows of a payload: title and price by product id. Reads the payload by a
/// general JSON parser, not by the ingest's.
fn expected(payload: &[u8]) -> BTreeMap<String, (String, String)> {
    let items: Vec<Value> = serde_json::from_slice(payload).unwrap();
    let entry = |item: &Value| {
        let text = |name: &str| item[name].as_str().unwrap().to_owned();
        (text("PRODUCTID"), (text("TITLE"), format!("{}00", text("PRICE"))))
    };
    items.iter().map(entry).collect()
}

fn found(products: &[Product]) -> BTreeMap<String, (String, String)> {
    let entry = |product: &Product| {
        (product.product_id.clone(), (product.title.clone().unwrap(), product.price.clone().unwrap()))
    };
    products.iter().map(entry).collect()
}

#[tokio::test]
async fn a_full_load_is_loaded_again_without_a_write_and_replaced_by_a_shorter_one() {
    let (ingest, products) = (Ingest::new(), Products::open().await);
    let catalogue = catalogue(2_300);
    let payload = catalogue.payload(Layout::Array);
    let batch = ingest.load(Load::full(&gzip(&payload, 6)).gzip()).await;
    completed(&batch, &json!({"inserted": 2_300}));
    assert_eq!(batch["chunks"], json!({"total": 3, "done": 3, "failed": 0, "pending": 0}));
    assert_eq!(batch["payload"]["bytes"], payload.len());
    let rows = products.of(&cnpj(&catalogue)).await;
    assert_eq!(found(&rows), expected(&payload));
    assert!(rows.iter().all(|row| row.active && row.extra.as_ref().unwrap().contains("REGISTROMS")));

    let again = ingest.load(Load::full(&payload)).await;
    completed(&again, &json!({"unchanged": 2_300}));
    assert_eq!(products.of(&cnpj(&catalogue)).await, rows, "no row was written");

    let shorter = Catalogue { items: 2_000, edition: 1, ..catalogue };
    let batch = ingest.load(Load::full(&shorter.payload(Layout::Pretty))).await;
    let updated = batch["changes"]["updated"].as_u64().unwrap();
    assert!((100..400).contains(&updated), "about a tenth is newer: {batch}");
    completed(&batch, &json!({"updated": updated, "unchanged": 2_000 - updated, "deactivated": 300}));
    assert_eq!(batch["deactivation"], json!({"state": "done", "would_deactivate": 0, "reason": null}));
    let rows = products.of(&cnpj(&catalogue)).await;
    assert_eq!(rows.iter().filter(|row| row.active).count(), 2_000);
    assert_eq!(rows.len(), 2_300, "nothing is deleted");
}

#[tokio::test]
async fn bad_items_are_reported_and_the_others_loaded() {
    let (ingest, products) = (Ingest::new(), Products::open().await);
    let catalogue = catalogue(3);
    let item = |index| catalogue.item(index, Layout::Lines);
    let bad = [r#"{"CNPJ":"11222333000182","SHOPID":1,"PRODUCTID":"7"}"#, "[1,2]", r#"{"CNPJ":"#];
    let lines = [&item(0), bad[0], &item(1), bad[1], bad[2], &item(2)].join("\n");
    let batch = ingest.load(Load::delta(lines.as_bytes()).lines()).await;
    completed(&batch, &json!({"inserted": 3}));
    assert_eq!((&batch["items_parsed"], &batch["items_failed"]), (&json!(6), &json!(3)));
    let batch_id = batch["batch_id"].as_str().unwrap();
    let errors = ingest.errors(batch_id).await;
    let seen: Vec<_> = errors
        .iter()
        .map(|error| (error["item_index"].as_u64().unwrap(), error["code"].as_str().unwrap()))
        .collect();
    assert_eq!(seen, [(1, "CNPJ_INVALID"), (3, "NOT_AN_OBJECT"), (4, "MALFORMED_JSON")]);
    assert_eq!((&errors[0]["field"], &errors[0]["byte_offset"]), (&json!("CNPJ"), &json!(item(0).len() + 1)));
    assert_eq!(errors[0]["key"]["productid"], "7");
    assert_eq!(products.of(&cnpj(&catalogue)).await.len(), 3);
}

#[tokio::test]
async fn a_payload_that_breaks_off_changes_no_product() {
    let (ingest, products) = (Ingest::new(), Products::open().await);
    let catalogue = catalogue(1_500);
    let mut payload = catalogue.payload(Layout::Array);
    payload.truncate(payload.len() - 40);
    let batch = ingest.load(Load::full(&payload)).await;
    assert_eq!(batch["status"], "FAILED", "{batch}");
    assert_eq!(batch["error"]["code"], "MALFORMED_JSON", "{batch}");
    assert!(batch["error"]["byte_offset"].as_u64().unwrap() <= payload.len() as u64);
    assert!(products.of(&cnpj(&catalogue)).await.is_empty());
    // What is right under another key is loaded.
    let batch = ingest.load(Load::full(&catalogue.payload(Layout::Array))).await;
    completed(&batch, &json!({"inserted": 1_500}));
}

#[tokio::test]
async fn a_tenant_loads_and_sees_only_what_is_its_own() {
    let (ingest, products) = (Ingest::new(), Products::open().await);
    let product_id = Uuid::new_v4().to_string();
    let item = |cnpj: &str| json!({"CNPJ": cnpj, "SHOPID": 1, "PRODUCTID": product_id, "TITLE": "Soro"});
    let payload = json!([item("05.927.228/0001-45"), item("11444777000161")]).to_string();
    let pharmacy = ingest.with_key(PHARMACY_KEY);
    let batch = pharmacy.load(Load::delta(payload.as_bytes())).await;
    completed(&batch, &json!({"inserted": 1}));
    let batch_id = batch["batch_id"].as_str().unwrap();
    let errors = pharmacy.errors(batch_id).await;
    assert_eq!((&errors[0]["item_index"], &errors[0]["code"]), (&json!(1), &json!("CNPJ_NOT_ALLOWED")));
    let rows = products.rows("SELECT cnpj FROM products WHERE productid = $1", &[&product_id]).await;
    assert_eq!(rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>(), ["05927228000145"]);
    for stranger in [&ingest, &ingest.with_key(KEY_B)] {
        for more in ["", "/errors"] {
            stranger.get(batch_id, more).await.expect_problem(404, "BATCH_NOT_FOUND");
        }
    }
}

/// Checks that a full load of another tenant changes no product of an establishment that it does
/// not own. The tenant's API key allows all establishments of its own tenant.
#[tokio::test]
async fn another_tenant_s_full_load_touches_no_product() {
    let (ingest, products) = (Ingest::new(), Products::open().await);
    let catalogue = catalogue(6);
    ingest.load(Load::full(&catalogue.payload(Layout::Array))).await;
    let rows = products.of(&cnpj(&catalogue)).await;

    let other = ingest.with_key(KEY_B);
    let fewer = Catalogue { items: 2, edition: 1, newer: 1_000, ..catalogue };
    let batch = other.load(Load::full(&fewer.payload(Layout::Array))).await;
    completed(&batch, &json!({}));
    assert_eq!((&batch["items_parsed"], &batch["items_failed"]), (&json!(2), &json!(2)));
    let skipped = json!({"state": "skipped", "would_deactivate": 0, "reason": "not_owned"});
    assert_eq!(batch["deactivation"], skipped);
    assert!(batch["warnings"][0].as_str().unwrap().contains("nothing was loaded"), "{batch}");
    let errors = other.errors(batch["batch_id"].as_str().unwrap()).await;
    assert!(errors.iter().all(|error| error["code"] == "CNPJ_NOT_ALLOWED"), "{errors:?}");
    assert_eq!(products.of(&cnpj(&catalogue)).await, rows, "no row was written");
}

#[tokio::test]
async fn loads_at_once_end_as_the_last_received_says() {
    let (ingest, products) = (Ingest::new(), Products::open().await);
    let first = catalogue(1_200);
    let editions: Vec<_> = (0..4)
        .map(|edition| {
            Catalogue { edition, newer: 300, items: 1_200 - edition * 50, ..first }.payload(Layout::Array)
        })
        .collect();
    let mut batches = Vec::new();
    for payload in &editions {
        batches.push(ingest.accepted(Load::full(payload)).await);
    }
    for batch_id in &batches {
        assert_eq!(ingest.finished(batch_id).await["status"], "COMPLETED");
    }
    let rows = products.of(&cnpj(&first)).await;
    let active: Vec<Product> = rows.into_iter().filter(|row| row.active).collect();
    assert_eq!(found(&active), expected(&editions[3]));
}

#[tokio::test]
async fn a_load_that_would_empty_a_catalogue_is_held() {
    let (ingest, products) = (Ingest::new(), Products::open().await);
    let catalogue = catalogue(300);
    ingest.load(Load::full(&catalogue.payload(Layout::Array))).await;
    let batch = ingest.load(Load::full(&Catalogue { items: 20, ..catalogue }.payload(Layout::Array))).await;
    completed(&batch, &json!({"unchanged": 20}));
    assert_eq!(batch["deactivation"]["state"], "held", "{batch}");
    assert_eq!(batch["deactivation"]["would_deactivate"], 280);
    assert!(products.of(&cnpj(&catalogue)).await.iter().all(|row| row.active));
}

#[tokio::test]
async fn an_empty_full_load_deactivates_nothing() {
    let ingest = Ingest::new();
    let batch = ingest.load(Load::full(b"[]")).await;
    completed(&batch, &json!({}));
    assert_eq!(
        batch["deactivation"],
        json!({"state": "skipped", "would_deactivate": 0, "reason": "empty_load"})
    );
}
