//! Serves health, status, limits, metrics, usage, the timelines of requests, the contract, the
//! console, and the API's default route.

use std::process::ExitCode;

use lambda_http::Error;
use status::Status;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let status = Status::from_environment().await?;
    let status = &status;
    front::run(|request| status.handle(request)).await
}
