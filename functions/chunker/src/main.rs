//! Cuts stored payloads into chunks.

use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init(&std::env::var("LOG_LEVEL").unwrap_or_default());
    run(service_fn(async |event: LambdaEvent<Value>| {
        let deliveries = chunker::deliveries(event.payload);
        Err::<Value, Error>(format!("{} deliveries cannot be handled yet", deliveries.len()).into())
    }))
    .await
}
