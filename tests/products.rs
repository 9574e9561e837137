//! Tests of catalogues in the body of a request: which ones are accepted and refused, and that a
//! retry returns the same batch.

use aws_sdk_dynamodb::types::AttributeValue;
use end_to_end::{
    Answer, Gateway, Ingest, KEY_A, KEY_B, PHARMACY_KEY, Payloads, Products, READONLY_KEY, Records, contract,
    gzip,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

pub(crate) const PRODUCTS: &str = "/v1/inovafarma/products";
const UPLOADS: &str = "/v1/inovafarma/products/uploads";

/// Request that loads a catalogue. It is valid until a test changes a header or the body.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl Load {
    /// Returns a valid request for a delta with one product that no other test has.
    pub(crate) fn new(key: Uuid) -> Self {
        let headers = [
            ("x-inova-api-key", KEY_A.to_owned()),
            ("x-inova-load-type", "delta".to_owned()),
            ("content-type", "application/json".to_owned()),
            ("idempotency-key", key.to_string()),
        ];
        Self { headers: headers.into(), body: catalogue(&key.to_string()) }
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self = self.without(name);
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self
    }

    pub(crate) fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self }
    }

    fn gzip(self, level: u32) -> Self {
        let body = gzip(&self.body, level);
        self.with("content-encoding", "gzip").body(body)
    }

    pub(crate) async fn post(&self, path: &str) -> Answer {
        let headers: Vec<_> = self.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Gateway::new().send("POST", path, &headers, self.body.clone()).await
    }

    pub(crate) async fn send(&self) -> Answer {
        self.post(PRODUCTS).await
    }
}

/// Returns a catalogue as a JSON array with one product of this id.
pub(crate) fn catalogue(id: &str) -> Vec<u8> {
    json!([{"CNPJ": "11444777000161", "SHOPID": 1, "PRODUCTID": id, "TITLE": "DIPIRONA 500MG", "PRICE": 8.9}])
        .to_string()
        .into_bytes()
}

pub(crate) fn batch_id(answer: &Answer) -> String {
    answer.json()["batch_id"].as_str().unwrap().to_owned()
}

/// Panics unless a value matches a schema of the contract, and has no member that the schema does
/// not name.
pub(crate) fn conforms(schema: &str, value: &Value) {
    contract::conforms(schema, value).unwrap_or_else(|wrong| panic!("{value} is no {schema}: {wrong}"));
}

#[tokio::test]
async fn a_sender_s_own_name_is_a_key() {
    let unique = Uuid::new_v4().simple().to_string();
    let (name, item) = (format!("Loja#12.{unique}:%23;\"e\""), Uuid::new_v4());
    let named = Load::new(item).with("idempotency-key", &name);
    let first = named.send().await.expect(202);
    assert_eq!(first.header("idempotency-key"), Some(name.as_str()));
    let id = batch_id(&first);
    let payload = Payloads::open().await.only(&id).await;
    assert_eq!(payload.metadata["idempotency-key"], name);

    let quoted = format!("\"{}\";v=1", name.replace('"', "\\\""));
    for spelling in [name.as_str(), quoted.as_str()] {
        let again = named.clone().with("idempotency-key", spelling).send().await.expect(202);
        assert_eq!((batch_id(&again), again.header("idempotent-replay")), (id.clone(), Some("true")));
    }
    let other = named.clone().body(catalogue("another"));
    other.send().await.expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");
    named.post(UPLOADS).await.expect_problem(400, "SCHEMA_VIOLATION");
    for another in [name.to_lowercase(), format!("{name}x"), "x".repeat(223) + &unique] {
        let another = named.clone().with("idempotency-key", &another).send().await.expect(202);
        assert_ne!(batch_id(&another), id, "another key is another batch");
    }
    let long = "x".repeat(224) + &unique;
    named.with("idempotency-key", &long).send().await.expect_problem(400, "IDEMPOTENCY_KEY_MALFORMED");

    let ingest = Ingest::new();
    assert_eq!(ingest.finished(&id).await["status"], "COMPLETED");
    let headers = [
        ("x-inova-api-key", KEY_A),
        ("idempotency-key", name.as_str()),
        ("content-type", "application/json"),
    ];
    let replay = || async {
        let path = format!("/v1/inovafarma/batches/{id}/replay");
        Gateway::new().send("POST", &path, &headers, r#"{"scope": "all"}"#).await.expect(202)
    };
    let (begun, again) = (replay().await, replay().await);
    assert_eq!((begun.json(), again.header("idempotent-replay")), (again.json(), Some("true")));
    assert_eq!(ingest.finished(&id).await["status"], "COMPLETED");
}

#[tokio::test]
async fn a_catalogue_is_stored_before_it_is_acknowledged() {
    let payloads = Payloads::open().await;
    let key = Uuid::new_v4();
    let plain = Load::new(key);
    let answer = plain.send().await.expect(202);
    conforms("Received", &answer.json());
    let id = batch_id(&answer);
    assert_eq!(answer.header("location"), Some(format!("/v1/inovafarma/batches/{id}").as_str()));
    assert_eq!(answer.header("idempotency-key"), Some(key.to_string().as_str()));
    assert!(answer.header("content-digest").is_some_and(|digest| digest.starts_with("sha-256=:")));
    assert_eq!(answer.header("idempotent-replay"), None);

    let payload = payloads.only(&id).await;
    assert!(payload.bytes.starts_with(&[0x1f, 0x8b]), "what comes plain is stored as gzip");
    let checksum = hex::encode(Sha256::digest(&plain.body));
    for (name, value) in [
        ("batch-id", id.as_str()),
        ("tenant-id", end_to_end::TENANT_A),
        ("load-type", "delta"),
        ("media-type", "application/json"),
        ("idempotency-key", &key.to_string()),
        ("received-at", payload.metadata["received-at"].as_str()),
        ("content-sha256", &checksum),
    ] {
        assert_eq!(payload.metadata[name], value, "{name}");
    }
    let batch = Gateway::new().get(&format!("/v1/inovafarma/batches/{id}")).await.expect(200).json();
    conforms("ProductBatch", &batch);
    assert_eq!(batch["payload"], json!({"bytes": plain.body.len(), "checksum": checksum}));
}

#[tokio::test]
async fn a_retry_is_the_same_batch_however_it_is_compressed() {
    let payloads = Payloads::open().await;
    let first = Load::new(Uuid::new_v4()).gzip(9);
    let plain = Load::new(first.headers[3].1.parse().unwrap());
    let answer = first.send().await.expect(202);
    let halves = plain.body.split_at(plain.body.len() / 2);
    let members = [gzip(halves.0, 1), gzip(halves.1, 6)].concat();
    for retry in [
        first.clone(),
        plain.clone(),
        plain.clone().gzip(1),
        plain.clone().gzip(1).without("content-encoding").with("content-type", "application/gzip"),
        plain.clone().body(members),
        plain.clone().with("content-encoding", "identity"),
        plain.clone().without("x-inova-api-key").with("x-api-key", KEY_A),
        plain.clone().with("content-type", "application/json; charset=utf-8"),
    ] {
        let replay = retry.send().await.expect(202);
        assert_eq!(replay.bytes, answer.bytes, "{retry:?}");
        assert_eq!(replay.header("idempotent-replay"), Some("true"));
        assert_eq!(replay.header("location"), answer.header("location"));
        assert!(replay.header("last-modified").is_some());
    }
    assert_eq!(payloads.only(&batch_id(&answer)).await.bytes, first.body, "gzip is stored as it is sent");

    let upload = json!({"content_type": "application/json", "content_length": 1, "sha256": "ab".repeat(32)});
    for other in [
        plain.clone().body(catalogue("another")),
        plain.clone().with("x-inova-load-type", "full"),
        plain.clone().with("content-type", "application/x-ndjson"),
    ] {
        other.send().await.expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");
    }
    let upload = plain.clone().body(upload.to_string()).post(UPLOADS).await;
    upload.expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");
    let stranger = plain.with("x-inova-api-key", KEY_B).send().await.expect(202);
    assert_ne!(batch_id(&stranger), batch_id(&answer), "keys of different tenants never meet");
}

#[tokio::test]
async fn headers_that_are_missing_or_wrong() {
    let key = Uuid::new_v4();
    let right = || Load::new(key);
    for (load, status, reason) in [
        (right().without("x-inova-api-key"), 401, "API_KEY_REQUIRED"),
        (right().with("x-inova-api-key", "no-such-key"), 401, "API_KEY_INVALID"),
        (right().with("x-api-key", KEY_B), 401, "API_KEY_INVALID"),
        (right().with("x-inova-api-key", READONLY_KEY), 403, "SCOPE_REQUIRED"),
        (right().without("idempotency-key"), 400, "IDEMPOTENCY_KEY_REQUIRED"),
        (right().with("idempotency-key", "load 17"), 400, "IDEMPOTENCY_KEY_MALFORMED"),
        (right().with("idempotency-expiry-seconds", "7200"), 400, "IDEMPOTENCY_EXPIRY_OUT_OF_RANGE"),
        (right().without("x-inova-load-type"), 400, "LOAD_TYPE_REQUIRED"),
        (right().with("x-inova-load-type", "partial"), 400, "LOAD_TYPE_INVALID"),
        (right().with("x-inova-load-type", "FULL"), 400, "LOAD_TYPE_INVALID"),
        (right().with("x-inova-partial-items", "Refuse"), 400, "PARTIAL_ITEMS_INVALID"),
        (right().without("content-type"), 415, "CONTENT_TYPE"),
        (right().with("content-type", "text/csv"), 415, "CONTENT_TYPE"),
        (right().with("content-type", "application/json; charset=latin1"), 415, "CONTENT_TYPE"),
        (right().with("content-encoding", "br"), 415, "CONTENT_ENCODING"),
        (right().with("content-encoding", "gzip, gzip"), 415, "CONTENT_ENCODING"),
        (right().with("content-encoding", "gzip"), 400, "CONTENT_CORRUPT"),
        (right().body(""), 400, "MALFORMED_JSON"),
        (right().body(gzip(b"", 6)), 400, "MALFORMED_JSON"),
    ] {
        let answer = load.send().await.expect_problem(status, reason);
        conforms("Problem", &answer.json());
        assert!(answer.header("content-digest").is_some(), "{load:?}");
    }
    right().send().await.expect(202);
}

#[tokio::test]
async fn bodies_that_are_broken_or_too_large() {
    let right = || Load::new(Uuid::new_v4());
    let whole = gzip(&b"0123456789".repeat(5_000), 6);
    let mut wrong = whole.clone();
    let last = wrong.len() - 5;
    wrong[last] ^= 1;
    for (body, what) in [
        (whole[..whole.len() / 2].to_vec(), "truncated"),
        (wrong, "wrong checksum"),
        ([whole.as_slice(), b"rest"].concat(), "something behind it"),
        (String::from_utf8_lossy(&whole).into_owned().into_bytes(), "read as text"),
    ] {
        let answer = right().with("content-encoding", "gzip").body(body).send().await;
        assert!(answer.expect_problem(400, "CONTENT_CORRUPT").json()["detail"].is_string(), "{what}");
    }
    let bomb = gzip(&vec![b' '; 200_000_001], 9);
    right().body(bomb).send().await.expect_problem(413, "MAX_PAYLOAD_EXCEEDED");
    // Noise, so that it stays as large as it is.
    let mut noise = gzip(b"[]", 6);
    noise.extend((0..4_600_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]));
    let answer = right().with("content-type", "application/x-ndjson").body(noise).send().await;
    let detail = answer.expect_problem(413, "USE_UPLOAD").json()["detail"].to_string();
    assert!(detail.contains(UPLOADS), "{detail}");
}

#[tokio::test]
async fn of_many_at_once_there_is_one_batch() {
    let load = Load::new(Uuid::new_v4());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..12 {
        let load = load.clone();
        tasks.spawn(async move { load.send().await });
    }
    let answers = tasks.join_all().await;
    let mut ids = Vec::new();
    for answer in answers {
        if answer.status == 202 {
            ids.push(batch_id(&answer));
        } else {
            answer.expect_problem(409, "IDEMPOTENT_REQUEST_IN_PROGRESS");
        }
    }
    ids.dedup();
    let [id] = ids.as_slice() else { panic!("{ids:?}") };
    assert_eq!(Payloads::open().await.keys(id).await.len(), 1);
}

#[tokio::test]
async fn whoever_takes_over_makes_the_same_batch() {
    let (records, payloads) = (Records::open().await, Payloads::open().await);
    let key = Uuid::new_v4();
    let first = Load::new(key).send().await.expect(202);
    let stored = payloads.only(&batch_id(&first)).await;
    let dead = [
        ("status", AttributeValue::S("IN_PROGRESS".to_owned())),
        ("leaseExpiresAt", AttributeValue::N("1".to_owned())),
    ];
    records.set("INGEST", key, &dead).await;
    let load = Load::new(key);
    let halves = load.body.split_at(load.body.len() / 2);
    let members = [gzip(halves.0, 1), gzip(halves.1, 6)].concat();
    let second = load.with("content-encoding", "gzip").body(members).send().await.expect(202);
    assert_eq!(second.header("idempotent-replay"), None, "it was executed again");
    assert_eq!(second.bytes, first.bytes);
    let kept = payloads.only(&batch_id(&first)).await;
    assert_eq!(kept.bytes, stored.bytes, "what was put first is not replaced");

    let alive = [
        ("status", AttributeValue::S("IN_PROGRESS".to_owned())),
        ("leaseExpiresAt", AttributeValue::N("99999999999999".to_owned())),
    ];
    records.set("INGEST", key, &alive).await;
    let busy = Load::new(key).send().await.expect_problem(409, "IDEMPOTENT_REQUEST_IN_PROGRESS");
    assert!(busy.header("retry-after").is_some());
    Load::new(key)
        .body(catalogue("another"))
        .send()
        .await
        .expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");
}

#[tokio::test]
async fn a_pharmacy_s_batch_knows_its_establishments() {
    let key = Uuid::new_v4();
    let load = Load::new(key).with("x-inova-api-key", PHARMACY_KEY);
    let id = batch_id(&load.send().await.expect(202));
    let pharmacy = Gateway::new().with_key(PHARMACY_KEY);
    assert_eq!(
        pharmacy.get(&format!("/v1/inovafarma/batches/{id}")).await.expect(200).json()["batch_id"],
        id
    );
    let stranger = Gateway::new().get(&format!("/v1/inovafarma/batches/{id}")).await;
    stranger.expect_problem(404, "BATCH_NOT_FOUND");
}

#[tokio::test]
async fn every_example_of_products_is_loaded_without_an_item_in_error() {
    let content = &contract::PUBLISHED["paths"][PRODUCTS]["post"]["requestBody"]["content"];
    for (media_type, body) in content.as_object().unwrap() {
        // No text shows a gzip; loads as gzip have tests of their own.
        if media_type == "application/gzip" {
            continue;
        }
        for (name, example) in body["examples"].as_object().unwrap() {
            let example = &example["value"];
            let body = example.as_str().map_or_else(|| example.to_string(), str::to_owned);
            let load = Load::new(Uuid::new_v4()).with("content-type", media_type).body(body);
            let batch = Ingest::new().finished(&batch_id(&load.send().await.expect(202))).await;
            let found = [&batch["items_parsed"], &batch["items_failed"], &batch["items_partial"]];
            assert_eq!(found, [&json!(2), &json!(0), &json!(0)], "{media_type} {name}: {batch}");
        }
    }
}

#[tokio::test]
async fn a_member_that_is_absent_clears_its_column_and_is_counted() {
    let (ingest, products) = (Ingest::new(), Products::open().await);
    let id = Uuid::new_v4().to_string();
    let item = |number: u32, members: Value| {
        let mut item = json!({"CNPJ": "11444777000161", "SHOPID": number, "PRODUCTID": id});
        item.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        item
    };
    let rows = async || {
        let rows = products.of("11444777000161").await;
        let ours = rows.into_iter().filter(|row| row.product_id == id);
        ours.map(|row| (row.title, row.price, row.quantity)).collect::<Vec<_>>()
    };
    let all = json!({"TITLE": "Dipirona", "PRICE": "6.50", "QUANTITY": 3});
    let whole = json!([item(1, all.clone()), item(2, all.clone()), item(3, all)]).to_string();
    let batch = ingest.load(end_to_end::Load::delta(whole.as_bytes())).await;
    assert_eq!((&batch["items_partial"], &batch["warnings"]), (&json!(0), &json!([])));

    let some = [
        item(1, json!({"TITLE": "Dipirona", "PRICE": "7.00", "QUANTITY": null})),
        item(2, json!({"PRICE": "7.00"})),
        item(3, json!({"QUANTITY": 4})),
    ];
    let batch = ingest.load(end_to_end::Load::delta(json!(some).to_string().as_bytes())).await;
    conforms("ProductBatch", &batch);
    assert_eq!((&batch["status"], &batch["items_partial"]), (&json!("COMPLETED"), &json!(2)));
    assert!(batch["warnings"][0].as_str().unwrap().contains("items_partial"), "{batch}");
    let text = |text: &str| Some(text.to_owned());
    let expected =
        [(text("Dipirona"), text("7.0000"), None), (None, text("7.0000"), None), (None, None, text("4"))];
    assert_eq!(rows().await, expected);
}
