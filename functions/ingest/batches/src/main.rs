//! Serves `GET /v1/inovafarma/batches`, one batch, its items in error, and its replay.

use std::process::ExitCode;

use batches::Batches;
use lambda_http::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let batches = Batches::from_environment(env!("CARGO_PKG_NAME")).await?;
    let batches = &batches;
    endpoint::run(|request| batches.handle(request)).await
}
