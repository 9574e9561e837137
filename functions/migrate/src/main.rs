//! Applies the database's migrations, and creates the topic of chunks.

use std::process::ExitCode;

use aws::{Environment, Sdk};
use catalog::Database;
use ingestion::SourceZone;
use kafka::{Cluster, Topic, TopicPlan};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use migrate::Migrate;
use serde_json::Value;
use transport::ChunkTransport;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    function::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let sdk = Sdk::from_environment().await;
    let sdk = &sdk;
    let mut environment = Environment::of_process();
    let _: SourceZone = environment.required("TIME_ZONE");
    let topic = topic(&mut environment, sdk);
    let migrate = Migrate::new(environment.check(), async || Database::from_environment(sdk).await);
    let migrate = migrate.with_topic(topic);
    let migrate = &migrate;
    run(service_fn(async |event: LambdaEvent<Value>| {
        function::answered(migrate.handle(event.payload, event.context.deadline()).await)
    }))
    .await
}

/// The topic of chunks, if Kafka is their transport.
fn topic<F: Fn(&str) -> Option<String>>(environment: &mut Environment<F>, sdk: &Sdk) -> Option<Topic> {
    let settings = ChunkTransport::read_kafka(environment)?;
    Some(Topic::new(Cluster::new(settings, sdk), TopicPlan::read(environment)))
}
