//! Accepts objects that pipelines drop into S3 as batches.

use std::process::ExitCode;

use drop_intake::DropIntake;
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let intake = DropIntake::from_environment(env!("CARGO_PKG_NAME")).await?;
    let intake = &intake;
    run(service_fn(async |event: LambdaEvent<Value>| {
        let ends_at = event.context.deadline();
        runtime::answered(intake.handle(event.payload, ends_at).await)
    }))
    .await
}
