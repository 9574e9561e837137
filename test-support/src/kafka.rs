//! Stand-in for a Kafka cluster: `local/kafka/broker.py` in a process of its own, which ends when
//! its [`Broker`] is dropped. That file says what the stand-in can do.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::environment::{python, repository};
use crate::freeze::freeze;

/// Number of the `Produce` API in Kafka's protocol.
const PRODUCE: i16 = 0;

/// Fake Kafka cluster of three brokers, without TLS and logins. An auto-created topic has four
/// partitions.
#[derive(Debug)]
pub struct Broker {
    process: Child,
    console: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
    bootstrap_servers: String,
}

impl Broker {
    /// Starts a cluster. The first start in a checkout installs the stand-in's Python environment.
    #[must_use]
    pub fn start() -> Self {
        let mut process = Command::new(python("kafka", "local/kafka/requirements.txt"))
            .arg(repository().join("local/kafka/broker.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert!(line.starts_with("127.0.0.1:"), "the stand-in for Kafka does not start: {line}");
        Self { process, console: Mutex::new((input, output)), bootstrap_servers: line.trim().to_owned() }
    }

    /// Returns the addresses of the brokers, such as
    /// `127.0.0.1:40381,127.0.0.1:35887,127.0.0.1:35101`.
    pub fn bootstrap_servers(&self) -> &str {
        &self.bootstrap_servers
    }

    /// Creates a topic with three replicas.
    pub fn create_topic(&self, topic: &str, partitions: u16) {
        self.control(&json!({"topic": topic, "partitions": partitions, "replication": 3}));
    }

    /// Makes the next `Produce` requests fail, each with one of these error codes of Kafka's
    /// protocol.
    pub fn refuse_produces(&self, codes: &[i16]) {
        self.control(&json!({"next": PRODUCE, "codes": codes}));
    }

    /// Disconnects a broker (1 to 3) from the network: its connections are closed, and it stays the
    /// leader of its partitions.
    pub fn take_down(&self, broker: u8) {
        self.control(&json!({"down": broker}));
    }

    /// Connects a broker to the network again after [`Broker::take_down`].
    pub fn bring_up(&self, broker: u8) {
        self.control(&json!({"up": broker}));
    }

    /// Suspends the cluster's process (SIGSTOP): it accepts connections and answers nothing.
    pub fn pause(&self) {
        freeze(self.pid());
    }

    /// Resumes the cluster after [`Broker::pause`].
    pub fn resume(&self) {
        kill(self.pid(), Signal::SIGCONT).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.process.id()).unwrap())
    }

    /// Sends a command to the stand-in. `local/kafka/broker.py` describes the commands.
    fn control(&self, command: &Value) {
        let mut console = self.console.lock().unwrap();
        let (input, output) = &mut *console;
        writeln!(input, "{command}").unwrap();
        let mut answer = String::new();
        output.read_line(&mut answer).unwrap();
        assert_eq!(answer.trim(), "{}", "{command}");
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // A failure here would hide the test's own.
        let _gone = self.process.kill();
        let _reaped = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_starts_obeys_and_ends() {
        let broker = Broker::start();
        assert_eq!(broker.bootstrap_servers().split(',').count(), 3);
        broker.create_topic("chunks.ready", 6);
        broker.refuse_produces(&[7]);
        let address = broker.bootstrap_servers().split(',').next().unwrap().to_owned();
        drop(std::net::TcpStream::connect(&address).unwrap());
        drop(broker);
        assert!(std::net::TcpStream::connect(&address).is_err());
    }
}
