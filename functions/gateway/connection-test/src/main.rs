//! Serves `POST /connections/test`.

use std::process::ExitCode;

use connection_test::ConnectionTestRequest;
use front::{Gateway, Records};
use lambda_http::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let gateway = Gateway::from_environment(env!("CARGO_PKG_NAME"), Records::None).await?;
    let gateway = &gateway;
    front::run(|request| gateway.handle::<ConnectionTestRequest>(request)).await
}
