//! Stand-in for IBM MQ: a queue manager of `local/mqm-standin` in a process of its own, which ends
//! when its [`QueueManager`] is dropped.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::built::{self, MQ_MANAGER};

#[derive(Debug)]
pub struct QueueManager {
    process: Option<(Child, BufReader<ChildStdout>)>,
    /// Directory of the queue manager's sockets.
    pub directory: PathBuf,
    pub name: String,
}

impl QueueManager {
    /// Starts a queue manager with the configuration `text`, in which `name` replaces the name
    /// `QM1`, and `listener` the listeners. A listener is a connection name such as
    /// `localhost(1414)`; the stand-in listens on a Unix socket of that name.
    pub fn start(directory: &Path, name: &str, listener: &str, text: &str) -> Self {
        let text: Vec<String> = text
            .lines()
            .map(|line| match line.split_once(" = ") {
                Some(("name", "\"QM1\"")) => format!("name = \"{name}\""),
                Some(("listeners", _)) => format!("listeners = [\"{listener}\"]"),
                _ => line.to_owned(),
            })
            .collect();
        std::fs::write(directory.join(format!("{name}.toml")), text.join("\n")).unwrap();
        let mut this = Self { process: None, directory: directory.to_owned(), name: name.to_owned() };
        this.run();
        this
    }

    /// Starts the queue manager's process, also again after [`QueueManager::kill`].
    pub fn run(&mut self) {
        let mut child = Command::new(built::find(MQ_MANAGER).unwrap())
            .args(["run", "--directory"])
            .arg(&self.directory)
            .arg("--configuration")
            .arg(self.directory.join(format!("{}.toml", self.name)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready", "the queue manager does not start");
        self.process = Some((child, output));
    }

    /// Kills the queue manager's process. Committed persistent messages are kept.
    pub fn kill(&mut self) {
        if let Some((mut child, _)) = self.process.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Returns the process id of the queue manager; `None` after [`QueueManager::kill`].
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(|(child, _)| child.id())
    }

    /// Sends a command to the queue manager's control socket, and returns the answer.
    pub fn control(&self, line: &Value) -> Value {
        let mut socket = UnixStream::connect(self.directory.join(format!("{}.control", self.name))).unwrap();
        writeln!(socket, "{line}").unwrap();
        let mut answer = String::new();
        BufReader::new(socket).read_line(&mut answer).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert!(answer.get("error").is_none(), "{answer}");
        answer
    }

    pub fn fault(&self, fault: &Value) {
        self.control(&json!({ "fault": fault }));
    }

    pub fn connections(&self) -> usize {
        self.status()["connections"].as_array().unwrap().len()
    }

    /// Returns the largest number of connections at one time, and the number of connections that
    /// were refused because a channel was at its limit. Both are counted since a channel's limit
    /// was last set.
    pub fn since_limit(&self) -> (u64, u64) {
        let status = self.status();
        let count = |member: &str| status["since_limit"][member].as_u64().unwrap();
        (count("most"), count("refused"))
    }

    /// Returns the number of messages on a queue, uncommitted ones included.
    pub fn depth(&self, queue: &str) -> u64 {
        self.status()["depths"][queue].as_u64().unwrap()
    }

    /// Returns the number of messages on a queue that are committed and not held by any client.
    pub fn ready(&self, queue: &str) -> u64 {
        self.status()["ready"][queue].as_u64().unwrap()
    }

    /// Returns the number of injected faults that have not occurred yet.
    pub fn faults(&self) -> u64 {
        self.status()["faults"].as_u64().unwrap()
    }

    fn status(&self) -> Value {
        self.control(&json!("status"))
    }

    /// Puts a message on a queue through the control socket, without a client.
    pub fn put(&self, queue: &str, message: &Value) {
        self.control(&json!({"put": {"queue": queue, "messages": [message]}}));
    }

    /// Puts a message with this format and character set (CCSID) on a queue through the control
    /// socket, without a client.
    pub fn put_encoded(&self, queue: &str, format: &str, ccsid: i32, body: &[u8]) {
        self.put(queue, &json!({"format": format, "ccsid": ccsid, "body": hex::encode(body)}));
    }

    /// Removes the committed messages that no client holds from a queue, through the control
    /// socket, and returns them.
    pub fn take(&self, queue: &str) -> Vec<Value> {
        self.control(&json!({ "take": queue }))["messages"].as_array().unwrap().clone()
    }
}

impl Drop for QueueManager {
    fn drop(&mut self) {
        self.kill();
    }
}
