//! Stand-in queue managers of IBM MQ, for tests that break theirs.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use serde_json::{Value, json};
use test_support::queue_manager;
use url::Url;
use uuid::Uuid;

/// Stand-in queue manager of one test, which ends with it. It has the channels and queues of
/// `local/qm1.toml`, and functions reach it like the stack's own.
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
    /// Starts a queue manager with a name that no other one has.
    pub fn start() -> Self {
        Self::start_with(CONFIGURATION)
    }

    /// Starts a queue manager whose queues `DEV.QUEUE.1` to `DEV.QUEUE.3` accept messages of up to
    /// 100 MB, the maximum of IBM MQ.
    pub fn start_for_long_messages() -> Self {
        let text = CONFIGURATION.replace("max_message_length = 4194304", "max_message_length = 104857600");
        let long = |text: String, queue: &&str| {
            let named = format!("name = \"{queue}\"\n");
            text.replace(&named, &format!("{named}MAXMSGL = 104857600\n"))
        };
        let text = ["DEV.QUEUE.1", "DEV.QUEUE.2", "DEV.QUEUE.3"].iter().fold(text, long);
        Self::start_with(&text)
    }

    /// Returns the password of the queue manager's users, which is that of the stack's RabbitMQ
    /// user.
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

    /// Returns the inline target of a request for a queue of this queue manager.
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

    /// Returns the body of a request for a queue of this queue manager, with further members.
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
