//! Serves health, status, the contract, and the default route.

use lambda_http::{Error, run, service_fn};
use status::Status;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init(&std::env::var("LOG_LEVEL").unwrap_or_default());
    let status = Status::from_environment().await?;
    let status = &status;
    run(service_fn(async |request| Ok::<_, Error>(status.handle(request).await))).await
}
