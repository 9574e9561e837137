//! Serves the routes of product_ingest.

use lambda_http::{Error, run, service_fn};
use product_ingest::ProductIngest;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init(&std::env::var("LOG_LEVEL").unwrap_or_default());
    let function = ProductIngest::from_environment().await?;
    let function = &function;
    run(service_fn(async |request| Ok::<_, Error>(function.handle(request).await))).await
}
