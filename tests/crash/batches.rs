//! What can be said of batches while a store is away.

use std::time::{Duration, Instant};

use end_to_end::{Answer, KEY_A, variable};
use serde_json::json;
use test_support::template::Deployed;
use uuid::Uuid;

use crate::crash::stand::faults::{Blow, Faults, Op};
use crate::crash::stand::function::Function;
use crate::crash::stand::store::StoreProxy;
use crate::crash::stand::store_variables;
use crate::crash::stand::{answer, of_invocation};

const PATH: &str = "/v1/inovafarma/batches";
const READY: &str = "/health/ready";

/// The function, with its database at a port of this machine.
pub(crate) fn function(stores: &StoreProxy, database: &[(&str, &str)]) -> Function {
    let of_the_stack = [
        "ACCESS_TABLE",
        "BATCHES_TABLE",
        "IDEMPOTENCY_TABLE",
        "PAYLOAD_BUCKET",
        "BATCHES_QUEUE_URL",
        "CHUNKS_QUEUE_URL",
    ];
    let variables = of_the_stack.map(|name| (name.to_owned(), variable(name))).into_iter();
    let constants = [
        ("DATABASE_SECRET_ARN", "local/database"),
        ("DATABASE_TLS", "off"),
        ("IDEMPOTENCY_EXPIRY_DEFAULT_SECONDS", "86400"),
        ("IDEMPOTENCY_EXPIRY_MIN_SECONDS", "1"),
        ("IDEMPOTENCY_EXPIRY_MAX_SECONDS", "86400"),
    ];
    let constants = constants.iter().chain(database);
    let variables = variables.chain(constants.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let deployed = Deployed {
        binary: "batches".to_owned(),
        timeout: Duration::from_secs(29),
        memory_mb: 256,
        variables: variables.collect(),
    };
    Function::new("batches", deployed, &store_variables(stores))
}

async fn get(function: &Function, path: &str) -> Answer {
    let event = json!({
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"host": "127.0.0.1", "x-api-key": KEY_A, "x-forwarded-proto": "http"},
        "requestContext": {
            "accountId": "000000000000",
            "apiId": "local",
            "domainName": "127.0.0.1",
            "domainPrefix": "local",
            "http": {"method": "GET", "path": path, "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1", "userAgent": "crash"},
            "requestId": Uuid::new_v4().to_string(),
            "routeKey": "$default",
            "stage": "$default",
            "time": "01/Jan/2026:00:00:00 +0000",
            "timeEpoch": 1_767_225_600_000_u64,
        },
        "isBase64Encoded": false,
    });
    let invoked = function.invoke(event.to_string().into()).await;
    // `status` asks for readiness at this path, and its own answer is the one that clients get.
    if path == READY { of_invocation(&invoked) } else { answer(&event, &invoked) }
}

fn paths() -> [String; 3] {
    let batch = format!("{PATH}/{}", Uuid::now_v7());
    [PATH.to_owned(), batch.clone(), format!("{batch}/errors")]
}

#[tokio::test]
async fn without_its_database_nothing_is_said_of_a_batch() {
    let stores = StoreProxy::start(Faults::default()).await;
    let function = function(&stores, &[("DATABASE_HOST", "127.0.0.1"), ("DATABASE_PORT", "1")]);
    for path in paths() {
        let started = Instant::now();
        let refused = get(&function, &path).await.expect_problem(503, "STORE_UNAVAILABLE");
        assert!(refused.header("retry-after").is_some(), "{path}");
        assert!(started.elapsed() < Duration::from_secs(10), "{path}");
    }
}

#[tokio::test]
async fn each_store_that_is_away_is_named() {
    let faults = Faults::default();
    let stores = StoreProxy::start(faults.clone()).await;
    let away = async |function: &Function| {
        let ready = get(function, READY).await.expect(200).json();
        let stores = ready["dependencies"].as_array().unwrap().clone();
        assert_eq!(stores.len(), 5, "{ready}");
        let away = stores.iter().filter(|store| store["ok"] == false);
        away.map(|store| store["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(away(&function(&stores, &[])).await, [""; 0]);
    let without = [("DATABASE_HOST", "127.0.0.1"), ("DATABASE_PORT", "1")];
    assert_eq!(away(&function(&stores, &without)).await, ["database"]);
    let without = [("PAYLOAD_BUCKET", "no-such-bucket"), ("BATCHES_TABLE", "no-such-table")];
    assert_eq!(away(&function(&stores, &without)).await, ["payloadBucket", "batchesTable"]);
    let nowhere = format!("{}-not", variable("CHUNKS_QUEUE_URL"));
    let without = [("BATCHES_QUEUE_URL", nowhere.as_str()), ("CHUNKS_QUEUE_URL", nowhere.as_str())];
    assert_eq!(away(&function(&stores, &without)).await, ["batchesQueue", "chunksQueue"]);
}

#[tokio::test]
async fn without_the_batch_items_a_batch_that_is_not_known_may_still_be_one() {
    let faults = Faults::default();
    let stores = StoreProxy::start(faults.clone()).await;
    let function = function(&stores, &[]);
    for path in paths() {
        // The API key is remembered after this.
        let status = get(&function, &path).await.status;
        assert_eq!(status, if path == PATH { 200 } else { 404 }, "{path}");
    }
    faults.every(Op::Access, Blow::Status(500));
    for path in paths() {
        get(&function, &path).await.expect_problem(503, "STORE_UNAVAILABLE");
    }
}
