//! Serves the routes of batches.

use batches::Batches;
use lambda_http::{Error, run, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init(&std::env::var("LOG_LEVEL").unwrap_or_default());
    let function = Batches::from_environment().await?;
    let function = &function;
    run(service_fn(async |request| Ok::<_, Error>(function.handle(request).await))).await
}
