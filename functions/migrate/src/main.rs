//! Applies the database's migrations.

use aws::Sdk;
use catalog::Database;
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use migrate::Migrate;
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init(&std::env::var("LOG_LEVEL").unwrap_or_default());
    let sdk = Sdk::from_environment().await;
    let sdk = &sdk;
    let migrate = Migrate::new(async || Database::from_environment(sdk).await);
    let migrate = &migrate;
    run(service_fn(async |event: LambdaEvent<Value>| {
        Ok::<_, Error>(migrate.handle(event.payload, event.context.deadline()).await?)
    }))
    .await
}
