//! Queues and an exchange on RabbitMQ.

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties, ExchangeKind};

use crate::components::rabbitmq::RabbitMq;
use crate::failure::{Explain as _, Failure};

/// Durable classic queues to declare. The first is the queue of the local target profiles.
pub(crate) const QUEUES: [&str; 3] = ["DEV.QUEUE.1", "DEV.QUEUE.2", "DEV.QUEUE.3"];

/// Durable topic exchange to declare.
const EXCHANGE: &str = "DEV.EXCHANGE";
/// Queue and routing key of the exchange's binding.
const BINDING: (&str, &str) = ("DEV.QUEUE.3", "orders.#");

pub(super) async fn declare_queues(rabbitmq: &RabbitMq) -> Result<(), Failure> {
    let explain = || "declare the local queues on RabbitMQ".to_owned();
    let connection =
        Connection::connect(&rabbitmq.url(), ConnectionProperties::default()).await.or_explain(explain)?;
    let channel = connection.create_channel().await.or_explain(explain)?;
    for queue in QUEUES {
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(queue.into(), options, FieldTable::default()).await.or_explain(explain)?;
    }
    let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    channel
        .exchange_declare(EXCHANGE.into(), ExchangeKind::Topic, options, FieldTable::default())
        .await
        .or_explain(explain)?;
    let (queue, key) = BINDING;
    let options = QueueBindOptions::default();
    channel
        .queue_bind(queue.into(), EXCHANGE.into(), key.into(), options, FieldTable::default())
        .await
        .or_explain(explain)?;
    connection.close(200, "done".into()).await.or_explain(explain)
}
