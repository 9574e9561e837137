//! The same events, as a consumer of Kafka reads them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use krafka::consumer::{Consumer, ConsumerRecord};
use krafka::{Kafka, KrafkaError};
use serde_json::Value;

use super::variable;
use crate::components::kafka::{EVENTS_TOPIC, PARTITIONS};
use crate::console::say;
use crate::env_file::Variables;
use crate::failure::{Explain as _, Failure};

/// The variable that is there if Kafka is.
pub(super) const SERVERS: &str = "KAFKA_BOOTSTRAP_SERVERS";

/// Time that the records may take.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(500);

/// Prints the events that came over the bus.
pub(super) async fn show(variables: &Variables, published: &BTreeSet<String>) -> Result<(), Failure> {
    say(format_args!("\n15. Read the same events from the topic {EVENTS_TOPIC} of Kafka"));
    let explain = || format!("read the topic {EVENTS_TOPIC}");
    // It owns the connections.
    let kafka = Kafka::builder(variable(variables, SERVERS)?).connect().await.or_explain(explain)?;
    let consumer = from_the_beginning(&kafka).await.or_explain(explain)?;
    let mut missing = published.clone();
    let begin = Instant::now();
    while !missing.is_empty() {
        if begin.elapsed() > PATIENCE {
            return Err(Failure::new(format!(
                "The demonstration failed: the topic {EVENTS_TOPIC} has no event {missing:?}"
            )));
        }
        for record in consumer.poll(POLL).await.or_explain(explain)? {
            let value = record.value.as_deref().unwrap_or_default();
            let event: Value = serde_json::from_slice(value).or_explain(explain)?;
            let id = event.get("id").and_then(Value::as_str).unwrap_or_default();
            missing.remove(id);
            if published.contains(id) {
                say(format_args!("   {}: {event}", place(&record)));
            }
        }
    }
    Ok(())
}

async fn from_the_beginning(kafka: &Kafka) -> Result<Consumer, KrafkaError> {
    let consumer = kafka.consumer_without_group().build().await?;
    let partitions = 0..i32::from(PARTITIONS);
    consumer.assign(EVENTS_TOPIC, partitions.clone().collect()).await?;
    for partition in partitions {
        consumer.seek_to_beginning(EVENTS_TOPIC, partition).await?;
    }
    Ok(consumer)
}

/// Partition and offset, and the header by which readers choose.
fn place(record: &ConsumerRecord) -> String {
    let of_type = record.header_str("type").unwrap_or_default();
    format!("partition {}, offset {}, {of_type}", record.partition, record.offset)
}
