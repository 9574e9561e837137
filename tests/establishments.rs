//! Tests of the function `establishments`, by which administrators change the owners of
//! establishments.

use std::time::Duration;

use aws_sdk_lambda::Client;
use aws_sdk_lambda::primitives::Blob;
use end_to_end::{Ingest, KEY_B, Load, Products, TENANT_A, variable};
use ingestion::generate::{Catalogue, Layout};
use serde_json::{Value, json};
use uuid::Uuid;

const TENANT_B: &str = "22222222-2222-4222-8222-222222222222";
const TENANT_PHARMACY: &str = "33333333-3333-4333-8333-333333333333";

/// Client that invokes the function `establishments`, as an administrator does.
struct Establishments(Client);

impl Establishments {
    async fn open() -> Self {
        let sdk = runtime::Sdk::from_environment().await.single_attempt(Duration::from_secs(60));
        Self(Client::new(&sdk))
    }

    async fn ask(&self, event: impl Into<Vec<u8>>) -> Value {
        let function = variable("ESTABLISHMENTS_FUNCTION");
        let invoke = self.0.invoke().function_name(function).payload(Blob::new(event));
        let answer = invoke.send().await.unwrap();
        let said = serde_json::from_slice(answer.payload.unwrap().as_ref()).unwrap();
        assert_eq!(answer.function_error, None, "{said}");
        said
    }

    async fn change(&self, event: &Value) -> Value {
        self.ask(event.to_string()).await
    }

    async fn sample(&self, name: &str) -> Value {
        let path = format!("{}/../events/ingest/establishments/{name}.json", env!("CARGO_MANIFEST_DIR"));
        self.ask(std::fs::read(path).unwrap()).await
    }
}

#[tokio::test]
async fn each_sample_event_is_answered_as_its_name_says() {
    let establishments = Establishments::open().await;
    for name in ["list", "list-of-tenant", "list-one", "unowned"] {
        let page = establishments.sample(name).await;
        assert!(page["establishments"].is_array() && page.get("cursor").is_some(), "{name}: {page}");
    }
    // If an earlier run ended in the middle.
    establishments.sample("release").await;
    for name in ["assign-dry-run", "assign", "move", "release"] {
        let answer = establishments.sample(name).await;
        let number = |member: &str| answer[member].as_array().unwrap().len();
        assert_eq!(number("changed") + number("unchanged"), 2, "{name}: {answer}");
        assert_eq!(answer["dryRun"], name.ends_with("dry-run"), "{name}");
        if name != "assign-dry-run" {
            let again = establishments.sample(name).await;
            assert_eq!(again["unchanged"].as_array().unwrap().len(), 2, "{name}: {again}");
        }
    }
    for (name, fault) in [("malformed", "/cnpjs/0: the value is not allowed"), ("unknown-action", "action")] {
        let answer = establishments.sample(name).await;
        assert!(answer["error"].as_str().unwrap().contains(fault), "{name}: {answer}");
        assert_eq!(answer.as_object().unwrap().len(), 1, "{name}: {answer}");
    }
}

#[tokio::test]
async fn the_pharmacy_owns_its_two_establishments_by_entry() {
    let establishments = Establishments::open().await;
    let page = establishments.change(&json!({"action": "list", "tenant": TENANT_PHARMACY})).await;
    let found: Vec<_> = page["establishments"].as_array().unwrap().iter().collect();
    for cnpj in ["05927228000145", "11222333000181"] {
        let entry = found.iter().find(|found| found["cnpj"] == cnpj).unwrap();
        assert_eq!(entry["assignedBy"], "local stack", "{entry}");
    }
}

/// Checks that a move of an establishment gives its products to the new owner. Replayed batches of
/// the former owner then change none of them.
#[tokio::test]
async fn an_establishment_moves_from_one_tenant_to_another_with_its_products() {
    let (establishments, products) = (Establishments::open().await, Products::open().await);
    let (former, new) = (Ingest::new(), Ingest::new().with_key(KEY_B));
    let catalogue = Catalogue { seed: Uuid::new_v4().as_u64_pair().0, items: 5, ..Catalogue::default() };
    let cnpj = catalogue.cnpjs()[0].to_string();
    let first = former.load(Load::full(&catalogue.payload(Layout::Array))).await;
    let shorter = Catalogue { items: 3, edition: 1, newer: 1_000, ..catalogue };
    let refused = new.load(Load::full(&shorter.payload(Layout::Array))).await;
    assert_eq!(refused["items_failed"], 3, "{refused}");

    let change = json!({"action": "move", "from": TENANT_A, "to": TENANT_B, "cnpjs": [cnpj], "by": "test"});
    let moved = establishments.change(&change).await;
    assert_eq!(moved["changed"], json!([cnpj]), "{moved}");
    assert_eq!(products.of(&cnpj).await.iter().filter(|product| product.active).count(), 5);

    // The new owner replays what was refused.
    let replay = async |ingest: &Ingest, batch: &Value| {
        let id = batch["batch_id"].as_str().unwrap().to_owned();
        ingest.replay(&id, Uuid::new_v4(), &json!({"scope": "all"})).await.expect(202);
        ingest.finished(&id).await
    };
    let taken = replay(&new, &refused).await;
    assert_eq!((&taken["items_failed"], &taken["items_processed"]), (&json!(0), &json!(3)), "{taken}");
    assert_eq!(taken["changes"]["deactivated"], 2, "{taken}");
    let rows = products.of(&cnpj).await;
    let late = replay(&former, &first).await;
    assert_eq!((&late["items_failed"], &late["items_processed"]), (&json!(5), &json!(0)), "{late}");
    assert_eq!(products.of(&cnpj).await, rows, "no row was written");

    let back = json!({"action": "release", "tenant": TENANT_A, "cnpjs": [cnpj], "by": "test"});
    let refused = establishments.change(&back).await;
    let owner = json!([{"cnpj": cnpj, "reason": "OWNED_BY_ANOTHER", "owner": TENANT_B}]);
    assert_eq!(refused["refused"], owner, "{refused}");
}
