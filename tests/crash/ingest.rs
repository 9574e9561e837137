//! Tests of `product-ingest` that dies or loses its stores at each step of accepting a catalogue.
//! The same request, sent again, always ends as one batch: one id, one batch item, one S3 object.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use end_to_end::{Answer, KEY_A, Payloads, Records, TENANT_A, gzip, variable};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::crash::stand::faults::{Blow, Faults, Held, Op};
use crate::crash::stand::function::Function;
use crate::crash::stand::store::StoreProxy;
use crate::crash::stand::{answer, deployed, http_event, store_variables};

const PATH: &str = "/v1/inovafarma/products";

/// Requests to the stores that one accepted catalogue makes, in order.
const STEPS: [Op; 4] = [Op::Claim, Op::PutBatch, Op::PutObject, Op::Complete];

/// Process of `product-ingest`, with the proxy between it and its stores, and with clients that
/// look into the stores.
struct Ingest {
    faults: Faults,
    function: Function,
    records: Records,
    payloads: Payloads,
    items: aws_sdk_dynamodb::Client,
    _stores: StoreProxy,
}

impl Ingest {
    async fn start() -> Self {
        let faults = Faults::default();
        let stores = StoreProxy::start(faults.clone()).await;
        let deployed = deployed("ProductIngestFunction", &[]);
        let function = Function::new(deployed, &store_variables(&stores));
        function.warm().await;
        let sdk = runtime::Sdk::from_environment().await.single_attempt(Duration::from_secs(20));
        Self {
            faults,
            function,
            records: Records::open().await,
            payloads: Payloads::open().await,
            items: aws_sdk_dynamodb::Client::new(&sdk),
            _stores: stores,
        }
    }

    async fn send(&self, key: Uuid, level: u32) -> Answer {
        let event = event(key, level);
        answer(&event, &self.function.invoke(event.to_string().into()).await)
    }

    /// Sends a catalogue, and kills the function when the proxy holds the request `held`. Waits
    /// until no invocation is in progress.
    async fn die(&self, key: Uuid, mut held: Held) {
        let function = self.function.clone();
        let event = event(key, 6);
        let payload = event.to_string();
        let sent = tokio::spawn(async move { function.invoke(payload.into()).await });
        held.reached().await;
        self.function.kill();
        assert_eq!(answer(&event, &sent.await.unwrap()).status, 500);
        drop(held);
        self.faults.clear();
        self.function.settled().await;
    }

    /// Ends the lease of the key's record, if there is one, as if its time were over.
    async fn age(&self, key: Uuid) {
        if let Some(record) = self.records.find("INGEST", key).await
            && record["status"].as_s().is_ok_and(|status| status == "IN_PROGRESS")
        {
            let over = AttributeValue::N("1".to_owned());
            self.records.set("INGEST", key, &[("leaseExpiresAt", over)]).await;
        }
    }

    /// Returns the ids of all batch items that requests with this key have made.
    async fn batches(&self, key: Uuid) -> Vec<String> {
        let query = self
            .items
            .query()
            .table_name(variable("BATCHES_TABLE"))
            .key_condition_expression("tenantId = :tenant")
            .filter_expression("idempotencyKey = :key")
            .expression_attribute_values(":tenant", AttributeValue::S(TENANT_A.to_owned()))
            .expression_attribute_values(":key", AttributeValue::S(key.to_string()));
        let pages = query.into_paginator().items().send().try_collect().await.unwrap();
        pages
            .iter()
            .map(|item: &HashMap<_, AttributeValue>| item["batchId"].as_s().unwrap().clone())
            .collect()
    }

    /// Sends the catalogue again, and checks that it is accepted and replayed, and that its key has
    /// one batch item and one object. `what` names the fault in failures.
    async fn ends_as_one_batch(&self, key: Uuid, what: &str) {
        self.age(key).await;
        let taken = self.send(key, 1).await;
        assert_eq!(taken.status, 202, "{what}: {}", String::from_utf8_lossy(&taken.bytes));
        let again = self.send(key, 9).await.expect(202);
        assert_eq!(again.bytes, taken.bytes, "{what}");
        assert_eq!(again.header("idempotent-replay"), Some("true"), "{what}");
        let id = taken.json()["batch_id"].as_str().unwrap().to_owned();
        assert_eq!(self.batches(key).await, std::slice::from_ref(&id), "{what}");
        assert_eq!(self.payloads.keys(&id).await.len(), 1, "{what}");
    }
}

/// Builds the request of a catalogue that only this key has, compressed at this gzip level.
fn event(key: Uuid, level: u32) -> Value {
    let product = json!([{"CNPJ": "11444777000161", "SHOPID": 1, "PRODUCTID": key.to_string()}]);
    let headers = json!({
        "content-type": "application/json",
        "content-encoding": "gzip",
        "idempotency-key": key.to_string(),
        "x-inova-api-key": KEY_A,
        "x-inova-load-type": "delta",
    });
    http_event("POST", PATH, headers, &gzip(product.to_string().as_bytes(), level))
}

#[tokio::test]
async fn a_catalogue_survives_a_crash_at_every_step() {
    let ingest = Ingest::start().await;
    for step in STEPS {
        let before = Uuid::new_v4();
        ingest.die(before, ingest.faults.hold_request(step)).await;
        ingest.ends_as_one_batch(before, &format!("before {step:?}")).await;
        let after = Uuid::new_v4();
        ingest.die(after, ingest.faults.hold_answer(step)).await;
        ingest.ends_as_one_batch(after, &format!("after {step:?}")).await;
    }
}

#[tokio::test]
async fn a_store_that_is_down_is_503_and_a_retry_runs_at_once() {
    let ingest = Ingest::start().await;
    for step in [Op::PutBatch, Op::PutObject] {
        for blow in [Blow::Status(500), Blow::DropRequest, Blow::SwallowAnswer] {
            let key = Uuid::new_v4();
            ingest.faults.every(step, blow);
            let refused = ingest.send(key, 6).await.expect_problem(503, "STORE_UNAVAILABLE");
            assert!(refused.header("retry-after").is_some());
            let record = ingest.records.find("INGEST", key).await.unwrap();
            assert_eq!(record["status"].as_s().unwrap(), "FAILED", "{step:?} {blow:?}");
            assert!(!record.contains_key("target"), "the index by target is for queues");
            ingest.faults.clear();
            ingest.ends_as_one_batch(key, &format!("{step:?} {blow:?}")).await;
        }
    }
    let key = Uuid::new_v4();
    ingest.faults.every(Op::Claim, Blow::Status(500));
    ingest.send(key, 6).await.expect_problem(503, "STORE_UNAVAILABLE");
    assert!(ingest.batches(key).await.is_empty());
    ingest.faults.clear();
    ingest.ends_as_one_batch(key, "the claim").await;
}

#[tokio::test]
async fn an_answer_that_is_lost_is_asked_for_again() {
    let ingest = Ingest::start().await;
    for step in STEPS {
        let key = Uuid::new_v4();
        ingest.faults.next(step, Blow::DropAnswer);
        ingest.send(key, 6).await.expect(202);
        ingest.faults.clear();
        ingest.ends_as_one_batch(key, &format!("{step:?}")).await;
    }
}

#[tokio::test]
async fn a_batch_that_is_stored_is_acknowledged_also_where_nobody_can_note_it() {
    let ingest = Ingest::start().await;
    let key = Uuid::new_v4();
    ingest.faults.every(Op::Complete, Blow::Status(500));
    let stored = ingest.send(key, 6).await.expect(202);
    ingest.faults.clear();
    ingest.send(key, 6).await.expect_problem(409, "IDEMPOTENT_REQUEST_IN_PROGRESS");
    ingest.ends_as_one_batch(key, "not noted").await;
    assert_eq!(ingest.send(key, 6).await.expect(202).bytes, stored.bytes);
}
