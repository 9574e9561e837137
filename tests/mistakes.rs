//! Tests of catalogues with mistakes: the items that are not written, the deactivations that are
//! skipped, and what the batch reports.

use end_to_end::{Ingest, Load, Product, Products, gzip};
use ingestion::generate::Catalogue;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::products::{self, batch_id, conforms};
use crate::uploads::{UPLOADS, announced, put};

/// Returns the CNPJ of an establishment that no other test has.
fn establishment() -> String {
    let seed = Uuid::new_v4().as_u64_pair().0;
    Catalogue { seed, items: 1, establishments: 1, ..Catalogue::default() }.cnpjs()[0].as_str().to_owned()
}

fn item(cnpj: &str, id: u32, title: &str) -> String {
    format!(r#"{{"CNPJ":"{cnpj}","SHOPID":1,"PRODUCTID":"{id}","TITLE":"{title}","PRICE":"1.00"}}"#)
}

fn shown(rows: &[Product]) -> Vec<(&str, &str, bool)> {
    rows.iter()
        .map(|row| (row.product_id.as_str(), row.title.as_deref().unwrap_or_default(), row.active))
        .collect()
}

#[tokio::test]
async fn a_full_load_deactivates_nothing_that_it_holds_beside_a_mistake() {
    let (ingest, table) = (Ingest::new(), Products::open().await);
    for (joined, lines) in [(",", false), ("\n", true), ("\r", true), ("", true)] {
        let cnpj = establishment();
        let before: Vec<String> = (1..=5).map(|id| item(&cnpj, id, "OLD")).collect();
        ingest.load(Load::full(format!("[{}]", before.join(",")).as_bytes())).await;
        let items: Vec<String> =
            (1..=4).map(|id| item(&cnpj, id, if id % 2 == 0 { "NEEDLE 1\" x" } else { "NEW" })).collect();
        let text = items.join(joined);
        let payload = if lines { text } else { format!("[{text}]") };
        let load = Load::full(payload.as_bytes());
        let batch = ingest.load(if lines { load.lines() } else { load }).await;
        conforms("ProductBatch", &batch);
        assert_eq!((&batch["items_processed"], &batch["items_failed"]), (&json!(2), &json!(2)), "{batch}");
        let skipped = json!({"state": "skipped", "would_deactivate": 0, "reason": "unreadable_key"});
        assert_eq!(batch["deactivation"], skipped);
        assert!(batch["warnings"].to_string().contains("further products"), "{batch}");
        let expected = [
            ("1", "NEW", true),
            ("2", "OLD", true),
            ("3", "NEW", true),
            ("4", "OLD", true),
            ("5", "OLD", true),
        ];
        assert_eq!(shown(&table.of(&cnpj).await), expected, "{payload}");
    }
}

#[tokio::test]
async fn a_file_that_is_no_lines_fails_and_a_batch_without_a_valid_item_says_so() {
    let ingest = Ingest::new();
    let batch = ingest.load(Load::full(b"<html>\n<body>502</body>\n</html>").lines()).await;
    conforms("ProductBatch", &batch);
    assert_eq!((&batch["status"], &batch["error"]["code"]), (&json!("FAILED"), &json!("MALFORMED_JSON")));
    let skipped = json!({"state": "skipped", "would_deactivate": 0, "reason": "failed_load"});
    assert_eq!(batch["deactivation"], skipped);
    let batch = ingest.load(Load::delta(br#"[{"a":1},{"b":2}]"#)).await;
    conforms("ProductBatch", &batch);
    assert_eq!(batch["status"], "COMPLETED");
    assert!(batch["warnings"].to_string().contains("nothing was loaded"), "{batch}");
}

#[tokio::test]
async fn a_load_may_refuse_items_that_lack_members() {
    let (ingest, table) = (Ingest::new(), Products::open().await);
    let cnpj = establishment();
    ingest.load(Load::full(format!("[{}]", item(&cnpj, 1, "OLD")).as_bytes())).await;
    let prices = format!(r#"[{{"CNPJ":"{cnpj}","SHOPID":1,"PRODUCTID":"1","PRICE":"2.00"}}]"#);
    let refused = async |batch_id: String| {
        let batch = ingest.finished(&batch_id).await;
        assert_eq!((&batch["items_processed"], &batch["items_failed"]), (&json!(0), &json!(1)), "{batch}");
        let errors: Vec<Value> = ingest.errors(&batch_id).await;
        assert_eq!((&errors[0]["code"], &errors[0]["field"]), (&json!("FIELD_REQUIRED"), &json!("TITLE")));
        assert_eq!(shown(&table.of(&cnpj).await), [("1", "OLD", true)]);
    };
    let key = Uuid::new_v4();
    let load = || products::Load::new(key).body(prices.clone());
    let sent = load().with("x-inova-partial-items", "refuse").send().await.expect(202);
    refused(batch_id(&sent)).await;
    load().send().await.expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");

    let bytes = gzip(prices.as_bytes(), 6);
    let ask = products::Load::new(Uuid::new_v4()).body(announced(&bytes).to_string());
    let asked = ask.with("x-inova-partial-items", "refuse").post(UPLOADS).await.expect(201);
    let (status, answer) = put(&asked.json(), bytes, &[]).await;
    assert!(status.is_success(), "{answer}");
    refused(batch_id(&asked)).await;

    // Without the header the deployment decides, which here only warns.
    ingest.load(Load::delta(prices.as_bytes())).await;
    assert_eq!(shown(&table.of(&cnpj).await), [("1", "", true)]);
}
