//! Kafka between the chunker and `upsert` and for the events of batches, if that is asked for: a
//! stand-in for a cluster, and one for the event source mapping that brings the records of chunks
//! to the function.

use tokio::process::Command;

use super::ministack::Ministack;
use super::{Component, Ready};
use crate::failure::Failure;
use crate::layout::Layout;

/// Kafka topic of chunks, as the template names it without `KafkaTopicPrefix`.
const TOPIC: &str = "chunks.ready";
/// Kafka topic of events, as the template names it without `KafkaTopicPrefix`.
pub(crate) const EVENTS_TOPIC: &str = "batches.received";
/// Kafka topic of failed chunks, as the template names it without `KafkaTopicPrefix`.
const FAILURES_TOPIC: &str = "chunks.failed";
/// Maximum number of records in one invocation of `upsert`, as in the template.
const BATCH: &str = "10";
/// Number of partitions of each topic.
const PARTITIONS: u16 = 12;

/// Returns true if the environment variable `KAFKA` is `1`.
pub(crate) fn is_wanted() -> bool {
    std::env::var("KAFKA").is_ok_and(|value| value == "1")
}

/// Stand-in for a Kafka cluster, with one broker.
#[derive(Debug)]
pub(crate) struct Kafka {
    pub(crate) port: u16,
}

impl Kafka {
    pub(crate) fn bootstrap_servers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn component(&self, layout: &Layout) -> Component {
        let mut command = python(layout, "local/kafka/broker.py");
        command.args(["--forever", "--brokers", "1", "--ports", &self.port.to_string(), "--topics"]);
        command.args([TOPIC, EVENTS_TOPIC, FAILURES_TOPIC].map(|topic| format!("{topic}:{PARTITIONS}")));
        Component::new("kafka", command, Ready::Listens(self.port), "usually at once")
    }

    /// Returns the component that stands in for Lambda's event source mapping: it invokes this
    /// function with the records of the chunks' topic.
    pub(crate) fn poller(
        &self,
        layout: &Layout,
        ministack: &Ministack,
        function: &str,
    ) -> Result<Component, Failure> {
        let url = format!("{}/2015-03-31/functions/{function}/invocations", ministack.endpoint());
        let socket = layout.component_directory("kafka-poller")?.join("socket");
        let mut command = python(layout, "local/kafka/poller.py");
        command
            .args(["--topic", TOPIC, "--group", "integrahub-upsert", "--batch", BATCH])
            .args(["--servers", &self.bootstrap_servers(), "--url", &url, "--socket"])
            .arg(&socket);
        Ok(Component::new("kafka-poller", command, Ready::Accepts(socket), "usually at once"))
    }
}

fn python(layout: &Layout, script: &str) -> Command {
    let mut command = Command::new(layout.python("kafka"));
    command.env_clear().env("PYTHONDONTWRITEBYTECODE", "1").arg(layout.root.join(script));
    command
}
