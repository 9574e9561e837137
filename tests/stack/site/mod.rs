//! Broker of a test, RabbitMQ or IBM MQ, behind one interface. Its clients share no code with the
//! gateway.

mod fact;
mod message;

use std::sync::Mutex;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use url::Url;
use uuid::Uuid;

pub use fact::Fact;
pub use message::Message;

use crate::{Access, Broker, Queue, QueueManager, TENANT_A};

/// Declares two tests for each named function: `rabbitmq::name` and `ibm_mq::name`, which call it
/// with that broker.
#[macro_export]
macro_rules! on_both {
    ($($test:ident),* $(,)?) => {
        mod rabbitmq {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::On::RabbitMq).await;
            })*
        }
        mod ibm_mq {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::On::IbmMq).await;
            })*
        }
    };
}

/// Broker on which a test runs. [`On::has`] says which features it has.
#[derive(Clone, Copy, Debug)]
pub enum On {
    RabbitMq,
    IbmMq,
}

/// Queues of the IBM MQ stand-in without special attributes, which [`Site::queue`] gives to tests.
const QUEUES: [&str; 3] = ["DEV.QUEUE.3", "DEV.QUEUE.2", "DEV.QUEUE.1"];

/// Length in bytes of IBM MQ's message and correlation ids.
const ID: usize = 24;

#[derive(Debug)]
pub enum Site {
    /// RabbitMQ of the stack, and an AMQP client for it.
    RabbitMq(Broker),
    /// Stand-in queue manager that ends with its test, and its queues that the test does not use
    /// now.
    IbmMq(QueueManager, Mutex<Vec<&'static str>>),
}

impl Site {
    pub async fn start(on: On) -> Self {
        match on {
            On::RabbitMq => Self::RabbitMq(Broker::connect().await),
            On::IbmMq => Self::of(QueueManager::start()),
        }
    }

    /// Starts a broker that accepts messages of up to 100 MB. The stack's RabbitMQ always does.
    pub async fn start_for_long_messages(on: On) -> Self {
        match on {
            On::RabbitMq => Self::start(on).await,
            On::IbmMq => Self::of(QueueManager::start_for_long_messages()),
        }
    }

    fn of(manager: QueueManager) -> Self {
        Self::IbmMq(manager, Mutex::new(QUEUES.to_vec()))
    }

    /// Returns the client of RabbitMQ.
    ///
    /// # Panics
    /// If the broker is IBM MQ.
    pub fn rabbitmq(&self) -> &Broker {
        let Self::RabbitMq(broker) = self else { panic!("the broker is IBM MQ") };
        broker
    }

    /// Returns the stand-in queue manager.
    ///
    /// # Panics
    /// If the broker is RabbitMQ.
    pub fn manager(&self) -> &QueueManager {
        let Self::IbmMq(manager, _) = self else { panic!("the broker is RabbitMQ") };
        manager
    }

    pub fn manager_mut(&mut self) -> &mut QueueManager {
        let Self::IbmMq(manager, _) = self else { panic!("the broker is RabbitMQ") };
        manager
    }

    /// Returns the broker's product name, as responses show it.
    pub fn product(&self) -> &'static str {
        match self {
            Self::RabbitMq(_) => "RabbitMQ",
            Self::IbmMq(..) => "IBM MQ",
        }
    }

    /// Returns an empty queue that only this test uses. IBM MQ has three of them for each test.
    pub async fn queue(&self) -> Queue {
        match self {
            Self::RabbitMq(broker) => broker.queue().await,
            Self::IbmMq(_, unused) => {
                let name = unused.lock().unwrap().pop().unwrap();
                Queue { name: name.to_owned() }
            }
        }
    }

    /// Returns a queue that only this test uses, with persistent messages of these bodies.
    pub async fn queue_with<B: Into<Vec<u8>>>(&self, bodies: impl IntoIterator<Item = B>) -> Queue {
        let (queue, bodies) = (self.queue().await, Vec::from_iter(bodies));
        let count = bodies.len();
        self.put(&queue, bodies).await;
        self.ready_becomes(&queue, count).await;
        queue
    }

    /// Returns a queue that accepts three messages and refuses the next one.
    pub async fn queue_of_three(&self) -> Queue {
        match self {
            Self::RabbitMq(broker) => broker.queue_of(3).await,
            Self::IbmMq(..) => Queue { name: "DEV.SMALL".to_owned() },
        }
    }

    /// Returns the name of a queue that does not exist.
    pub fn missing_queue(&self) -> Queue {
        Queue { name: format!("DEV.{}", Uuid::new_v4().simple()) }
    }

    /// Ends the use of a queue with all its messages: deletes it on RabbitMQ, empties it on IBM MQ.
    pub async fn delete(&self, queue: &Queue) {
        match self {
            Self::RabbitMq(broker) => broker.delete(queue).await,
            Self::IbmMq(manager, unused) => {
                manager.take(&queue.name);
                unused.lock().unwrap().extend(QUEUES.iter().find(|name| **name == queue.name));
            }
        }
    }

    /// Returns the body of a request for a queue, with further members.
    pub fn request(&self, queue: &Queue, members: Value) -> Value {
        match self {
            Self::RabbitMq(_) => queue.request(members),
            Self::IbmMq(manager, _) => manager.request(&queue.name, members),
        }
    }

    /// Returns the inline target of a request for a queue: with the broker's address and a login.
    pub fn inline(&self, queue: &Queue) -> Value {
        match self {
            Self::RabbitMq(_) => {
                let user = Url::parse(&crate::variable("AMQP_URL")).unwrap().username().to_owned();
                json!({
                    "broker": "rabbitmq", "queueManager": "/", "queue": queue.name,
                    "connName": crate::variable("RABBIT_CONN_NAME"),
                    "auth": {"user": user, "passwordRef": "secret://local/rabbit"},
                })
            }
            Self::IbmMq(manager, _) => manager.target(&queue.name),
        }
    }

    /// Returns the name of the stack's target profile for this kind of broker.
    pub fn profile(&self) -> &'static str {
        match self {
            Self::RabbitMq(_) => "local-rabbit",
            Self::IbmMq(..) => "local-qm1",
        }
    }

    /// Creates a profile of [`TENANT_A`] that allows only this queue, and returns its name. Spells
    /// the broker's host differently from the allow-list, which would allow any queue.
    pub async fn limited_profile(&self, queue: &Queue) -> String {
        let access = Access::open().await;
        match self {
            Self::RabbitMq(_) => access.limited_profile(TENANT_A, &[&queue.name]).await,
            Self::IbmMq(manager, _) => {
                let mut target = manager.target(&queue.name);
                target["connName"] =
                    json!(target["connName"].as_str().unwrap().replace("127.0.0.1", "127.1"));
                access.profile_with(TENANT_A, &target, json!({"queues": [queue.name]})).await
            }
        }
    }

    /// Returns a queue's name as responses show it, with the virtual host or the queue manager.
    pub fn shown(&self, queue: &Queue) -> String {
        match self {
            Self::RabbitMq(_) => format!("/:{}", queue.name),
            Self::IbmMq(manager, _) => format!("{}:{}", manager.name, queue.name),
        }
    }

    /// Returns the message id that a client makes of `text`, in base64 as in requests and
    /// responses. On IBM MQ zeros fill it up to 24 bytes.
    pub fn id(&self, text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        if let Self::IbmMq(..) = self {
            bytes.resize(ID, 0);
        }
        STANDARD.encode(bytes)
    }

    /// Waits until a queue has exactly `expected` ready messages. Panics after some seconds.
    pub async fn ready_becomes(&self, queue: &Queue, expected: usize) {
        for _ in 0..200 {
            if self.ready(queue).await == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(self.ready(queue).await, expected);
    }

    /// Puts persistent messages of these bodies on a queue.
    pub async fn put<B: Into<Vec<u8>>>(&self, queue: &Queue, bodies: impl IntoIterator<Item = B>) {
        for body in bodies {
            self.put_message(queue, &Message::of(body)).await;
        }
    }

    pub async fn put_message(&self, queue: &Queue, message: &Message) {
        match self {
            Self::RabbitMq(broker) => broker.publish(queue, message.into(), message.body.clone()).await,
            Self::IbmMq(manager, _) => manager.put(&queue.name, &message.to_ibm_mq()),
        }
    }

    /// Returns the number of messages on a queue that a client can get.
    pub async fn ready(&self, queue: &Queue) -> usize {
        match self {
            Self::RabbitMq(broker) => broker.ready(queue).await,
            Self::IbmMq(manager, _) => usize::try_from(manager.ready(&queue.name)).unwrap(),
        }
    }

    /// Removes all ready messages from a queue, and returns them.
    pub async fn drain(&self, queue: &Queue) -> Vec<Message> {
        match self {
            Self::RabbitMq(broker) => broker.drain(queue).await.into_iter().map(Message::from).collect(),
            Self::IbmMq(manager, _) => manager.take(&queue.name).iter().map(Message::of_ibm_mq).collect(),
        }
    }
}
