//! Publishes that payloads were received.

use std::process::ExitCode;
use std::time::Duration;

use batch_items::BatchItems;
use events::Publisher;
use lambda_runtime::Error;
use objects::Objects;
use receipts::Receipts;
use runtime::{Environment, Sdk};
use worker::Visibility;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let mut environment = Environment::of_process();
    let table: String = environment.required("BATCHES_TABLE");
    let bucket: String = environment.required("PAYLOAD_BUCKET");
    let own_queue_url: String = environment.required("RECEIPTS_QUEUE_URL");
    let base = Duration::from_secs(environment.optional("RETRY_BASE_SECONDS", 10));
    let events = events::Settings::read(&mut environment);
    environment.check()?;

    let sdk = Sdk::from_environment().await;
    let receipts = Receipts {
        objects: Objects::new(aws_sdk_s3::Client::new(&sdk.objects()), bucket),
        accepted: BatchItems::new(aws_sdk_dynamodb::Client::new(sdk.standard()), table),
        publisher: Publisher::of(&sdk, events),
        visibility: Visibility::new(aws_sdk_sqs::Client::new(sdk.standard()), own_queue_url, base),
    };
    runtime::serve(async |event, ends_at| worker::serve(&receipts, event, ends_at).await).await
}
