//! A contender: the crate `idempotency`, with its audit trail in the log as functions write it.

use std::time::Duration;

use ::idempotency::{
    ClaimRequest, Claimed, Fingerprint, IdempotencyKey, KeyForm, OperationType, Outcome, Reply, Store,
    WriteOutcome,
};
use nix::time::ClockId;
use runtime::Sdk;
use serde::Deserialize;
use serde_json::Value;

use super::ANSWER;
use super::task::{Block, Job, Task};
use crate::error::Error;
use crate::function::cpu;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    idempotency_key: String,
    body: Value,
}

/// Reads the task from the first line of its standard input and a block from every further one.
pub(crate) async fn serve() -> Result<(), Error> {
    runtime::init_log("info");
    let mut lines = std::io::stdin().lines();
    let Some(line) = lines.next() else { return Ok(()) };
    let task: Task = serde_json::from_str(&line?)?;
    let response = Reply {
        status: task.response.status_code,
        headers: task.response.headers.clone(),
        body: task.response.body.clone(),
    };
    let dynamodb = aws_sdk_dynamodb::Client::new(Sdk::from_environment().await.standard());
    let store = Store::new(dynamodb, task.table.clone());
    done(Duration::ZERO);
    for line in lines {
        let Block { job, keys } = serde_json::from_str(&line?)?;
        let requests: Vec<_> = keys.iter().map(|key| task.request(job, key)).collect();
        let before = cpu(ClockId::CLOCK_PROCESS_CPUTIME_ID)?;
        for request in &requests {
            let became = handle(&store, request, &response).await?;
            if became != job {
                return Err(Error::Unexpected(format!("a request was {became:?} and should be {job:?}")));
            }
        }
        done(cpu(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.saturating_sub(before));
    }
    Ok(())
}

/// Handles one request from its text on; the work is to have the response.
async fn handle(store: &Store, request: &str, response: &Reply) -> Result<Job, Error> {
    let Request { idempotency_key, body } = serde_json::from_str(request)?;
    let unexpected = |error: &dyn std::error::Error| Error::Unexpected(error.to_string());
    let key = IdempotencyKey::parse(&idempotency_key, KeyForm::Uuid).map_err(|error| unexpected(&error))?;
    let fingerprint = Fingerprint::of(&body).map_err(|error| unexpected(&error))?;
    let claim = ClaimRequest {
        operation: OperationType::named("PRODUCE"),
        tenant: "bench",
        key: &key,
        fingerprint: &fingerprint,
        rights: None,
        target: "QM1:ORDERS.IN",
        trace_id: "4bf92f3577b34da6a3ce929d0e0e4736",
        retention: Duration::from_secs(86_400),
    };
    match store.claim(&claim).await.map_err(|error| unexpected(&error))? {
        Claimed::Execute(execution) => {
            let outcome = Outcome::Completed(response.clone());
            match store.end(&execution, &outcome).await.map_err(|error| unexpected(&error))? {
                WriteOutcome::Applied => Ok(Job::New),
                WriteOutcome::Fenced => Err(Error::Unexpected("an execution was fenced".to_owned())),
            }
        }
        Claimed::Replay { response: replayed, .. } if replayed == *response => Ok(Job::Replay),
        Claimed::Conflict => Ok(Job::Conflict),
        other => Err(Error::Unexpected(format!("the claim's answer is {other:?}"))),
    }
}

#[expect(clippy::print_stdout, reason = "what the measuring side waits for")]
fn done(took: Duration) {
    println!("{ANSWER}{}", took.as_nanos());
}
