//! Contender that is a load test of the running stack, started through its API.

use std::time::Duration;

use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Measured, QUEUE, Task};
use crate::clients::bare_lapin::{ACK_EVERY, IN_FLIGHT};
use crate::clients::broker::{BODY, PREFETCH};
use crate::error::Error;
use crate::http_client::{Call, Http};

const TESTS: &str = "/tests";
/// Maximum time from the request for a load test to the test's start.
const AHEAD: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_secs(2);

/// Runs a load test of the stack to its end, and returns its measured values.
pub(super) async fn load(http: &Http, api_key: &str, task: &Task) -> Result<Measured, Error> {
    let post = Call::post(TESTS, api_key, body(task).to_string()).with_new_key();
    let accepted = http.insist(&post, 202, drop).await?.json();
    let test_id = accepted.get("testId").and_then(Value::as_str).ok_or("a test has no id")?;
    let get = Call::get(format!("{TESTS}/{test_id}"), api_key);
    // Each look at a running test adds up what it counted, on the same cores.
    sleep(AHEAD + Duration::from_secs(task.seconds.into())).await;
    loop {
        let test = http.insist(&get, 200, drop).await?.json();
        match test.get("status").and_then(Value::as_str) {
            Some("PENDING" | "RUNNING") => sleep(PAUSE).await,
            Some("COMPLETED") => return measured(&test),
            _ => return Err(format!("a test ended as {test}").into()),
        }
    }
}

fn body(task: &Task) -> Value {
    json!({
        "targetRef": "local-rabbit",
        "target": {"queue": QUEUE},
        "producers": {
            "ratePerSec": task.rate_per_sec,
            "messageSizeBytes": BODY.len(),
            "mqProps": {"persistence": "persistent"},
            "confirmsInFlight": IN_FLIGHT,
        },
        "consumers": {"prefetch": PREFETCH, "ackEvery": ACK_EVERY},
        "durationSeconds": task.seconds,
        "warmUpSeconds": task.warm_up_seconds,
    })
}

fn measured(test: &Value) -> Result<Measured, Error> {
    let report = test.get("report").ok_or("a test that is final has no report")?;
    Measured::deserialize(report).map_err(|error| format!("{error} in the report {report}").into())
}
