//! Serves `POST /messages/move`.

use gateway::{Gateway, Records};
use lambda_http::{Error, run, service_fn};
use move_messages::MoveRequest;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init(&std::env::var("LOG_LEVEL").unwrap_or_default());
    let gateway = Gateway::from_environment(env!("CARGO_PKG_NAME"), Records::Kept).await?;
    let gateway = &gateway;
    run(service_fn(async |request| Ok::<_, Error>(gateway.handle::<MoveRequest>(request).await))).await
}
