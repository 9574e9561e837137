//! Administers the owners of establishments.

// For the layout of the nested futures of an answer.
#![recursion_limit = "256"]

use std::process::ExitCode;

use catalog::Database;
use establishments::Establishments;
use lambda_runtime::Error;
use runtime::Sdk;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let sdk = Sdk::from_environment().await;
    let establishments = Establishments::new(Database::from_environment(&sdk).await?);
    runtime::serve(async |event, _| establishments.handle(event).await).await
}
