//! Writes chunks to the database.

use std::process::ExitCode;
use std::time::Duration;

use catalog::{Database, OutboxMode, OwnerRule};
use events::Publisher;
use lambda_runtime::Error;
use objects::Objects;
use runtime::{Environment, Sdk};
use transport::ChunkQueue;
use upsert::Upsert;
use worker::Visibility;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let mut environment = Environment::of_process();
    let bucket: String = environment.required("PAYLOAD_BUCKET");
    let queue_url: String = environment.required("CHUNKS_QUEUE_URL");
    let base = Duration::from_secs(environment.optional("RETRY_BASE_SECONDS", 10));
    let guard = catalog::deactivation_guard(&mut environment);
    let owner_rule: OwnerRule = environment.required("ESTABLISHMENT_OWNERS");
    let listed_errors = environment.optional("LISTED_ITEM_ERRORS", catalog::LISTED_ITEM_ERRORS);
    let events = events::Settings::read(&mut environment);
    environment.check()?;

    let sdk = Sdk::from_environment().await;
    let publisher = Publisher::of(&sdk, events);
    let sqs = aws_sdk_sqs::Client::new(sdk.standard());
    let database = Database::from_environment(&sdk).await?.with_outbox(OutboxMode::needed_by(&publisher));
    let upsert = Upsert {
        objects: Objects::new(aws_sdk_s3::Client::new(&sdk.objects()), bucket),
        database: database.with_guard(guard).with_owner_rule(owner_rule).with_listed_errors(listed_errors),
        publisher,
        queue: ChunkQueue::new(sqs.clone(), queue_url.clone()),
        visibility: Visibility::new(sqs, queue_url, base),
    };
    runtime::serve(async |event, ends_at| worker::serve(&upsert, event, ends_at).await).await
}
