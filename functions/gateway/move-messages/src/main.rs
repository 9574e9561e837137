//! Serves `POST /messages/move`.

use std::process::ExitCode;

use front::{Gateway, Records};
use lambda_http::Error;
use move_messages::MoveRequest;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let gateway = Gateway::from_environment(env!("CARGO_PKG_NAME"), Records::Kept).await?;
    let gateway = &gateway;
    front::run(|request| gateway.handle::<MoveRequest>(request)).await
}
