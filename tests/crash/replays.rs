//! Tests of `batches` that dies or loses its stores at each step of a batch's replay. The same
//! request, sent again, always ends as one new generation of the batch, and the batch becomes
//! final.

use aws_sdk_dynamodb::types::AttributeValue;
use end_to_end::{Answer, Ingest, KEY_A, Load, Products, Records, gzip};
use ingestion::generate::{Catalogue, Layout};
use serde_json::json;
use uuid::Uuid;

use crate::crash::batches::function;
use crate::crash::stand::faults::{Blow, Faults, Held, Op};
use crate::crash::stand::function::Function;
use crate::crash::stand::store::StoreProxy;
use crate::crash::stand::{answer, http_event};

/// Requests to the stores that one replay makes, in order. The database commits between the second
/// and the third.
const STEPS: [Op; 4] = [Op::Claim, Op::HeadObject, Op::Send, Op::Complete];

/// Process of `batches`, with the proxy between it and its stores, and with clients that look into
/// the stores.
struct Replays {
    faults: Faults,
    function: Function,
    records: Records,
    products: Products,
    /// Client of the stack's own ingest functions, on which no fault is inflicted.
    ingest: Ingest,
    _stores: StoreProxy,
}

impl Replays {
    async fn start() -> Self {
        let faults = Faults::default();
        let stores = StoreProxy::start(faults.clone()).await;
        let function = function(&stores, &[]);
        function.warm().await;
        Self {
            faults,
            function,
            records: Records::open().await,
            products: Products::open().await,
            ingest: Ingest::new(),
            _stores: stores,
        }
    }

    /// Loads a batch with one product until it is final, and returns its id.
    async fn batch(&self) -> String {
        let product =
            json!([{"CNPJ": "11444777000161", "SHOPID": 1, "PRODUCTID": Uuid::new_v4().to_string()}]);
        let batch = self.ingest.load(Load::delta(product.to_string().as_bytes())).await;
        batch["batch_id"].as_str().unwrap().to_owned()
    }

    async fn send(&self, batch_id: &str, key: Uuid) -> Answer {
        send(&self.function, batch_id, key).await
    }

    /// Sends a replay of a batch, and kills the function when the proxy holds the request `held`.
    /// Waits until no invocation is in progress.
    async fn die(&self, batch_id: &str, key: Uuid, mut held: Held) {
        let (function, batch_id) = (self.function.clone(), batch_id.to_owned());
        let sent = tokio::spawn(async move { send(&function, &batch_id, key).await });
        held.reached().await;
        self.function.kill();
        assert_eq!(sent.await.unwrap().status, 500);
        drop(held);
        self.faults.clear();
        self.function.settled().await;
    }

    /// Ends the lease of the key's record, if there is one, as if its time were over.
    async fn age(&self, key: Uuid) {
        if let Some(record) = self.records.find("REPLAY", key).await
            && record["status"].as_s().is_ok_and(|status| status == "IN_PROGRESS")
        {
            let over = AttributeValue::N("1".to_owned());
            self.records.set("REPLAY", key, &[("leaseExpiresAt", over)]).await;
        }
    }

    /// Sends the replay again, and checks that it is accepted, and that the batch gets one new
    /// generation and becomes final. `what` names the fault in failures.
    async fn ends_as_one_generation(&self, batch_id: &str, key: Uuid, what: &str) {
        self.age(key).await;
        let begun = self.send(batch_id, key).await;
        assert_eq!(begun.status, 202, "{what}: {}", String::from_utf8_lossy(&begun.bytes));
        let expected = json!({"batch_id": batch_id, "status": "PROCESSING", "generation": 2, "scope": "all", "chunks": 1});
        assert_eq!(begun.json(), expected, "{what}");
        let batch = self.ingest.finished(batch_id).await;
        assert_eq!((&batch["status"], &batch["generation"]), (&json!("COMPLETED"), &json!(2)), "{what}");
        let again = self.send(batch_id, key).await.expect(202);
        assert_eq!(again.bytes, begun.bytes, "{what}");
        assert_eq!(again.header("idempotent-replay"), Some("true"), "{what}");
        let id: Uuid = batch_id.parse().unwrap();
        let replays = self.products.rows("SELECT FROM batch_replays WHERE batch_id = $1", &[&id]).await;
        assert_eq!(replays.len(), 1, "{what}");
        assert_eq!(self.ingest.finished(batch_id).await, batch, "{what}");
    }
}

async fn send(function: &Function, batch_id: &str, key: Uuid) -> Answer {
    let path = format!("/v1/inovafarma/batches/{batch_id}/replay");
    let headers = json!({
        "content-type": "application/json",
        "idempotency-key": key.to_string(),
        "x-inova-api-key": KEY_A,
    });
    let event = http_event("POST", &path, headers, br#"{"scope":"all"}"#);
    answer(&event, &function.invoke(event.to_string().into()).await)
}

#[tokio::test]
async fn a_replay_survives_a_crash_at_every_step() {
    let replays = Replays::start().await;
    for step in STEPS {
        let (batch, key) = (replays.batch().await, Uuid::new_v4());
        replays.die(&batch, key, replays.faults.hold_request(step)).await;
        replays.ends_as_one_generation(&batch, key, &format!("before {step:?}")).await;
        let (batch, key) = (replays.batch().await, Uuid::new_v4());
        replays.die(&batch, key, replays.faults.hold_answer(step)).await;
        replays.ends_as_one_generation(&batch, key, &format!("after {step:?}")).await;
    }
}

#[tokio::test]
async fn a_request_makes_as_many_calls_to_storage_however_many_chunks_there_are() {
    let replays = Replays::start().await;
    for items in [1_500, 3_500, 7_500] {
        let catalogue = Catalogue { seed: fastrand::u64(..), items, ..Catalogue::default() };
        let payload = gzip(&catalogue.payload(Layout::Array), 1);
        let batch = replays.ingest.load(Load::delta(&payload).gzip()).await;
        let before = replays.faults.seen(Op::HeadObject);
        replays.send(batch["batch_id"].as_str().unwrap(), Uuid::new_v4()).await.expect(202);
        let calls = replays.faults.seen(Op::HeadObject) - before;
        assert_eq!(calls, 3, "{} chunks", batch["chunks"]["total"]);
    }
}

#[tokio::test]
async fn a_store_that_is_down_before_the_commit_is_503_and_a_retry_runs_at_once() {
    let replays = Replays::start().await;
    for step in [Op::Claim, Op::HeadObject] {
        let (batch, key) = (replays.batch().await, Uuid::new_v4());
        replays.faults.every(step, Blow::Status(500));
        replays.send(&batch, key).await.expect_problem(503, "STORE_UNAVAILABLE");
        assert_eq!(replays.ingest.get(&batch, "").await.expect(200).json()["generation"], 1);
        replays.faults.clear();
        replays.ends_as_one_generation(&batch, key, &format!("{step:?}")).await;
    }
}

#[tokio::test]
async fn a_replay_that_began_is_acknowledged_also_where_nobody_can_be_told_of_it() {
    let replays = Replays::start().await;
    let (batch, key) = (replays.batch().await, Uuid::new_v4());
    replays.faults.every(Op::Send, Blow::Status(500));
    replays.faults.every(Op::Complete, Blow::Status(500));
    let begun = replays.send(&batch, key).await.expect(202);
    replays.faults.clear();
    replays.send(&batch, key).await.expect_problem(409, "IDEMPOTENT_REQUEST_IN_PROGRESS");
    // Whoever takes over tells of it.
    replays.ends_as_one_generation(&batch, key, "not noted").await;
    assert_eq!(replays.send(&batch, key).await.expect(202).bytes, begun.bytes);
}
