//! Passes on S3's notifications.

use std::process::ExitCode;
use std::time::Duration;

use dispatch::Dispatch;
use lambda_runtime::Error;
use objects::Objects;
use runtime::{Environment, Sdk};
use transport::NotificationQueue;
use worker::Visibility;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let mut environment = Environment::of_process();
    let bucket: String = environment.required("PAYLOAD_BUCKET");
    let payloads: String = environment.required("BATCHES_QUEUE_URL");
    let drops: String = environment.required("DROPS_QUEUE_URL");
    let own_queue_url: String = environment.required("NOTIFICATIONS_QUEUE_URL");
    let base = Duration::from_secs(environment.optional("RETRY_BASE_SECONDS", 10));
    environment.check()?;

    let sdk = Sdk::from_environment().await;
    let sqs = aws_sdk_sqs::Client::new(sdk.standard());
    let dispatch = Dispatch {
        objects: Objects::new(aws_sdk_s3::Client::new(sdk.standard()), bucket),
        payloads: NotificationQueue::new(sqs.clone(), payloads),
        drops: NotificationQueue::new(sqs.clone(), drops),
        visibility: Visibility::new(sqs, own_queue_url, base),
    };
    runtime::serve(async |event, ends_at| worker::serve(&dispatch, event, ends_at).await).await
}
