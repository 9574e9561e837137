//! The broker that all contenders share: their queues, and the messages on them.

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};

use crate::error::Error;

pub(crate) const PERSISTENT: u8 = 2;
pub(crate) const BODY: [u8; 1024] = [0xA5; 1024];
const KEY: &str = "0190b5a8-0000-7000-8000-000000000001";

/// Number of messages that are published before their confirms are awaited.
const WINDOW: u32 = 1000;

pub(crate) struct Queues {
    _connection: Connection,
    channel: Channel,
}

impl Queues {
    pub(crate) async fn open(url: &str) -> Result<Self, Error> {
        let connection = Connection::connect(url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(Self { _connection: connection, channel })
    }

    /// Declares a durable classic queue, empty.
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

    /// Puts messages on a new queue, shaped as the gateway's.
    pub(crate) async fn fill(&self, queue: &str, messages: u32) -> Result<(), Error> {
        self.create(queue).await?;
        let queue = ShortString::from(queue);
        for sequence in 0..messages {
            let (exchange, options) = (ShortString::default(), BasicPublishOptions::default());
            // Dropped confirms are those that `wait_for_confirms` waits for.
            drop(
                self.channel
                    .basic_publish(exchange, queue.clone(), options, &BODY, properties(KEY, sequence))
                    .await?,
            );
            if (sequence + 1) % WINDOW == 0 {
                self.channel.wait_for_confirms().await?;
            }
        }
        self.channel.wait_for_confirms().await?;
        Ok(())
    }
}

/// Counts the ready messages.
pub(crate) async fn inspect(channel: &Channel, queue: &ShortString) -> Result<u32, Error> {
    let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    Ok(channel.queue_declare(queue.clone(), options, FieldTable::default()).await?.message_count())
}

/// A message's properties as the gateway makes them.
pub(crate) fn properties(key: &str, sequence: u32) -> BasicProperties {
    let mut headers = FieldTable::default();
    headers.insert("idempotencyKey".into(), AMQPValue::LongString(key.into()));
    headers.insert("sequence".into(), AMQPValue::LongLongInt(sequence.into()));
    BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_message_id(format!("{sequence:048x}").into())
        .with_content_type("application/octet-stream".into())
        .with_timestamp(1_790_000_000)
        .with_headers(headers)
}
