//! Tests of the gateway with features of RabbitMQ only: AMQP's types, exchanges, types of queues
//! and dead-letter exchanges.

mod dead_letters;
mod equality;
mod exchanges;
mod queues;
mod refusals;

use std::time::Duration;

use end_to_end::{Broker, Queue};

async fn ready_becomes(broker: &Broker, queue: &Queue, expected: usize) {
    for _ in 0..200 {
        if broker.ready(queue).await == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(broker.ready(queue).await, expected);
}
