//! Counts each tenant's usage from the stream of the idempotency table.

use std::process::ExitCode;
use std::time::Duration;

use access::AccessStore;
use events::Publisher;
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use metering::{CachedIterators, EarlierDays, Ingest, Metering, Records, TableStream};
use runtime::{Environment, Sdk};
use serde_json::Value;
use usage::UsageTable;

/// Time limit of a request to the function `batches` for the ingest's usage. It is longer than the
/// time for which `batches` waits for its database.
const INGEST_PATIENCE: Duration = Duration::from_secs(8);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let mut environment = Environment::of_process();
    let table: String = environment.required("USAGE_TABLE");
    let records: String = environment.required("IDEMPOTENCY_TABLE");
    let stream: String = environment.required("IDEMPOTENCY_STREAM_ARN");
    let access: String = environment.required("ACCESS_TABLE");
    let batches = environment.given("BATCHES_FUNCTION");
    let events = events::Settings::read(&mut environment);
    environment.check()?;
    let sdk = Sdk::from_environment().await;
    let dynamodb = aws_sdk_dynamodb::Client::new(sdk.standard());
    // A page of the stream, or of a scan, has up to a megabyte.
    let streams = aws_sdk_dynamodbstreams::Client::new(&sdk.objects());
    let scans = aws_sdk_dynamodb::Client::new(&sdk.objects());
    let lambda = aws_sdk_lambda::Client::new(&sdk.single_attempt(INGEST_PATIENCE));
    let metering = Metering {
        stream: TableStream::new(streams, stream),
        iterators: CachedIterators::default(),
        usage: UsageTable::new(dynamodb.clone(), table),
        records: Records::new(scans, records),
        access: AccessStore::new(dynamodb, access),
        ingest: batches.map(|batches| Ingest::new(lambda, batches)),
        earlier: EarlierDays::default(),
        publisher: Publisher::of(&sdk, events),
    };
    let metering = &metering;
    run(service_fn(async |event: LambdaEvent<Value>| {
        let ends_at = event.context.deadline();
        // Boxed: the compiler cannot lay out a deeper nest of futures.
        runtime::answered(Box::pin(metering.handle(&event.payload, ends_at)).await)
    }))
    .await
}
