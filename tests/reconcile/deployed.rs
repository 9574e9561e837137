//! Test of the deployed function `reconcile` with its usual settings, with which it leaves the
//! batches of other tests alone.

use std::time::{Duration, Instant};

use aws_sdk_lambda::Client;
use aws_sdk_lambda::primitives::Blob;
use end_to_end::variable;
use serde_json::Value;

/// Maximum time for which the function may fail because another test makes a store unavailable.
const PATIENCE: Duration = Duration::from_secs(60);

async fn invoke(lambda: &Client, sample: &str) -> Result<Value, Value> {
    let path = format!("{}/../events/ingest/reconcile/{sample}.json", env!("CARGO_MANIFEST_DIR"));
    let payload = Blob::new(std::fs::read(path).unwrap());
    let function = variable("RECONCILE_FUNCTION");
    let answer = lambda.invoke().function_name(function).payload(payload).send().await.unwrap();
    let said = serde_json::from_slice(answer.payload.unwrap().as_ref()).unwrap();
    if answer.function_error.is_some() { Err(said) } else { Ok(said) }
}

#[tokio::test]
async fn the_deployed_function_looks_when_the_schedule_says_so() {
    let sdk = runtime::Sdk::from_environment().await.single_attempt(Duration::from_secs(120));
    let lambda = Client::new(&sdk);
    for sample in ["scheduled", "by-hand"] {
        let begin = Instant::now();
        let report = loop {
            match invoke(&lambda, sample).await {
                Ok(report) => break report,
                Err(error) => assert!(begin.elapsed() < PATIENCE, "{error}"),
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        for count in [
            "/objects/found",
            "/batches/restarted",
            "/batches/stuck",
            "/uploads/expired",
            "/history/behind_minutes",
            "/events/behind_minutes",
        ] {
            assert!(report.pointer(count).unwrap().is_u64(), "{count} of {report}");
        }
    }
    let refused = invoke(&lambda, "another-source").await.unwrap_err();
    let message = "the event is not known: the event is neither the schedule's nor empty";
    assert_eq!(refused["errorMessage"], message);
}
