//! Tests of the rights with which a catalogue is loaded: those of the API key that sent it first. A
//! caller with other rights does not get its response.

use aws_sdk_dynamodb::types::AttributeValue;
use end_to_end::{Access, Answer, Gateway, Ingest, KEY_A, Records, TENANT_A, gzip};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::products::{Load, PRODUCTS, batch_id, catalogue};
use crate::uploads::{UPLOADS, announced, put};

/// CNPJ of the establishment whose products the catalogues here have.
const ITS: &str = "11444777000161";
const OTHER: &str = "05927228000145";

/// API keys of tenant A, named after the establishments that they may load: [`ITS`] and [`OTHER`].
struct Keys {
    all: String,
    its: String,
    other: String,
    both: String,
    none: String,
}

impl Keys {
    async fn make() -> Self {
        let access = Access::open().await;
        let key = async |cnpjs: &[&str]| {
            let members = json!({ "cnpjs": cnpjs });
            access.key(TENANT_A, &["products:write", "products:read"], members).await
        };
        Self {
            all: KEY_A.to_owned(),
            its: key(&[ITS]).await,
            other: key(&[OTHER]).await,
            both: key(&[ITS, OTHER]).await,
            none: key(&[]).await,
        }
    }

    fn each(&self) -> [&str; 5] {
        [&self.all, &self.its, &self.other, &self.both, &self.none]
    }
}

/// Routes that accept a catalogue: in the body of a request, or as an upload.
const WAYS: [&str; 2] = [PRODUCTS, UPLOADS];

async fn ask(way: &str, api_key: &str, key: Uuid, catalogue: &[u8]) -> Answer {
    let load = Load::new(key).with("x-inova-api-key", api_key);
    let body =
        if way == UPLOADS { announced(&gzip(catalogue, 6)).to_string().into() } else { catalogue.to_vec() };
    load.body(body).post(way).await
}

fn status(way: &str) -> u16 {
    if way == UPLOADS { 201 } else { 202 }
}

#[tokio::test]
async fn a_key_is_of_the_rights_that_it_was_first_used_with() {
    let keys = Keys::make().await;
    for way in WAYS {
        for first in keys.each() {
            let (key, catalogue) = (Uuid::new_v4(), catalogue(&Uuid::new_v4().to_string()));
            let id = batch_id(&ask(way, first, key, &catalogue).await.expect(status(way)));
            for second in keys.each().into_iter().filter(|second| *second != first) {
                let refused = ask(way, second, key, &catalogue).await;
                refused.expect_problem(409, "CONFLICTING_IDEMPOTENT_RIGHTS");
                let other = ask(way, second, key, b"[]").await;
                other.expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");
            }
            let again = ask(way, first, key, &catalogue).await.expect(status(way));
            assert_eq!((batch_id(&again), again.header("idempotent-replay")), (id, Some("true")));
        }
    }
}

#[tokio::test]
async fn another_api_key_with_the_same_rights_is_answered() {
    let keys = Keys::make().await;
    let members = json!({"cnpjs": [OTHER, ITS]});
    let reversed = Access::open().await.key(TENANT_A, &["products:write"], members).await;
    for way in WAYS {
        let (key, catalogue) = (Uuid::new_v4(), catalogue("same"));
        let first = ask(way, &keys.both, key, &catalogue).await.expect(status(way));
        let again = ask(way, &reversed, key, &catalogue).await.expect(status(way));
        assert_eq!(batch_id(&again), batch_id(&first));
    }
}

#[tokio::test]
async fn an_execution_that_failed_is_taken_over_with_the_same_rights_only() {
    let (keys, records) = (Keys::make().await, Records::open().await);
    for way in WAYS {
        let (key, catalogue) = (Uuid::new_v4(), catalogue("failed"));
        let first = ask(way, &keys.its, key, &catalogue).await.expect(status(way));
        records.set("INGEST", key, &[("status", AttributeValue::S("FAILED".to_owned()))]).await;
        let refused = ask(way, &keys.all, key, &catalogue).await;
        refused.expect_problem(409, "CONFLICTING_IDEMPOTENT_RIGHTS");
        let again = ask(way, &keys.its, key, &catalogue).await.expect(status(way));
        assert_eq!((batch_id(&again), again.header("idempotent-replay")), (batch_id(&first), None));
    }
}

/// Checks that every caller gets the response of a record without rights, as earlier versions
/// stored it. The batch is still loaded with the rights with which it was accepted.
#[tokio::test]
async fn a_record_without_rights_answers_everybody_and_its_batch_keeps_its_own() {
    let (keys, records) = (Keys::make().await, Records::open().await);
    for (first, second, loaded) in [(&keys.all, &keys.other, 1), (&keys.other, &keys.all, 0)] {
        let (key, catalogue) = (Uuid::new_v4(), catalogue(&Uuid::new_v4().to_string()));
        let id = batch_id(&ask(UPLOADS, first, key, &catalogue).await.expect(201));
        records.remove("INGEST", key, &["requestRights"]).await;
        // A signature is of a whole second.
        tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
        let again = ask(UPLOADS, second, key, &catalogue).await.expect(201).json();
        assert_eq!(again["batch_id"], json!(id));
        let (status, text) = put(&again, gzip(&catalogue, 6), &[]).await;
        assert!(status.is_success(), "{text}");
        let batch = Ingest::new().finished(&id).await;
        assert_eq!((&batch["items_processed"], &batch["items_failed"]), (&json!(loaded), &json!(1 - loaded)));
    }
}

#[tokio::test]
async fn a_batch_is_loaded_with_the_rights_of_its_sender() {
    let keys = Keys::make().await;
    let codes = async |id: &str| -> Vec<Value> {
        Ingest::new().errors(id).await.iter().map(|error| error["code"].clone()).collect()
    };
    let (key, catalogue) = (Uuid::new_v4(), catalogue(&Uuid::new_v4().to_string()));
    let id = batch_id(&ask(PRODUCTS, &keys.other, key, &catalogue).await.expect(202));
    ask(PRODUCTS, &keys.all, key, &catalogue).await.expect_problem(409, "CONFLICTING_IDEMPOTENT_RIGHTS");
    Ingest::new().finished(&id).await;
    assert_eq!(codes(&id).await, [json!("CNPJ_NOT_ALLOWED")]);
    // What the problem advises: another key.
    let id = batch_id(&ask(PRODUCTS, &keys.all, Uuid::new_v4(), &catalogue).await.expect(202));
    assert_eq!(Ingest::new().finished(&id).await["items_processed"], 1);
}

#[tokio::test]
async fn a_key_for_some_establishments_is_told_of_its_own_requests_alone() {
    let (access, keys, key) = (Access::open().await, Keys::make().await, Uuid::new_v4());
    let scopes = ["products:write", "products:read"];
    let stranger = access.key(TENANT_A, &scopes, json!({"cnpjs": [OTHER], "name": "another shop"})).await;
    let sent = ask(PRODUCTS, &keys.its, key, &catalogue("told")).await.expect(202);
    for (api_key, is_told) in [(&keys.all, true), (&keys.its, true), (&stranger, false)] {
        for operation in ["ingest", "upload"] {
            let path = format!("/v1/requests/{operation}/{key}");
            let answer = Gateway::new().with_key(api_key).get(&path).await;
            if is_told {
                let told = answer.expect(200).json();
                assert_eq!((&told["operation"], &told["status"]), (&json!("ingest"), &json!("COMPLETED")));
                assert_eq!(told["traceIds"], json!([sent.header("x-trace-id")]));
            } else {
                answer.expect_problem(404, "REQUEST_NOT_FOUND");
            }
        }
    }
}

#[tokio::test]
async fn a_request_under_a_name_is_found_by_it_percent_encoded() {
    let name = format!("carga/{}#1", Uuid::new_v4());
    let headers = [
        ("x-inova-api-key", KEY_A),
        ("x-inova-load-type", "delta"),
        ("content-type", "application/json"),
        ("idempotency-key", name.as_str()),
    ];
    let gateway = Gateway::new();
    gateway.send("POST", PRODUCTS, &headers, catalogue("named")).await.expect(202);
    let encoded = name.replace('/', "%2F").replace('#', "%23");
    let told = gateway.get(&format!("/v1/requests/ingest/{encoded}")).await.expect(200).json();
    assert_eq!(told["idempotencyKey"], json!(name));
}
