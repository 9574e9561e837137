//! Queue managers of IBM MQ: the stand-in, one for each test that breaks it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use test_support::built::{self, MQ_MANAGER};
use url::Url;
use uuid::Uuid;

/// A queue manager that ends with its test. It has the channels and queues of `local/qm1.toml`, and
/// functions reach it as they reach the stack's own.
#[derive(Debug)]
pub struct QueueManager {
    process: Option<(Child, BufReader<ChildStdout>)>,
    directory: PathBuf,
    configuration: PathBuf,
    name: String,
    port: u16,
}

const CONFIGURATION: &str = include_str!("../../local/qm1.toml");

impl QueueManager {
    /// Starts one under a name of its own.
    pub fn start() -> Self {
        Self::start_with(CONFIGURATION)
    }

    /// One whose queue `DEV.QUEUE.3` takes messages as long as IBM MQ has them, 100 MB.
    pub fn start_for_long_messages() -> Self {
        let named = |name: &str| format!("name = \"{name}\"");
        let channel = format!("{}\nmax_message_length = 104857600", named("DEV.APP.SVRCONN"));
        let queue = format!("{}\nMAXMSGL = 104857600", named("DEV.QUEUE.3"));
        let text = CONFIGURATION.replace("max_message_length = 4194304", "max_message_length = 104857600");
        let text = text.replace(&named("DEV.APP.SVRCONN"), &channel);
        Self::start_with(&text.replace(&named("DEV.QUEUE.3"), &queue))
    }

    fn start_with(text: &str) -> Self {
        let directory = PathBuf::from(crate::variable("IBM_MQ_DIRECTORY"));
        let id = Uuid::new_v4();
        let name = format!("T{}", &id.simple().to_string()[..12]);
        let [high, low, ..] = id.as_bytes();
        // A port has to be named; it is a part of the name of a socket and of nothing else.
        let port = u16::from_be_bytes([high % 128 + 64, *low]);
        let password = Url::parse(&crate::variable("AMQP_URL")).unwrap().password().unwrap().to_owned();
        let text = text.replace("@PASSWORD@", &password);
        let text: Vec<String> = text
            .lines()
            .map(|line| match line.split_once(" = ") {
                Some(("name", "\"QM1\"")) => format!("name = \"{name}\""),
                Some(("listeners", _)) => format!("listeners = [\"127.0.0.1({port})\"]"),
                _ => line.to_owned(),
            })
            .collect();
        let configuration = directory.join(format!("{name}.toml"));
        std::fs::write(&configuration, text.join("\n")).unwrap();
        let mut this = Self { process: None, directory, configuration, name, port };
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
        assert_eq!(line.trim(), "ready");
        self.process = Some((child, output));
    }

    /// Kills it. What was persistent and committed outlives it.
    pub fn kill(&mut self) {
        if let Some((mut child, _)) = self.process.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
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

    /// How many messages a queue has, uncommitted ones aside.
    pub fn depth(&self, queue: &str) -> u64 {
        self.control(&json!("status"))["depths"][queue].as_u64().unwrap()
    }

    /// How many messages of a queue are committed and not held by anybody.
    pub fn ready(&self, queue: &str) -> u64 {
        self.control(&json!("status"))["ready"][queue].as_u64().unwrap()
    }

    /// Takes the messages of a queue that are committed and that nobody holds, past every client.
    pub fn take(&self, queue: &str) -> Vec<Value> {
        self.control(&json!({ "take": queue }))["messages"].as_array().unwrap().clone()
    }

    /// How many of the faults that were asked for have not come yet.
    pub fn faults(&self) -> u64 {
        self.control(&json!("status"))["faults"].as_u64().unwrap()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// A queue, as a request names it.
    pub fn target(&self, queue: &str) -> Value {
        json!({
            "broker": "ibmmq",
            "queueManager": self.name,
            "queue": queue,
            "channel": "DEV.APP.SVRCONN",
            "connName": format!("127.0.0.1:{}", self.port),
            "auth": {"user": "app", "passwordRef": "secret://mq/app"},
        })
    }

    /// A request about a queue, with further members.
    pub fn request(&self, queue: &str, members: Value) -> Value {
        let mut body = json!({"target": self.target(queue)});
        let Value::Object(members) = members else { panic!("members are an object") };
        body.as_object_mut().unwrap().extend(members);
        body
    }
}

impl Drop for QueueManager {
    fn drop(&mut self) {
        self.kill();
        let sockets = ["control".to_owned(), "journal".to_owned(), "lock".to_owned(), "toml".to_owned()]
            .map(|ending| format!("{}.{ending}", self.name));
        for file in sockets.iter().chain([&format!("127.0.0.1({})", self.port)]) {
            let _ = std::fs::remove_file(Path::new(&self.directory).join(file));
        }
    }
}
