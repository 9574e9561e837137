//! The stand-in for IBM MQ: a queue manager of `local/mqm-standin` in a process of its own, which
//! ends with its value.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::built::{self, MQ_MANAGER};

#[derive(Debug)]
pub struct QueueManager {
    process: Option<(Child, BufReader<ChildStdout>)>,
    /// Directory of the sockets.
    directory: PathBuf,
    configuration: PathBuf,
    name: String,
}

impl QueueManager {
    /// Starts one. `text` is a configuration, in which the name `QM1` and the listeners are
    /// replaced. A listener is a connection name, as `localhost(1414)`: a part of the name of a
    /// socket.
    pub fn start(directory: &Path, name: &str, listener: &str, text: &str) -> Self {
        let text: Vec<String> = text
            .lines()
            .map(|line| match line.split_once(" = ") {
                Some(("name", "\"QM1\"")) => format!("name = \"{name}\""),
                Some(("listeners", _)) => format!("listeners = [\"{listener}\"]"),
                _ => line.to_owned(),
            })
            .collect();
        let configuration = directory.join(format!("{name}.toml"));
        std::fs::write(&configuration, text.join("\n")).unwrap();
        let directory = directory.to_owned();
        let mut this = Self { process: None, directory, configuration, name: name.to_owned() };
        this.run();
        this
    }

    /// Runs it, again after it was killed.
    pub fn run(&mut self) {
        let mut child = Command::new(built::find(MQ_MANAGER).unwrap())
            .args(["run", "--directory"])
            .arg(&self.directory)
            .arg("--configuration")
            .arg(&self.configuration)
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

    /// Kills it. What was persistent and committed outlives it.
    pub fn kill(&mut self) {
        if let Some((mut child, _)) = self.process.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The process, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(|(child, _)| child.id())
    }

    /// Sends a line to the control socket.
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

    /// The most connections at a time, and how many were refused for a full channel, since a
    /// channel's limit was last set.
    pub fn since_limit(&self) -> (u64, u64) {
        let status = self.status();
        let count = |member: &str| status["since_limit"][member].as_u64().unwrap();
        (count("most"), count("refused"))
    }

    /// Counts the messages of a queue, uncommitted ones among them.
    pub fn depth(&self, queue: &str) -> u64 {
        self.status()["depths"][queue].as_u64().unwrap()
    }

    /// Counts the messages of a queue that are committed and not held by any client.
    pub fn ready(&self, queue: &str) -> u64 {
        self.status()["ready"][queue].as_u64().unwrap()
    }

    /// Counts the requested faults that have not occurred yet.
    pub fn faults(&self) -> u64 {
        self.status()["faults"].as_u64().unwrap()
    }

    fn status(&self) -> Value {
        self.control(&json!("status"))
    }

    /// Puts a message on a queue, past every client.
    pub fn put(&self, queue: &str, message: &Value) {
        self.control(&json!({"put": {"queue": queue, "messages": [message]}}));
    }

    /// Puts a message in a character set, past every client.
    pub fn put_encoded(&self, queue: &str, format: &str, ccsid: i32, body: &[u8]) {
        self.put(queue, &json!({"format": format, "ccsid": ccsid, "body": hex::encode(body)}));
    }

    /// Takes the messages of a queue that are committed and that nobody holds, past every client.
    pub fn take(&self, queue: &str) -> Vec<Value> {
        self.control(&json!({ "take": queue }))["messages"].as_array().unwrap().clone()
    }
}

impl Drop for QueueManager {
    fn drop(&mut self) {
        self.kill();
    }
}
