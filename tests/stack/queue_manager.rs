//! Queue managers of IBM MQ: the stand-in, one for each test that breaks it.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use serde_json::{Value, json};
use test_support::queue_manager;
use url::Url;
use uuid::Uuid;

/// A queue manager that ends with its test. It has the channels and queues of `local/qm1.toml`, and
/// functions reach it as they reach the stack's own.
#[derive(Debug)]
pub struct QueueManager {
    daemon: queue_manager::QueueManager,
    port: u16,
}

impl Deref for QueueManager {
    type Target = queue_manager::QueueManager;

    fn deref(&self) -> &Self::Target {
        &self.daemon
    }
}

impl DerefMut for QueueManager {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.daemon
    }
}

const CONFIGURATION: &str = include_str!("../../local/qm1.toml");

impl QueueManager {
    /// Starts one under a name of its own.
    pub fn start() -> Self {
        Self::start_with(CONFIGURATION)
    }

    /// Starts a queue manager whose queues `DEV.QUEUE.1` to `DEV.QUEUE.3` take messages as long as
    /// IBM MQ has them, 100 MB.
    pub fn start_for_long_messages() -> Self {
        let text = CONFIGURATION.replace("max_message_length = 4194304", "max_message_length = 104857600");
        let long = |text: String, queue: &&str| {
            let named = format!("name = \"{queue}\"\n");
            text.replace(&named, &format!("{named}MAXMSGL = 104857600\n"))
        };
        let text = ["DEV.QUEUE.1", "DEV.QUEUE.2", "DEV.QUEUE.3"].iter().fold(text, long);
        Self::start_with(&text)
    }

    /// The password of its users, which the stack's brokers share.
    pub fn password() -> String {
        Url::parse(&crate::variable("AMQP_URL")).unwrap().password().unwrap().to_owned()
    }

    fn start_with(text: &str) -> Self {
        let directory = PathBuf::from(crate::variable("IBM_MQ_DIRECTORY"));
        let id = Uuid::new_v4();
        let name = format!("T{}", &id.simple().to_string()[..12]);
        let [high, low, ..] = id.as_bytes();
        // A port has to be named; it is a part of the name of a socket and of nothing else.
        let port = u16::from_be_bytes([high % 128 + 64, *low]);
        let text = text.replace("@PASSWORD@", &Self::password());
        let listener = format!("127.0.0.1({port})");
        Self { daemon: queue_manager::QueueManager::start(&directory, &name, &listener, &text), port }
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
            let _ = std::fs::remove_file(self.directory.join(file));
        }
    }
}
