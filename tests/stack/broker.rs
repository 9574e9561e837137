//! AMQP client with which tests look at RabbitMQ. It shares no code with the gateway.

use amqprs::channel::{
    BasicAckArguments, BasicGetArguments, BasicPublishArguments, Channel, ConfirmSelectArguments,
    QueueBindArguments, QueueDeclareArguments, QueueDeleteArguments,
};
use amqprs::connection::{Connection, OpenConnectionArguments};
use amqprs::{BasicProperties, FieldTable, FieldValue};
use serde_json::{Value, json};
use url::Url;
use uuid::Uuid;

/// Connection of a test to a RabbitMQ broker, with a channel that has publisher confirms.
pub struct Broker {
    channel: Channel,
    _connection: Connection,
}

/// Queue of a test. On RabbitMQ it expires when it is unused for ten minutes, so that a failed test
/// leaves nothing behind.
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

    /// Connects to a broker at this host and port, such as one that the test has started.
    pub async fn at((host, port): (&str, u16), user: &str, password: &str) -> Self {
        let arguments = OpenConnectionArguments::new(host, port, user, password);
        let connection = Connection::open(&arguments).await.unwrap();
        let channel = connection.open_channel(None).await.unwrap();
        channel.confirm_select(ConfirmSelectArguments::new(false)).await.unwrap();
        Self { channel, _connection: connection }
    }

    /// Declares a durable classic queue with a new name.
    pub async fn queue(&self) -> Queue {
        self.queue_with(&[]).await
    }

    /// Declares a durable queue with a new name and further arguments.
    pub async fn queue_with(&self, arguments: &[(&str, FieldValue)]) -> Queue {
        let name = format!("test.{}", Uuid::new_v4());
        self.declare(&name, arguments).await;
        Queue { name }
    }

    /// Declares a durable queue that accepts this number of messages and refuses the next one.
    pub async fn queue_of(&self, messages: i32) -> Queue {
        let refuses = FieldValue::S("reject-publish".try_into().unwrap());
        self.queue_with(&[("x-max-length", FieldValue::I(messages)), ("x-overflow", refuses)]).await
    }

    /// Declares a durable queue with this name and further arguments.
    pub async fn declare(&self, name: &str, arguments: &[(&str, FieldValue)]) {
        let mut table = FieldTable::new();
        table.insert("x-expires".try_into().unwrap(), FieldValue::I(TEN_MINUTES_MS));
        for (argument, value) in arguments {
            table.insert((*argument).try_into().unwrap(), value.clone());
        }
        let declare = QueueDeclareArguments::new(name).durable(true).arguments(table).finish();
        self.channel.queue_declare(declare).await.unwrap();
    }

    /// Binds a queue to an exchange with this routing key or pattern.
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

    /// Returns the number of ready messages on a queue.
    pub async fn ready(&self, queue: &Queue) -> usize {
        let declare = QueueDeclareArguments::new(&queue.name).passive(true).finish();
        let (_, messages, _) = self.channel.queue_declare(declare).await.unwrap().unwrap();
        usize::try_from(messages).unwrap()
    }

    /// Takes one message from a queue and acknowledges it. Returns `None` if no message is ready.
    pub async fn get(&self, queue: &Queue) -> Option<(BasicProperties, Vec<u8>)> {
        let (got, properties, body) =
            self.channel.basic_get(BasicGetArguments::new(&queue.name)).await.unwrap()?;
        self.channel.basic_ack(BasicAckArguments::new(got.delivery_tag(), false)).await.unwrap();
        Some((properties, body))
    }

    /// Takes all ready messages from a queue.
    pub async fn drain(&self, queue: &Queue) -> Vec<(BasicProperties, Vec<u8>)> {
        let mut messages = Vec::new();
        while let Some(message) = self.get(queue).await {
            messages.push(message);
        }
        messages
    }
}

impl Queue {
    /// Returns the members of a request that name this queue as its target, by the profile
    /// `local-rabbit`.
    pub fn target(&self) -> Value {
        json!({"targetRef": "local-rabbit", "target": {"queue": self.name}})
    }

    /// Returns the body of a request with this queue as its target, and with further members.
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
