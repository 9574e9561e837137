//! Serves `POST /messages/produce` and `POST /messages/bodies`.

use std::process::ExitCode;

use front::{Gateway, Records};
use lambda_http::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let gateway = Gateway::from_environment(env!("CARGO_PKG_NAME"), Records::Kept).await?;
    let gateway = &gateway;
    front::run(|request| produce::handle(gateway, request)).await
}
