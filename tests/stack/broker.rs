//! RabbitMQ, looked at by an AMQP client that the gateway does not use.

use amqprs::channel::{
    BasicAckArguments, BasicGetArguments, BasicPublishArguments, Channel, ConfirmSelectArguments,
    QueueBindArguments, QueueDeclareArguments, QueueDeleteArguments,
};
use amqprs::connection::{Connection, OpenConnectionArguments};
use amqprs::{BasicProperties, FieldTable, FieldValue};
use serde_json::{Value, json};
use url::Url;
use uuid::Uuid;

/// A connection with a channel.
pub struct Broker {
    channel: Channel,
    _connection: Connection,
}

/// A queue of a test's own. It expires, so that a test that fails leaves nothing behind either.
#[derive(Clone, Debug)]
pub struct Queue {
    pub name: String,
}

const TEN_MINUTES_MS: i32 = 600_000;

impl Broker {
    /// Connects to the stack's broker.
    pub async fn connect() -> Self {
        let url = Url::parse(&crate::variable("AMQP_URL")).unwrap();
        Self::at((url.host_str().unwrap(), url.port().unwrap()), url.username(), url.password().unwrap())
            .await
    }

    /// Connects to a broker of the test's own.
    pub async fn at((host, port): (&str, u16), user: &str, password: &str) -> Self {
        let arguments = OpenConnectionArguments::new(host, port, user, password);
        let connection = Connection::open(&arguments).await.unwrap();
        let channel = connection.open_channel(None).await.unwrap();
        channel.confirm_select(ConfirmSelectArguments::new(false)).await.unwrap();
        Self { channel, _connection: connection }
    }

    /// Declares a durable classic queue.
    pub async fn queue(&self) -> Queue {
        self.queue_with(&[]).await
    }

    /// Declares a durable queue with further arguments.
    pub async fn queue_with(&self, arguments: &[(&str, FieldValue)]) -> Queue {
        let name = format!("test.{}", Uuid::new_v4());
        self.declare(&name, arguments).await;
        Queue { name }
    }

    /// Declares a durable queue that takes so many messages and refuses the next one.
    pub async fn queue_of(&self, messages: i32) -> Queue {
        let refuses = FieldValue::S("reject-publish".try_into().unwrap());
        self.queue_with(&[("x-max-length", FieldValue::I(messages)), ("x-overflow", refuses)]).await
    }

    /// Declares a durable queue of a given name.
    pub async fn declare(&self, name: &str, arguments: &[(&str, FieldValue)]) {
        let mut table = FieldTable::new();
        table.insert("x-expires".try_into().unwrap(), FieldValue::I(TEN_MINUTES_MS));
        for (argument, value) in arguments {
            table.insert((*argument).try_into().unwrap(), value.clone());
        }
        let declare = QueueDeclareArguments::new(name).durable(true).arguments(table).finish();
        self.channel.queue_declare(declare).await.unwrap();
    }

    /// Lets the queue get what is published to an exchange with a key.
    pub async fn bind(&self, queue: &Queue, exchange: &str, key: &str) {
        self.channel.queue_bind(QueueBindArguments::new(&queue.name, exchange, key)).await.unwrap();
    }

    pub async fn delete(&self, queue: &Queue) {
        self.channel.queue_delete(QueueDeleteArguments::new(&queue.name)).await.unwrap();
    }

    pub async fn publish(&self, queue: &Queue, properties: BasicProperties, body: impl Into<Vec<u8>>) {
        let arguments = BasicPublishArguments::new("", &queue.name);
        self.channel.basic_publish(properties, body.into(), arguments).await.unwrap();
    }

    /// Counts the ready messages.
    pub async fn ready(&self, queue: &Queue) -> usize {
        let declare = QueueDeclareArguments::new(&queue.name).passive(true).finish();
        let (_, messages, _) = self.channel.queue_declare(declare).await.unwrap().unwrap();
        usize::try_from(messages).unwrap()
    }

    /// Takes one message.
    pub async fn get(&self, queue: &Queue) -> Option<(BasicProperties, Vec<u8>)> {
        let (got, properties, body) =
            self.channel.basic_get(BasicGetArguments::new(&queue.name)).await.unwrap()?;
        self.channel.basic_ack(BasicAckArguments::new(got.delivery_tag(), false)).await.unwrap();
        Some((properties, body))
    }

    /// Takes every message.
    pub async fn drain(&self, queue: &Queue) -> Vec<(BasicProperties, Vec<u8>)> {
        let mut messages = Vec::new();
        while let Some(message) = self.get(queue).await {
            messages.push(message);
        }
        messages
    }
}

impl Queue {
    /// The members of a request that name this queue.
    pub fn target(&self) -> Value {
        json!({"targetRef": "local-rabbit", "target": {"queue": self.name}})
    }

    /// A request about this queue, with further members.
    pub fn request(&self, members: Value) -> Value {
        let mut body = self.target();
        let Value::Object(members) = members else { panic!("members are an object") };
        body.as_object_mut().unwrap().extend(members);
        body
    }
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker").finish_non_exhaustive()
    }
}
