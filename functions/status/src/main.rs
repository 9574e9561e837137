//! Serves health, status, the contract, and the default route.

use std::process::ExitCode;

use lambda_http::{Error, run, service_fn};
use status::Status;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let status = Status::from_environment().await?;
    let status = &status;
    run(service_fn(async |request| Ok::<_, Error>(status.handle(request).await))).await
}
