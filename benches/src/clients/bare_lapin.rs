//! The client library alone: pipelined confirms, prefetch and multiple acknowledgement, and nothing
//! per message that the broker does not need.

use std::collections::VecDeque;

use futures_util::StreamExt as _;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
};
use lapin::types::{FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, PublisherConfirm};

use super::Contest;
use super::broker::{BODY, PERSISTENT, inspect};
use crate::contender::serve;
use crate::cpu::{Stopwatch, Took};
use crate::error::Error;

pub(crate) const IN_FLIGHT: usize = 1000;
pub(crate) const PREFETCH: u16 = 1000;
pub(crate) const ACK_EVERY: u32 = 500;

pub(crate) async fn contend(contest: &Contest) -> Result<(), Error> {
    let connection = Connection::connect(&contest.url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    serve(async |line: &str| {
        let (job, queue) = line.split_once(' ').unwrap_or_default();
        match job {
            "produce" => produce(&channel, &queue.into(), contest.messages).await,
            _ => consume(&channel, &queue.into(), contest.messages).await,
        }
    })
    .await
}

async fn produce(channel: &Channel, queue: &ShortString, messages: u32) -> Result<Took, Error> {
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let stopwatch = Stopwatch::start()?;
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
    let mut in_flight = VecDeque::with_capacity(IN_FLIGHT);
    for _ in 0..messages {
        if in_flight.len() == IN_FLIGHT {
            confirm(in_flight.pop_front()).await?;
        }
        let confirm = channel
            .basic_publish(ShortString::default(), queue.clone(), options, &BODY, properties.clone())
            .await?;
        in_flight.push_back(confirm);
    }
    while !in_flight.is_empty() {
        confirm(in_flight.pop_front()).await?;
    }
    stopwatch.stop()
}

/// Waits for the broker's answer, which has to be that it has the message.
pub(crate) async fn confirm(confirm: Option<PublisherConfirm>) -> Result<(), Error> {
    let Some(confirm) = confirm else { return Ok(()) };
    let confirmation = confirm.await?;
    if confirmation.is_ack() && confirmation.take_message().is_none() {
        return Ok(());
    }
    Err("a message was refused or returned".into())
}

async fn consume(channel: &Channel, queue: &ShortString, messages: u32) -> Result<Took, Error> {
    let stopwatch = Stopwatch::start()?;
    channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
    let mut consumer = channel
        .basic_consume(queue.clone(), "bench".into(), BasicConsumeOptions::default(), FieldTable::default())
        .await?;
    let mut received = 0;
    while received < messages {
        let delivery = consumer.next().await.ok_or("the broker ended the consumer")??;
        received += 1;
        if received % ACK_EVERY == 0 || received == messages {
            let options = BasicAckOptions { multiple: true };
            channel.basic_ack(delivery.delivery_tag, options).await?;
        }
    }
    // The acknowledgement has arrived when the broker answers what came after it.
    inspect(channel, queue).await?;
    stopwatch.stop()
}
