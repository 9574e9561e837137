//! Tests of the routes that show batches, and of the tenants and API keys that may see them.

use std::io::Read as _;
use std::time::Duration;

use batch_items::BatchItems;
use end_to_end::{Gateway, Ingest, KEY_B, READONLY_KEY, variable};
use flate2::read::GzDecoder;
use ingestion::chunk::Generation;
use ingestion::payload::{AcceptedBatch, MediaType, PayloadMetadata, Source, errors_key};
use ingestion::product::CnpjAccess;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::chunking::functions::{Functions, batch as metadata};
use crate::products::{Load, batch_id, catalogue, conforms};

const BATCHES: &str = "/v1/inovafarma/batches";
const TENANT_B: &str = "22222222-2222-4222-8222-222222222222";

async fn page(query: &str) -> Value {
    Gateway::new().get(&format!("{BATCHES}?{query}")).await.expect(200).json()
}

fn ids(page: &Value) -> Vec<String> {
    let batches = page["batches"].as_array().unwrap();
    batches.iter().map(|batch| batch["batch_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_batch_is_its_tenant_s_from_its_202_on() {
    let id = batch_id(&Load::new(Uuid::new_v4()).send().await.expect(202));
    let path = format!("{BATCHES}/{id}");
    for (path, key) in [
        (path.clone(), READONLY_KEY),
        (path.to_uppercase().replace("/V1/INOVAFARMA/BATCHES", BATCHES), READONLY_KEY),
    ] {
        let batch = Gateway::new().with_key(key).get(&path).await.expect(200).json();
        conforms("ProductBatch", &batch);
        assert_eq!(batch["batch_id"], id);
    }
    let stranger = Gateway::new().with_key(KEY_B);
    for path in [path.clone(), format!("{path}/errors")] {
        stranger.get(&path).await.expect_problem(404, "BATCH_NOT_FOUND");
    }
    let errors = Gateway::new().get(&format!("{path}/errors")).await.expect(200).json();
    assert_eq!(errors, serde_json::json!({"errors": [], "errors_omitted": 0, "next_cursor": null}));
    let lines = [("x-api-key", READONLY_KEY), ("accept", "application/x-ndjson")];
    let answer = Gateway::new().send("GET", &format!("{path}/errors"), &lines, "").await.expect(200);
    assert_eq!(
        (answer.header("content-type"), answer.header("x-errors-omitted"), answer.bytes.as_slice()),
        (Some("application/x-ndjson"), Some("0"), &b""[..])
    );
    for path in [path.as_str(), BATCHES] {
        Gateway::new().send("GET", path, &[], "").await.expect_problem(401, "API_KEY_REQUIRED");
    }
}

#[tokio::test]
async fn lists_go_from_the_newest_to_the_oldest() {
    // So that there is a page behind the last of ours.
    Load::new(Uuid::new_v4()).send().await.expect(202);
    let mut loaded = Vec::new();
    for load_type in ["delta", "delta", "delta"] {
        let load = Load::new(Uuid::new_v4()).with("x-inova-load-type", load_type);
        loaded.push(batch_id(&load.send().await.expect(202)));
    }
    let newest = ids(&page("limit=200").await);
    let mut sorted = newest.clone();
    sorted.sort_unstable_by(|left, right| right.cmp(left));
    assert_eq!(newest, sorted);
    assert!(loaded.iter().all(|id| newest.contains(id)));
    assert!(!ids(&page("limit=200&load_type=full").await).iter().any(|id| loaded.contains(id)));

    // Page by page, until the first of ours is reached.
    let (mut walked, mut query) = (Vec::new(), "limit=1".to_owned());
    while !walked.contains(&loaded[0]) {
        let page = page(&query).await;
        walked.extend(ids(&page));
        query = format!("limit=1&cursor={}", page["next_cursor"].as_str().unwrap());
        assert!(walked.len() < 500);
    }
    let ours: Vec<_> = walked.iter().filter(|id| loaded.contains(id)).collect();
    assert_eq!(ours, loaded.iter().rev().collect::<Vec<_>>());

    let cursor = query.trim_start_matches("limit=1&");
    for other in [
        format!("{cursor}&load_type=delta"),
        format!("{cursor}&status=FAILED"),
        format!("{cursor}&source_key=x"),
    ] {
        let answer = Gateway::new().get(&format!("{BATCHES}?{other}")).await;
        assert_eq!(answer.expect_problem(400, "INVALID_PARAMETER").json()["parameter"], "cursor");
    }
    let stranger = Gateway::new().with_key(KEY_B).get(&format!("{BATCHES}?{cursor}")).await;
    stranger.expect_problem(400, "INVALID_PARAMETER");
}

/// Stores these batches in the table of batch items, as a function does when it accepts a load.
pub(crate) async fn accept(batches: &[AcceptedBatch]) {
    let sdk = runtime::Sdk::from_environment().await.single_attempt(Duration::from_secs(20));
    let items = BatchItems::new(aws_sdk_dynamodb::Client::new(&sdk), variable("BATCHES_TABLE"));
    for batch in batches {
        items.put(batch).await.unwrap();
    }
}

/// Returns a batch of tenant B whose payload is stored nowhere. `expires_in` is the time in seconds
/// until its upload expires; `None` means that it is no upload.
pub(crate) fn without_payload(expires_in: Option<i64>) -> AcceptedBatch {
    AcceptedBatch {
        metadata: PayloadMetadata { tenant_id: TENANT_B.parse().unwrap(), ..metadata(MediaType::Json) },
        payload_bytes: None,
        cnpjs: CnpjAccess::Any,
        upload_expires_at: expires_in.map(|seconds| Timestamp::now() + SignedDuration::from_secs(seconds)),
    }
}

/// Returns all pages of tenant B's list of batches for a query. Panics after 200 pages.
async fn walk(query: &str) -> Vec<Value> {
    let (gateway, mut pages, mut next) = (Gateway::new().with_key(KEY_B), Vec::new(), String::new());
    loop {
        let page = gateway.get(&format!("{BATCHES}?{query}{next}")).await.expect(200).json();
        let cursor = page["next_cursor"].as_str().map(str::to_owned);
        pages.push(page);
        assert!(pages.len() < 200, "{query} does not end");
        match cursor {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => return pages,
        }
    }
}

#[tokio::test]
async fn a_list_by_status_leaves_no_batch_out_however_many_are_newer() {
    let (waits, expired) = (without_payload(Some(900)), without_payload(Some(-1)));
    accept(&[waits.clone(), expired.clone()]).await;
    let newer: Vec<AcceptedBatch> = (0..30).map(|_| without_payload(None)).collect();
    accept(&newer).await;
    let id = |batch: &AcceptedBatch| batch.metadata.batch_id.to_string();
    for (status, batch, other) in [("AWAITING_UPLOAD", &waits, &expired), ("EXPIRED", &expired, &waits)] {
        let pages = walk(&format!("limit=5&status={status}")).await;
        let found: Vec<String> = pages.iter().flat_map(ids).collect();
        assert_eq!(found.iter().filter(|found| **found == id(batch)).count(), 1, "{status}");
        assert!(!found.contains(&id(other)), "{status}");
    }
    let found: Vec<String> = walk("limit=10&load_type=delta").await.iter().flat_map(ids).collect();
    assert!(found.contains(&id(&waits)) && found.contains(&id(&expired)));
}

#[tokio::test]
async fn a_list_by_an_object_has_its_batches_before_the_database_knows_them() {
    let key = format!("drop/{TENANT_B}/full/{}/loja 12.json", Uuid::new_v4());
    let source = |key: &str| {
        let (bucket, etag) = ("drops".to_owned(), "\"ab\"".to_owned());
        Some(Source { bucket, key: key.to_owned(), etag, version_id: Some("v1".to_owned()) })
    };
    let made_of = |key: &str| {
        let batch = without_payload(Some(900));
        let metadata = PayloadMetadata { source: source(key), ..batch.metadata.clone() };
        AcceptedBatch { metadata, ..batch }
    };
    let (ours, other) = (made_of(&key), made_of(&format!("{key}.gz")));
    accept(&[ours.clone(), other, without_payload(Some(900))]).await;
    let pages = walk(&format!("limit=2&source_key={}", key.replace(' ', "%20"))).await;
    let found: Vec<&Value> = pages.iter().flat_map(|page| page["batches"].as_array().unwrap()).collect();
    let [batch] = &found[..] else { panic!("{found:?}") };
    conforms("ProductBatch", batch);
    assert_eq!(batch["batch_id"], ours.metadata.batch_id.to_string());
    assert_eq!(batch["source"], json!({"bucket": "drops", "key": key, "etag": "\"ab\"", "version_id": "v1"}));
}

/// Checks that neither a query nor a list shows a batch whose item was stored without its payload.
/// A request that is refused or dies between the two writes leaves only the item.
#[tokio::test]
async fn a_batch_whose_payload_was_never_stored_is_no_batch() {
    let left: Vec<AcceptedBatch> = (0..12).map(|_| without_payload(None)).collect();
    accept(&left).await;
    let gateway = Gateway::new().with_key(KEY_B);
    let path = format!("{BATCHES}/{}", left[0].metadata.batch_id);
    for path in [path.clone(), format!("{path}/errors")] {
        gateway.get(&path).await.expect_problem(404, "BATCH_NOT_FOUND");
    }
    for query in ["limit=3&status=RECEIVED", "limit=3", "limit=200"] {
        let pages = walk(query).await;
        let found: Vec<String> = pages.iter().flat_map(ids).collect();
        assert!(!left.iter().any(|batch| found.contains(&batch.metadata.batch_id.to_string())), "{query}");
    }
    let pages = walk("limit=3&status=RECEIVED").await;
    assert!(pages.iter().rev().skip(1).all(|page| page["next_cursor"].is_string()));
}

#[tokio::test]
async fn values_that_are_wrong_are_named() {
    let id = batch_id(&Load::new(Uuid::new_v4()).body(catalogue("x")).send().await.expect(202));
    for (path, parameter) in [
        (format!("{BATCHES}?limit=0"), "limit"),
        (format!("{BATCHES}?limit=201"), "limit"),
        (format!("{BATCHES}?limit=1&limit=2"), "limit"),
        (format!("{BATCHES}?limit=many"), "limit"),
        (format!("{BATCHES}?status=DONE"), "status"),
        (format!("{BATCHES}?load_type=half"), "load_type"),
        (format!("{BATCHES}?source_key={}", "x".repeat(1025)), "source_key"),
        (format!("{BATCHES}?source_key=%00"), "source_key"),
        (format!("{BATCHES}?cursor=abc"), "cursor"),
        (format!("{BATCHES}/17"), "batch_id"),
        (format!("{BATCHES}/17/errors"), "batch_id"),
        (format!("{BATCHES}/17/errors.ndjson"), "batch_id"),
        (format!("{BATCHES}/{id}/errors?limit=10001"), "limit"),
        (format!("{BATCHES}/{id}/errors?cursor=abc"), "cursor"),
    ] {
        let problem = Gateway::new().get(&path).await.expect_problem(400, "INVALID_PARAMETER").json();
        conforms("Problem", &problem);
        assert_eq!(
            (&problem["parameter"], &problem["code"]),
            (&parameter.into(), &"ERR400_INVALID_PARAMETER".into()),
            "{path}"
        );
    }
}

#[tokio::test]
async fn items_in_error_are_listed_in_pages_and_as_lines() {
    let key = Uuid::new_v4().to_string();
    let right = json!({"CNPJ": "11444777000161", "SHOPID": 1, "PRODUCTID": key});
    let wrong = json!({"CNPJ": "11222333000182", "SHOPID": 1, "PRODUCTID": key});
    let items = json!([wrong, right, 17, {"CNPJ": "11444777000161", "SHOPID": 1}, right]);
    let load = Load::new(Uuid::new_v4()).body(items.to_string());
    let id = batch_id(&load.send().await.expect(202));
    let batch = Ingest::new().finished(&id).await;
    conforms("ProductBatch", &batch);
    assert_eq!(
        (&batch["status"], &batch["items_parsed"], &batch["items_failed"]),
        (&json!("COMPLETED"), &json!(5), &json!(3))
    );

    let path = format!("{BATCHES}/{id}/errors");
    let all = Gateway::new().get(&path).await.expect(200).json();
    assert_eq!(all["next_cursor"], Value::Null);
    let all = all["errors"].as_array().unwrap().clone();
    all.iter().for_each(|error| conforms("ItemError", error));
    let codes: Vec<_> =
        all.iter().map(|error| (error["item_index"].clone(), error["code"].clone())).collect();
    let expected = [(0, "CNPJ_INVALID"), (2, "NOT_AN_OBJECT"), (3, "FIELD_REQUIRED")];
    assert_eq!(codes, expected.map(|(index, code)| (json!(index), json!(code))));

    let first = Gateway::new().get(&format!("{path}?limit=2")).await.expect(200).json();
    assert_eq!(first["errors"], json!(all[..2]));
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = Gateway::new().get(&format!("{path}?limit=2&cursor={cursor}")).await.expect(200).json();
    assert_eq!(second, json!({"errors": all[2..], "errors_omitted": 0, "next_cursor": null}));

    let headers = [("x-api-key", READONLY_KEY), ("accept", "application/x-ndjson")];
    let (mut lines, mut next) = (Vec::new(), format!("{path}?limit=2"));
    loop {
        let page = Gateway::new().send("GET", &next, &headers, "").await.expect(200);
        let text = String::from_utf8(page.bytes.clone()).unwrap();
        lines.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        let Some(link) = page.header("link") else { break };
        next = link.trim_start_matches('<').split_once('>').unwrap().0.to_owned();
    }
    assert_eq!(lines, all);
    let stranger = Gateway::new().with_key(KEY_B).get(&path).await;
    stranger.expect_problem(404, "BATCH_NOT_FOUND");
}

#[tokio::test]
async fn all_items_in_error_can_be_downloaded_with_their_text() {
    let key = Uuid::new_v4().to_string();
    let right = json!({"CNPJ": "11444777000161", "SHOPID": 1, "PRODUCTID": key}).to_string();
    let wrong = json!({"CNPJ": "11222333000182", "SHOPID": 1, "PRODUCTID": key}).to_string();
    let load = Load::new(Uuid::new_v4()).body(format!("[{wrong}, {right}, 17]"));
    let id = batch_id(&load.send().await.expect(202));
    let batch = Ingest::new().finished(&id).await;
    conforms("ProductBatch", &batch);
    let path = batch["errors_url"].as_str().unwrap();
    assert_eq!(path, format!("{BATCHES}/{id}/errors.ndjson"));
    let redirect = Gateway::new().with_key(READONLY_KEY).get(path).await.expect(303);
    assert_eq!(redirect.header("cache-control"), Some("no-store"));
    let body = redirect.json();
    conforms("ErrorsFile", &body);
    let location = redirect.header("location").unwrap();
    assert_eq!(body["url"], location);
    for part in ["X-Amz-Signature=", "X-Amz-Expires=300", "X-Amz-SignedHeaders=host&", ".errors.ndjson"] {
        assert!(location.contains(part), "{part} is not in {location}");
    }
    let file = reqwest::get(location).await.unwrap().error_for_status().unwrap();
    assert_eq!(file.headers()["content-type"], "application/x-ndjson");
    let text = unpacked(&file.bytes().await.unwrap());
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let listed = Gateway::new().get(&format!("{BATCHES}/{id}/errors")).await.expect(200).json();
    for (line, (listed, item)) in
        lines.iter().zip(listed["errors"].as_array().unwrap().iter().zip([wrong.as_str(), "17"]))
    {
        let mut expected = listed.clone();
        expected["item"] = json!(item);
        expected["item_truncated"] = json!(false);
        assert_eq!(line, &expected);
    }
    assert_eq!(lines.len(), 2);

    Gateway::new().with_key(KEY_B).get(path).await.expect_problem(404, "BATCH_NOT_FOUND");
    Gateway::new().with_key("nobody's").get(path).await.expect_problem(401, "API_KEY_INVALID");
    Gateway::new().send("POST", path, &[], "").await.expect_problem(405, "METHOD_NOT_ALLOWED");
    let none = batch_id(&Load::new(Uuid::new_v4()).body(format!("[{right}]")).send().await.expect(202));
    assert_eq!(Ingest::new().finished(&none).await["errors_url"], Value::Null);
    let none = Gateway::new().get(&format!("{BATCHES}/{none}/errors.ndjson")).await;
    none.expect_problem(404, "ERRORS_FILE_NOT_FOUND");
    // Gone with the payload.
    let functions = Functions::open().await;
    let gone = errors_key(id.parse().unwrap(), Generation::FIRST);
    functions.s3.delete_object().bucket(&functions.bucket).key(gone).send().await.unwrap();
    Gateway::new().get(path).await.expect_problem(404, "ERRORS_FILE_NOT_FOUND");
}

fn unpacked(bytes: &[u8]) -> String {
    std::io::read_to_string(GzDecoder::new(bytes).take(1_000_000)).unwrap()
}
