//! Contender that uses only the client library `lapin`: pipelined confirms, prefetch and multiple
//! acknowledgement. For each message, it does only what the broker needs.

use std::collections::VecDeque;

use futures_util::StreamExt as _;
use lapin::Channel;
use lapin::options::ConfirmSelectOptions;
use lapin::types::ShortString;

use super::Contest;
use super::broker::{BODY, acknowledge, confirm, consumer, inspect, open, persistent, publish};
use crate::contender::serve;
use crate::cpu::{Stopwatch, Took};
use crate::error::Error;

pub(crate) const IN_FLIGHT: usize = 1000;
pub(crate) const ACK_EVERY: u32 = 500;

pub(crate) async fn contend(contest: &Contest) -> Result<(), Error> {
    let (_connection, channel) = open(&contest.url).await?;
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
    let properties = persistent();
    let mut in_flight = VecDeque::with_capacity(IN_FLIGHT);
    for _ in 0..messages {
        if in_flight.len() == IN_FLIGHT
            && let Some(first) = in_flight.pop_front()
        {
            confirm(first).await?;
        }
        in_flight.push_back(publish(channel, queue, &BODY, properties.clone()).await?);
    }
    for rest in in_flight {
        confirm(rest).await?;
    }
    stopwatch.stop()
}

async fn consume(channel: &Channel, queue: &ShortString, messages: u32) -> Result<Took, Error> {
    let stopwatch = Stopwatch::start()?;
    let mut deliveries = consumer(channel, queue).await?;
    let mut received = 0;
    while received < messages {
        let delivery = deliveries.next().await.ok_or("the broker ended the consumer")??;
        received += 1;
        if received % ACK_EVERY == 0 || received == messages {
            acknowledge(channel, delivery.delivery_tag).await?;
        }
    }
    // The acknowledgement has arrived when the broker answers what came after it.
    inspect(channel, queue).await?;
    stopwatch.stop()
}
