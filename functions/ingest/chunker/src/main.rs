//! Cuts stored payloads into chunks.

use std::process::ExitCode;
use std::time::Duration;

use batch_items::BatchItems;
use catalog::{Database, OutboxMode};
use chunker::{Chunker, Settings};
use events::Publisher;
use lambda_runtime::Error;
use objects::Objects;
use runtime::{Environment, Sdk};
use transport::{ChunkAnnouncer, ChunkTransport};
use worker::Visibility;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let mut environment = Environment::of_process();
    let table: String = environment.required("BATCHES_TABLE");
    let bucket: String = environment.required("PAYLOAD_BUCKET");
    let transport = ChunkTransport::read(&mut environment);
    let own_queue_url: String = environment.required("BATCHES_QUEUE_URL");
    let base = Duration::from_secs(environment.optional("RETRY_BASE_SECONDS", 10));
    let settings = Settings::read(&mut environment);
    let guard = catalog::deactivation_guard(&mut environment);
    let events = events::Settings::read(&mut environment);
    environment.check()?;

    let sdk = Sdk::from_environment().await;
    let publisher = Publisher::of(&sdk, events);
    let sqs = aws_sdk_sqs::Client::new(sdk.standard());
    let database = Database::from_environment(&sdk).await?.with_outbox(OutboxMode::needed_by(&publisher));
    let chunker = Chunker {
        objects: Objects::new(aws_sdk_s3::Client::new(&sdk.objects()), bucket),
        accepted: BatchItems::new(aws_sdk_dynamodb::Client::new(sdk.standard()), table),
        database: database.with_guard(guard),
        publisher,
        announcer: ChunkAnnouncer::new(transport, &sdk, sqs.clone()),
        visibility: Visibility::new(sqs, own_queue_url, base),
        settings,
    };
    runtime::serve(async |event, ends_at| chunker.handle(event, ends_at).await).await
}
