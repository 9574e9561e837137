//! Contender with the crate `idempotency`, which logs its audit trail as the functions do.

use std::time::Duration;

use ::idempotency::{
    ClaimRequest, Claimed, Fingerprint, IdempotencyKey, KeyForm, OperationType, Outcome, Reply, Store,
    WriteOutcome,
};
use runtime::Sdk;
use serde::Deserialize;
use serde_json::Value;

use super::task::{Block, Job, Task};
use crate::contender::serve;
use crate::cpu::Stopwatch;
use crate::error::Error;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    idempotency_key: String,
    body: Value,
}

/// Runs the project's contender, which handles blocks of requests with the crate `idempotency`.
pub(crate) async fn contend(task: &str) -> Result<(), Error> {
    runtime::init_log("info");
    let task: Task = serde_json::from_str(task)?;
    let dynamodb = aws_sdk_dynamodb::Client::new(Sdk::from_environment().await.standard());
    let store = Store::new(dynamodb, task.table.clone());
    serve(async |line: &str| {
        let Block { job, keys } = serde_json::from_str(line)?;
        let requests: Vec<_> = keys.iter().map(|key| task.request(job, key)).collect();
        let stopwatch = Stopwatch::start()?;
        for request in &requests {
            let became = handle(&store, request, &task.response).await?;
            if became != job {
                return Err(format!("a request was {became:?} and should be {job:?}").into());
            }
        }
        stopwatch.stop()
    })
    .await
}

/// Handles one request, starting with its JSON text. The work that idempotency protects is only to
/// return `response`.
async fn handle(store: &Store, request: &str, response: &Reply) -> Result<Job, Error> {
    let Request { idempotency_key, body } = serde_json::from_str(request)?;
    let key = IdempotencyKey::parse(&idempotency_key, KeyForm::Uuid)?;
    let fingerprint = Fingerprint::of(&body)?;
    let claim = ClaimRequest {
        operation: OperationType::named("PRODUCE"),
        tenant: "bench",
        key: &key,
        fingerprint: &fingerprint,
        rights: None,
        target: "QM1:ORDERS.IN",
        key_name: "till 1",
        trace_id: "4bf92f3577b34da6a3ce929d0e0e4736",
        retention: Duration::from_secs(86_400),
    };
    match store.claim(&claim).await? {
        Claimed::Execute(execution) => {
            let outcome = Outcome::Completed(response.clone());
            match store.end(&execution, &outcome).await? {
                WriteOutcome::Applied => Ok(Job::New),
                WriteOutcome::Fenced => Err("an execution was fenced".into()),
            }
        }
        Claimed::Replay { response: replayed, .. } if replayed == *response => Ok(Job::Replay),
        Claimed::Conflict => Ok(Job::Conflict),
        other => Err(format!("the claim's answer is {other:?}").into()),
    }
}
