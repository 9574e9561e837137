//! Lambda function that starts, lists, shows, stops and removes load tests.

// For the layout of the nested futures of a start.
#![recursion_limit = "256"]

use std::process::ExitCode;

use lambda_http::Error;
use load_tests::LoadTests;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let tests = LoadTests::from_environment(env!("CARGO_PKG_NAME")).await?;
    let tests = &tests;
    endpoint::run(|request| tests.handle(request)).await
}
