//! Copies the audit events of requests into a log group of their own.

use std::process::ExitCode;

use audit::{Audit, LogGroup};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use runtime::{Environment, Sdk};
use serde_json::Value;
use usage::UsageTable;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let mut environment = Environment::of_process();
    let group: String = environment.required("AUDIT_LOG_GROUP");
    // One for each execution environment.
    let stream: String = environment.optional("AWS_LAMBDA_LOG_STREAM_NAME", "audit".to_owned());
    let table = environment.given("USAGE_TABLE");
    environment.check()?;
    let sdk = Sdk::from_environment().await;
    let usage = table.map(|table| UsageTable::new(aws_sdk_dynamodb::Client::new(sdk.standard()), table));
    let audit = Audit::new(LogGroup::new(&sdk, group, stream), usage);
    let audit = &audit;
    run(service_fn(async |event: LambdaEvent<Value>| runtime::answered(audit.handle(event.payload).await)))
        .await
}
