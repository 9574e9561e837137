//! RabbitMQ broker that all contenders share: their queues, the messages on them, and the calls of
//! a client without the gateway.

use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer, PublisherConfirm};

use crate::error::Error;

const PERSISTENT: u8 = 2;
pub(crate) const BODY: [u8; 1024] = [0xA5; 1024];
const KEY: &str = "0190b5a8-0000-7000-8000-000000000001";
pub(crate) const PREFETCH: u16 = 1000;

/// Number of messages to publish before waiting for their confirms.
const WINDOW: u32 = 1000;

pub(crate) struct Queues {
    _connection: Connection,
    channel: Channel,
}

impl Queues {
    pub(crate) async fn open(url: &str) -> Result<Self, Error> {
        let (connection, channel) = open(url).await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(Self { _connection: connection, channel })
    }

    /// Creates an empty durable classic queue, in place of one with the same name.
    pub(crate) async fn create(&self, name: &str) -> Result<(), Error> {
        self.delete(name).await?;
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(name.into(), options, FieldTable::default()).await?;
        Ok(())
    }

    pub(crate) async fn delete(&self, name: &str) -> Result<(), Error> {
        self.channel.queue_delete(name.into(), QueueDeleteOptions::default()).await?;
        Ok(())
    }

    pub(crate) async fn expect(&self, name: &str, messages: u32) -> Result<(), Error> {
        let ready = inspect(&self.channel, &name.into()).await?;
        if ready == messages {
            return Ok(());
        }
        Err(format!("{name} has {ready} messages instead of {messages}").into())
    }

    /// Creates the queue anew and puts messages on it, with properties like those of the gateway's
    /// messages.
    pub(crate) async fn fill(&self, queue: &str, messages: u32) -> Result<(), Error> {
        self.create(queue).await?;
        let queue = ShortString::from(queue);
        for sequence in 0..messages {
            // Dropped confirms are those that `wait_for_confirms` waits for.
            drop(publish(&self.channel, &queue, &BODY, properties(KEY, sequence)).await?);
            if (sequence + 1) % WINDOW == 0 {
                self.channel.wait_for_confirms().await?;
            }
        }
        self.channel.wait_for_confirms().await?;
        Ok(())
    }
}

/// Opens a connection and one channel on it. The connection closes when it is dropped.
pub(crate) async fn open(url: &str) -> Result<(Connection, Channel), Error> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    Ok((connection, channel))
}

/// Publishes a message as mandatory: the broker returns it if the queue does not exist.
pub(crate) async fn publish(
    channel: &Channel,
    queue: &ShortString,
    body: &[u8],
    properties: BasicProperties,
) -> Result<PublisherConfirm, Error> {
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    Ok(channel.basic_publish(ShortString::default(), queue.clone(), options, body, properties).await?)
}

/// Waits for the broker's confirm. A negative confirm or a returned message is an error.
pub(crate) async fn confirm(confirm: PublisherConfirm) -> Result<(), Error> {
    let confirmation = confirm.await?;
    if confirmation.is_ack() && confirmation.take_message().is_none() {
        return Ok(());
    }
    Err("a message was refused or returned".into())
}

pub(crate) async fn consumer(channel: &Channel, queue: &ShortString) -> Result<Consumer, Error> {
    channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
    let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
    Ok(channel.basic_consume(queue.clone(), "bench".into(), options, arguments).await?)
}

/// Acknowledges a delivery and all earlier ones on the channel.
pub(crate) async fn acknowledge(channel: &Channel, delivery_tag: u64) -> Result<(), Error> {
    Ok(channel.basic_ack(delivery_tag, BasicAckOptions { multiple: true }).await?)
}

/// Returns the number of ready messages on a queue.
pub(crate) async fn inspect(channel: &Channel, queue: &ShortString) -> Result<u32, Error> {
    let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    Ok(channel.queue_declare(queue.clone(), options, FieldTable::default()).await?.message_count())
}

/// Returns the properties that make a message persistent.
pub(crate) fn persistent() -> BasicProperties {
    BasicProperties::default().with_delivery_mode(PERSISTENT)
}

/// Returns message properties like those that the gateway sets.
pub(crate) fn properties(key: &str, sequence: u32) -> BasicProperties {
    let mut headers = FieldTable::default();
    headers.insert("idempotencyKey".into(), AMQPValue::LongString(key.into()));
    headers.insert("sequence".into(), AMQPValue::LongLongInt(sequence.into()));
    persistent()
        .with_message_id(format!("{sequence:048x}").into())
        .with_content_type("application/octet-stream".into())
        .with_timestamp(1_790_000_000)
        .with_headers(headers)
}
