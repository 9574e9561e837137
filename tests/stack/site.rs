//! Either broker, as a client sees it that shares no code with the gateway.

use std::sync::Mutex;
use std::time::Duration;

use amqprs::{BasicProperties, FieldValue};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{Broker, Gateway, Queue, QueueManager};

/// Makes a test of each function, on RabbitMQ and on IBM MQ: `rabbitmq::name` and `ibm_mq::name`.
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

/// Which broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    RabbitMq,
    IbmMq,
}

/// A message as it was found on a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub id: String,
    /// The number that a produce gives to each of its messages.
    pub sequence: Option<i64>,
    pub body: Vec<u8>,
}

#[derive(Debug)]
pub enum Site {
    /// The stack's own, by an AMQP client.
    RabbitMq(Broker),
    /// One that ends with its test, by its control socket, and its queues that nobody uses.
    IbmMq(QueueManager, Mutex<Vec<&'static str>>),
}

impl Site {
    pub async fn start(on: On) -> Self {
        match on {
            On::RabbitMq => Self::RabbitMq(Broker::connect().await),
            On::IbmMq => {
                let unused = ["DEV.QUEUE.3", "DEV.QUEUE.2", "DEV.QUEUE.1"];
                Self::IbmMq(QueueManager::start(), Mutex::new(unused.to_vec()))
            }
        }
    }

    /// # Panics
    /// When the broker is IBM MQ.
    pub fn rabbitmq(&self) -> &Broker {
        let Self::RabbitMq(broker) = self else { panic!("the broker is IBM MQ") };
        broker
    }

    /// # Panics
    /// When the broker is RabbitMQ.
    pub fn manager(&self) -> &QueueManager {
        let Self::IbmMq(manager, _) = self else { panic!("the broker is RabbitMQ") };
        manager
    }

    pub fn manager_mut(&mut self) -> &mut QueueManager {
        let Self::IbmMq(manager, _) = self else { panic!("the broker is RabbitMQ") };
        manager
    }

    /// An empty queue of the caller's own.
    pub async fn queue(&self) -> Queue {
        match self {
            Self::RabbitMq(broker) => broker.queue().await,
            Self::IbmMq(_, unused) => {
                let name = unused.lock().unwrap().pop().unwrap();
                Queue { name: name.to_owned() }
            }
        }
    }

    /// Gives a queue back, whatever is on it.
    pub async fn delete(&self, queue: &Queue) {
        match self {
            Self::RabbitMq(broker) => broker.delete(queue).await,
            Self::IbmMq(manager, unused) => {
                manager.take(&queue.name);
                let names = ["DEV.QUEUE.1", "DEV.QUEUE.2", "DEV.QUEUE.3"];
                unused.lock().unwrap().extend(names.iter().find(|name| **name == queue.name));
            }
        }
    }

    /// A request about a queue, with further members.
    pub fn request(&self, queue: &Queue, members: Value) -> Value {
        match self {
            Self::RabbitMq(_) => queue.request(members),
            Self::IbmMq(manager, _) => manager.request(&queue.name, members),
        }
    }

    /// What answers call a queue.
    pub fn shown(&self, queue: &Queue) -> String {
        match self {
            Self::RabbitMq(_) => format!("/:{}", queue.name),
            Self::IbmMq(manager, _) => format!("{}:{}", manager.name(), queue.name),
        }
    }

    /// Waits until so many messages are there for others to get.
    pub async fn ready_becomes(&self, queue: &Queue, expected: usize) {
        for _ in 0..200 {
            if self.ready(queue).await == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(self.ready(queue).await, expected);
    }

    /// Puts messages.
    pub async fn put<'a>(&self, queue: &Queue, bodies: impl IntoIterator<Item = &'a str>) {
        match self {
            Self::RabbitMq(broker) => {
                for body in bodies {
                    broker.publish(queue, BasicProperties::default(), body).await;
                }
            }
            Self::IbmMq(manager, _) => {
                let bodies: Vec<Value> = bodies.into_iter().map(|body| json!({ "bodyText": body })).collect();
                let body = manager.request(&queue.name, json!({ "messages": bodies }));
                Gateway::new().produce(Uuid::new_v4(), &body).await.expect(201);
            }
        }
    }

    /// How many messages are there for others to get.
    pub async fn ready(&self, queue: &Queue) -> usize {
        match self {
            Self::RabbitMq(broker) => broker.ready(queue).await,
            Self::IbmMq(manager, _) => usize::try_from(manager.ready(&queue.name)).unwrap(),
        }
    }

    /// Takes every message.
    pub async fn drain(&self, queue: &Queue) -> Vec<Found> {
        match self {
            Self::RabbitMq(broker) => broker.drain(queue).await.into_iter().map(of_amqp).collect(),
            Self::IbmMq(manager, _) => manager.take(&queue.name).iter().map(of_ibm_mq).collect(),
        }
    }
}

fn of_amqp((properties, body): (BasicProperties, Vec<u8>)) -> Found {
    let sequence = properties.headers().and_then(|headers| headers.get(&"sequence".try_into().unwrap()));
    let sequence = sequence.map(|sequence| match sequence {
        FieldValue::l(sequence) => *sequence,
        other => panic!("{other:?}"),
    });
    Found { id: properties.message_id().cloned().unwrap_or_default(), sequence, body }
}

fn of_ibm_mq(message: &Value) -> Found {
    Found {
        id: message["messageId"].as_str().unwrap().to_owned(),
        sequence: message["properties"]["sequence"].as_i64(),
        body: hex::decode(message["body"].as_str().unwrap()).unwrap(),
    }
}
