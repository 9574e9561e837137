//! Writes chunks to the database.

use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init(&std::env::var("LOG_LEVEL").unwrap_or_default());
    run(service_fn(async |_: LambdaEvent<Value>| Err::<Value, Error>("chunks cannot be written yet".into())))
        .await
}
