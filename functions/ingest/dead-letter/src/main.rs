//! Function `dead-letter`: records failed work, the chunks and batches whose messages failed too
//! often.

use std::process::ExitCode;
use std::time::Duration;

use batch_items::BatchItems;
use catalog::{Database, OutboxMode};
use dead_letter::{DeadLetter, UnhandledQueue};
use events::Publisher;
use lambda_runtime::Error;
use objects::Objects;
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
    let payloads: String = environment.required("BATCHES_FAILED_QUEUE_URL");
    let chunks: String = environment.required("CHUNKS_FAILED_QUEUE_URL");
    let unhandled: String = environment.required("UNHANDLED_QUEUE_URL");
    let base = Duration::from_secs(environment.optional("RETRY_BASE_SECONDS", 10));
    // The template's maxReceiveCount of the queues before its own.
    let earlier_receives = environment.optional("MAX_RECEIVES", 5);
    let events = events::Settings::read(&mut environment);
    environment.check()?;

    let sdk = Sdk::from_environment().await;
    let publisher = Publisher::of(&sdk, events);
    let sqs = aws_sdk_sqs::Client::new(sdk.standard());
    let source = |queue_url| Visibility::new(sqs.clone(), queue_url, base).after_receives(earlier_receives);
    let dead_letter = DeadLetter {
        objects: Objects::new(aws_sdk_s3::Client::new(&sdk.objects()), bucket),
        accepted: BatchItems::new(aws_sdk_dynamodb::Client::new(sdk.standard()), table),
        database: Database::from_environment(&sdk).await?.with_outbox(OutboxMode::needed_by(&publisher)),
        publisher,
        payloads: source(payloads),
        chunks: source(chunks),
        unhandled: UnhandledQueue::new(sqs.clone(), unhandled),
    };
    runtime::serve(async |event, ends_at| worker::serve(&dead_letter, event, ends_at).await).await
}
