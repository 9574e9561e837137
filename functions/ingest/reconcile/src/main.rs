//! Finds batches, payloads and events that stalled on their way through the ingest, and restarts
//! them.

use std::process::ExitCode;

use batch_items::BatchItems;
use catalog::{Database, OutboxMode};
use events::Publisher;
use lambda_runtime::Error;
use objects::Objects;
use reconcile::{Reconcile, Settings};
use runtime::{Environment, Sdk};
use transport::NotificationQueue;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let mut environment = Environment::of_process();
    let table: String = environment.required("BATCHES_TABLE");
    let bucket: String = environment.required("PAYLOAD_BUCKET");
    let queue_url: String = environment.required("BATCHES_QUEUE_URL");
    let drops_url: String = environment.optional("DROPS_QUEUE_URL", String::new());
    let drop_bucket: String = environment.optional("DROP_BUCKET", String::new());
    let guard = catalog::deactivation_guard(&mut environment);
    let settings = Settings::read(&mut environment);
    let events = events::Settings::read(&mut environment);
    environment.check()?;

    let sdk = Sdk::from_environment().await;
    let publisher = Publisher::of(&sdk, events);
    let sqs = aws_sdk_sqs::Client::new(sdk.standard());
    let database = Database::from_environment(&sdk).await?.with_outbox(OutboxMode::needed_by(&publisher));
    let reconcile = Reconcile {
        objects: Objects::new(aws_sdk_s3::Client::new(&sdk.objects()), bucket),
        accepted: BatchItems::new(aws_sdk_dynamodb::Client::new(sdk.standard()), table),
        database: database.with_guard(guard),
        publisher,
        queue: NotificationQueue::new(sqs.clone(), queue_url),
        drops: (!drops_url.is_empty()).then(|| NotificationQueue::new(sqs, drops_url)),
        drop_bucket: Some(drop_bucket).filter(|name| !name.is_empty()),
        settings,
    };
    runtime::serve(async |event, ends_at| reconcile.handle(&event, ends_at).await).await
}
