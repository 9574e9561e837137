//! Accepts objects that pipelines drop into S3 as batches.

use std::process::ExitCode;

use drop_intake::DropIntake;
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let intake = DropIntake::from_environment(env!("CARGO_PKG_NAME")).await?;
    runtime::serve(async |event, ends_at| worker::serve(&intake, event, ends_at).await).await
}
