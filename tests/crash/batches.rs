//! Tests of the function `batches` while a store or Kafka is unavailable.

use std::time::{Duration, Instant};

use end_to_end::{Answer, KEY_A, variable};
use krafka::Kafka;
use serde_json::{Value, json};
use test_support::kafka::Broker;
use test_support::template::Deployed;
use uuid::Uuid;

use crate::crash::stand::faults::{Blow, Faults, Op};
use crate::crash::stand::function::Function;
use crate::crash::stand::store::StoreProxy;
use crate::crash::stand::{answer, http_event, of_invocation, store_variables};

const PATH: &str = "/v1/inovafarma/batches";
const READY: &str = "/health/ready";
const METRICS: &str = "/metrics";
const TOPIC: &str = "chunks.ready";
/// Maximum time until every store responds fast enough, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes the function `batches` with its stores behind `stores`. Its environment variables are the
/// stack's and those in `database`, such as the database's address.
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
    Function::new(deployed, &store_variables(stores))
}

async fn get(function: &Function, path: &str) -> Answer {
    let headers = json!({"x-api-key": KEY_A, "x-forwarded-proto": "http"});
    let mut event = http_event("GET", path, headers, b"");
    let is_question = [READY, METRICS].contains(&path);
    if is_question {
        // `status` asks at these paths, through no API, and its own answer is what clients get.
        event["requestContext"]["apiId"] = json!("");
    }
    let invoked = function.invoke(event.to_string().into()).await;
    if is_question { of_invocation(&invoked) } else { answer(&event, &invoked) }
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
    let stores = StoreProxy::start(Faults::default()).await;
    until_away(&function(&stores, &[]), &[]).await;
    let without = [("DATABASE_HOST", "127.0.0.1"), ("DATABASE_PORT", "1")];
    until_away(&function(&stores, &without), &["database"]).await;
    let without = [("PAYLOAD_BUCKET", "no-such-bucket"), ("BATCHES_TABLE", "no-such-table")];
    until_away(&function(&stores, &without), &["payloadBucket", "batchesTable"]).await;
    let nowhere = format!("{}-not", variable("CHUNKS_QUEUE_URL"));
    let without = [("BATCHES_QUEUE_URL", nowhere.as_str()), ("CHUNKS_QUEUE_URL", nowhere.as_str())];
    until_away(&function(&stores, &without), &["batchesQueue", "chunksQueue"]).await;
    let without = [("KAFKA_CA_SECRET_ARN", "no-such-secret")];
    until_away(&function(&stores, &without), &["secrets"]).await;
}

/// Requests readiness until exactly the stores in `expected` are reported as unavailable. On a busy
/// machine an available one may respond too late at first.
async fn until_away(function: &Function, expected: &[&str]) {
    let started = Instant::now();
    loop {
        let ready = get(function, READY).await.expect(200).json();
        let stores = ready["dependencies"].as_array().unwrap();
        assert_eq!(stores.len(), 6, "{ready}");
        let away = stores.iter().filter(|store| store["ok"] == false);
        if away.map(|store| store["name"].as_str().unwrap()).collect::<Vec<_>>() == expected {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "{ready}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Returns whether readiness reports Kafka as available, and the metrics about Kafka as text.
async fn kafka(function: &Function) -> (bool, Vec<String>) {
    let ready = get(function, READY).await.expect(200).json();
    let dependencies = ready["dependencies"].as_array().unwrap();
    let kafka = dependencies.iter().find(|dependency| dependency["name"] == "kafka").unwrap();
    let answer = get(function, METRICS).await;
    // The database may take too long on a busy machine.
    let samples = if answer.status == 200 { answer.json() } else { json!([]) };
    let labels = |sample: &Value| (sample["labels"][0][0].clone(), sample["labels"][0][1].clone());
    let of_kafka = samples.as_array().unwrap().iter().filter(|sample| {
        let (name, value) = labels(sample);
        name == "partition" || value == "kafka"
    });
    let mut told: Vec<_> = of_kafka
        .map(|sample| format!("{} {}", sample["metric"].as_str().unwrap(), sample["value"].as_str().unwrap()))
        .collect();
    told.sort();
    (kafka["ok"] == true, told)
}

/// Requests readiness and metrics until Kafka is available and the metrics about it are `expected`.
async fn until_told(function: &Function, expected: &[&str]) {
    let started = Instant::now();
    loop {
        let (is_ready, told) = kafka(function).await;
        if is_ready && told == expected {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "{is_ready} {told:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn the_lag_of_kafka_is_told_and_a_cluster_that_is_away_is_named() {
    let stores = StoreProxy::start(Faults::default()).await;
    let broker = Broker::start();
    broker.create_topic(TOPIC, 2);
    let client = Kafka::builder(broker.bootstrap_servers()).connect().await.unwrap();
    let producer = client.producer().build().await.unwrap();
    for value in ["one", "two", "three"] {
        let record = krafka::Record::new(TOPIC, value.as_bytes().to_vec()).key("05927228000145".to_owned());
        let _place = producer.send(record).await.unwrap();
    }
    let over_kafka = [
        ("CHUNK_TRANSPORT", "kafka"),
        ("KAFKA_AUTHENTICATION", "none"),
        ("KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers()),
        ("KAFKA_GROUP", "integrahub-upsert"),
    ];
    let function = function(&stores, &over_kafka);
    // No reader has committed anything, and one key has one partition.
    let told = ["integrahub_kafka_lag_records 0", "integrahub_kafka_lag_records 3", "integrahub_up 1"];
    until_told(&function, &told).await;
    broker.pause();
    let (is_ready, told_of_one_away) = kafka(&function).await;
    assert!(!is_ready && !told_of_one_away.iter().any(|line| line.contains("lag")), "{told_of_one_away:?}");
    broker.resume();
    until_told(&function, &told).await;
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
