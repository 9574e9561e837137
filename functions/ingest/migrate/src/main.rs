//! Applies the database's migrations, and creates the topics of Kafka.

use std::process::ExitCode;

use catalog::Database;
use events::kafka::{Cluster, EventTopics, Topic, TopicPlan};
use lambda_runtime::Error;
use migrate::Migrate;
use runtime::{Environment, Sdk};
use transport::ChunkTransport;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let sdk = Sdk::from_environment().await;
    let sdk = &sdk;
    let mut environment = Environment::of_process();
    let topics = topics(&mut environment, sdk);
    let migrate = Migrate::new(environment.check(), async || Database::from_environment(sdk).await);
    let migrate = migrate.with_topics(topics);
    runtime::serve(async |event, ends_at| migrate.handle(event, ends_at).await).await
}

/// Reads which Kafka topics to create: that of chunks if they go through Kafka, and those of events
/// if the deployment has any.
fn topics<F: Fn(&str) -> Option<String>>(environment: &mut Environment<F>, sdk: &Sdk) -> Vec<Topic> {
    let chunks = ChunkTransport::read_kafka(environment);
    let events = EventTopics::read(environment);
    let plan = TopicPlan::read(environment);
    let topic = |settings| Topic::new(Cluster::new(settings, sdk), plan);
    let events = events.into_iter().flat_map(|topics| [topics.events, topics.failures]);
    chunks.into_iter().chain(events).map(topic).collect()
}
