//! Publishes which requests of the gateway left messages in doubt.

use std::process::ExitCode;

use doubts::{Doubts, UnhandledQueue};
use events::Publisher;
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use runtime::{Environment, Sdk};
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let mut environment = Environment::of_process();
    let unhandled: String = environment.required("UNHANDLED_QUEUE_URL");
    let events = events::Settings::read(&mut environment);
    environment.check()?;
    let sdk = Sdk::from_environment().await;
    let sqs = aws_sdk_sqs::Client::new(sdk.standard());
    let unhandled = UnhandledQueue::new(sqs, unhandled);
    let doubts = Doubts { publisher: Publisher::of(&sdk, events), unhandled };
    let doubts = &doubts;
    run(service_fn(async |event: LambdaEvent<Value>| runtime::answered(doubts.handle(event.payload).await)))
        .await
}
