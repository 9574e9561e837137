//! Function that connects to brokers to execute HTTP requests. Load tests use `load-step` instead.

use std::path::PathBuf;
use std::process::ExitCode;

use broker_access::Brokers;
use ibm_mq::Settings;
use idempotency::records;
use lambda_runtime::layers::TracingLayer;
use lambda_runtime::{Diagnostic, Error, LambdaEvent, Runtime, service_fn};
use mq_access::MqAccess;
use objects::Objects;
use runtime::{Environment, Sdk};
use serde_json::value::RawValue;
use tower::util::MapResultLayer;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let mut environment = Environment::of_process();
    let table = environment.required("IDEMPOTENCY_TABLE");
    let results_bucket = environment.optional("RESULTS_BUCKET", String::new());
    let connection_cap = environment.optional("CONNECTION_CAP", 5);
    let library = environment.optional("IBM_MQ_LIBRARY", PathBuf::from(Settings::LIBRARY));
    let data_path = environment.optional("MQ_OVERRIDE_DATA_PATH", PathBuf::from("/tmp/mqm"));
    environment.check()?;

    let sdk = Sdk::from_environment().await;
    let dynamodb = aws_sdk_dynamodb::Client::new(sdk.standard());
    let objects = |bucket: &str| Objects::new(aws_sdk_s3::Client::new(&sdk.objects()), bucket.to_owned());
    let uploads = (!results_bucket.is_empty()).then(|| objects(&results_bucket));
    let store = records(&sdk, dynamodb, table, results_bucket, "mq-access");
    let ibm_mq = Settings { library, data_path: Some(data_path), ..Settings::default() };
    let brokers = Brokers::new(connection_cap, ibm_mq, &sdk);
    let cap = brokers.cap();
    let mq_access = &MqAccess::new(store, brokers, uploads);
    let handler = service_fn(async |event: LambdaEvent<Box<RawValue>>| {
        let LambdaEvent { payload, context } = event;
        let order = runtime::answered(mq_access::order(payload.get()))?;
        drop(payload);
        Ok::<_, Diagnostic>(mq_access.handle(order, context.deadline()).await)
    });
    // Between a response and the next request, so that no request is cut off when the process ends.
    let after_a_response = MapResultLayer::new(move |sent: Result<(), Error>| match sent {
        Ok(()) if cap.is_exhausted() => {
            Err("no connection can be opened any more: all were left open, or hang".into())
        }
        sent => sent,
    });
    Runtime::new(handler).layer(TracingLayer::new()).layer(after_a_response).run().await
}
