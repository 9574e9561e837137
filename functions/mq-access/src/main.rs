//! The only function in the brokers' network, and the only one that speaks to brokers.

use std::process::ExitCode;

use aws::{Environment, Sdk};
use gateway::{WorkOrder, records};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use mq_access::{MqAccess, Secrets};
use rabbitmq::RabbitMq;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    function::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let mut environment = Environment::of_process();
    let table = environment.required("IDEMPOTENCY_TABLE");
    let results_bucket = environment.optional("RESULTS_BUCKET", String::new());
    let connection_cap = environment.optional("CONNECTION_CAP", 5);
    environment.check()?;

    let sdk = Sdk::from_environment().await;
    let dynamodb = aws_sdk_dynamodb::Client::new(sdk.standard());
    let store = records(&sdk, dynamodb, table, results_bucket, "mq-access");
    let mq_access = MqAccess::new(store, Secrets::new(&sdk), RabbitMq::new(connection_cap));
    let mq_access = &mq_access;
    run(service_fn(async |event: LambdaEvent<WorkOrder>| {
        Ok::<_, Error>(mq_access.handle(event.payload, event.context.deadline()).await)
    }))
    .await
}
