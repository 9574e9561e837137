//! Lambda function that does the work of load tests, in the brokers' network.

use std::path::PathBuf;
use std::process::ExitCode;

use broker_access::Brokers;
use ibm_mq::Settings;
use lambda_runtime::layers::TracingLayer;
use lambda_runtime::{Error, LambdaEvent, Runtime, service_fn};
use load_step::{Event, LoadStep};
use load_test::store::TestStore;
use runtime::{Environment, Sdk};
use tower::util::MapResultLayer;
use usage::UsageTable;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let mut environment = Environment::of_process();
    let table: String = environment.required("TESTS_TABLE");
    let bucket: String = environment.required("RESULTS_BUCKET");
    let usage_table: String = environment.required("USAGE_TABLE");
    let memory_mb = environment.optional("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", 1_152);
    let connection_cap = environment.optional("CONNECTION_CAP", LoadStep::CONNECTIONS);
    let library = environment.optional("IBM_MQ_LIBRARY", PathBuf::from(Settings::LIBRARY));
    let data_path = environment.optional("MQ_OVERRIDE_DATA_PATH", PathBuf::from("/tmp/mqm"));
    environment.check()?;

    let sdk = Sdk::from_environment().await;
    let dynamodb = aws_sdk_dynamodb::Client::new(sdk.standard());
    let s3 = aws_sdk_s3::Client::new(&sdk.objects());
    let usage = UsageTable::new(dynamodb.clone(), usage_table);
    let store = TestStore::new(dynamodb, table, s3, bucket);
    let ibm_mq = Settings { library, data_path: Some(data_path), ..Settings::default() };
    let brokers = Brokers::new(connection_cap, ibm_mq, &sdk);
    let cap = brokers.cap();
    let load_step = &LoadStep::new(store, usage, brokers, memory_mb);
    let handler = service_fn(async |event: LambdaEvent<Event>| {
        let ends_at = event.context.deadline();
        runtime::answered(load_step.handle(event.payload, ends_at).await)
    });
    // Between an answer and the next event, so that no work is cut off when the process ends.
    let after_an_answer = MapResultLayer::new(move |sent: Result<(), Error>| match sent {
        Ok(()) if cap.is_exhausted() => {
            Err("no connection can be opened any more: all were left open, or hang".into())
        }
        sent => sent,
    });
    Runtime::new(handler).layer(TracingLayer::new()).layer(after_an_answer).run().await
}
