//! Kafka between the chunker and `upsert` and for the events of batches, if `KAFKA=1` asks for it:
//! a stand-in for a cluster, and one for Lambda's event source mapping, which brings the records of
//! chunks to the function.

use std::path::PathBuf;

use tokio::process::Command;

use super::ministack::Ministack;
use super::{Component, Ready};
use crate::failure::{Explain as _, Failure};
use crate::layout::Layout;

/// Topic of chunks: the default of the template's parameter.
const TOPIC: &str = "chunks.ready";
/// Topic of events: the default of the template's parameter.
pub(crate) const EVENTS_TOPIC: &str = "batches.received";
/// Topic of failed chunks: the default of the template's parameter.
const FAILURES_TOPIC: &str = "chunks.failed";
/// Most records of an invocation: the default of the template's parameter.
const BATCH: &str = "10";
/// Number of partitions of each topic.
pub(crate) const PARTITIONS: u16 = 12;

/// True if `KAFKA=1` is set.
pub(crate) fn is_wanted() -> bool {
    std::env::var("KAFKA").is_ok_and(|value| value == "1")
}

/// A cluster of one broker.
#[derive(Debug)]
pub(crate) struct Kafka {
    port: u16,
}

impl Kafka {
    pub(crate) const fn new(port: u16) -> Self {
        Self { port }
    }

    pub(crate) fn bootstrap_servers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the component that brings the records of the topic of chunks to the function of this
    /// name.
    ///
    /// # Errors
    /// If its directory cannot be made.
    pub(crate) fn poller(
        &self,
        layout: &Layout,
        ministack: &Ministack,
        function: &str,
    ) -> Result<Poller, Failure> {
        let url = format!("{}/2015-03-31/functions/{function}/invocations", ministack.endpoint());
        let socket = layout.component_directory("kafka-poller")?.join("socket");
        Ok(Poller { servers: self.bootstrap_servers(), url, socket })
    }
}

fn python(layout: &Layout) -> Command {
    let mut command = Command::new(layout.kafka_python().join("bin/python"));
    command.env_clear().env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

impl Component for Kafka {
    fn name(&self) -> &'static str {
        "kafka"
    }

    fn command(&self, layout: &Layout) -> Result<Command, Failure> {
        let mut command = python(layout);
        command.arg(layout.root().join("local/kafka/broker.py")).args(["--forever", "--brokers", "1"]);
        command.args(["--ports", &self.port.to_string(), "--topics"]);
        command.args([TOPIC, EVENTS_TOPIC, FAILURES_TOPIC].map(|topic| format!("{topic}:{PARTITIONS}")));
        Ok(command)
    }

    fn ready(&self) -> Ready {
        Ready::Listens(self.port)
    }

    fn usual(&self) -> &'static str {
        "usually at once"
    }
}

/// The stand-in for Lambda's event source mapping.
#[derive(Debug)]
pub(crate) struct Poller {
    servers: String,
    url: String,
    socket: PathBuf,
}

impl Component for Poller {
    fn name(&self) -> &'static str {
        "kafka-poller"
    }

    fn command(&self, layout: &Layout) -> Result<Command, Failure> {
        // The socket of an earlier run would be in the way.
        if self.socket.exists() {
            std::fs::remove_file(&self.socket).or_explain(|| format!("remove {}", self.socket.display()))?;
        }
        let mut command = python(layout);
        command
            .arg(layout.root().join("local/kafka/poller.py"))
            .args(["--topic", TOPIC, "--group", "integrahub-upsert", "--batch", BATCH])
            .args(["--servers", &self.servers, "--url", &self.url, "--socket"])
            .arg(&self.socket);
        Ok(command)
    }

    fn ready(&self) -> Ready {
        Ready::Accepts(self.socket.clone())
    }

    fn usual(&self) -> &'static str {
        "usually at once"
    }
}
