//! Contender that uses only the client library `lapin` under the load of a load test: a producer
//! with an absolute schedule, a consumer, and latencies from the messages' due times.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::try_join3;
use hdrhistogram::Histogram;
use lapin::options::ConfirmSelectOptions;
use lapin::{Channel, Consumer, PublisherConfirm};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::{Instant, sleep_until};

use super::{Accounting, Latency, Measured, QUEUE, Rates, Task};
use crate::clients::bare_lapin::{ACK_EVERY, IN_FLIGHT};
use crate::clients::broker::{BODY, acknowledge, confirm, consumer, inspect, open, persistent, publish};
use crate::contender::serve;
use crate::error::Error;

const A_SECOND: u64 = 1_000_000;
/// Longest latency that is measured exactly, in microseconds: the same as in a load test's report.
const LONGEST: u64 = 120 * A_SECOND;
/// Number of significant digits of latencies: the same as in a load test's report.
const DIGITS: u8 = 3;
/// Due time in the message after the last one, which tells the consumer to end.
const END: u64 = u64::MAX;

/// Message in flight: its due time, and the broker's pending confirm.
type Sent = (u64, PublisherConfirm);

pub(crate) async fn contend(url: &str) -> Result<(), Error> {
    serve(async |line: &str| {
        let task: Task = serde_json::from_str(line)?;
        load(url, &task).await
    })
    .await
}

async fn load(url: &str, task: &Task) -> Result<Measured, Error> {
    let (_putting, puts) = open(url).await?;
    let (_getting, gets) = open(url).await?;
    puts.confirm_select(ConfirmSelectOptions::default()).await?;
    let deliveries = consumer(&gets, &QUEUE.into()).await?;
    let clock = Clock::start(task);
    // The message whose confirm is awaited is in flight too.
    let (sent, answers) = mpsc::channel(IN_FLIGHT - 1);
    let ((due, lateness), put, (received, in_time, end_to_end)) = try_join3(
        apart(produce(puts.clone(), clock, sent)),
        apart(confirm_all(answers, clock)),
        apart(consume(gets.clone(), deliveries, clock)),
    )
    .await?;
    // The acknowledgement has arrived when the broker answers what came after it.
    inspect(&gets, &QUEUE.into()).await?;
    let seconds = f64::from(task.seconds.saturating_sub(task.warm_up_seconds));
    Ok(Measured {
        rates: Rates { received_per_sec: f64::from(in_time) / seconds },
        lateness_us: lateness.report(),
        put_latency_us: put.report(),
        end_to_end_latency_us: end_to_end.report(),
        accounting: Accounting { due, received },
    })
}

/// Runs a part of the work in a Tokio task of its own.
async fn apart<T: Send + 'static>(
    part: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    tokio::spawn(part).await?
}

/// Schedule of a run, with times in microseconds since its start.
#[derive(Clone, Copy, Debug)]
struct Clock {
    begin: Instant,
    rate: Option<u64>,
    /// End of the warm-up, in microseconds from the start of the run.
    from: u64,
    /// End of the run, in microseconds from its start.
    until: u64,
}

impl Clock {
    fn start(task: &Task) -> Self {
        Self {
            begin: Instant::now(),
            rate: task.rate_per_sec.map(u64::from),
            from: u64::from(task.warm_up_seconds) * A_SECOND,
            until: u64::from(task.seconds) * A_SECOND,
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_micros()).unwrap_or(END)
    }

    /// Returns the time at which message `number` is due. Without a rate, it is due now.
    fn due(&self, number: u64) -> u64 {
        self.rate.map_or_else(|| self.now(), |rate| number.saturating_mul(A_SECOND).div_ceil(rate))
    }

    /// Waits until a time of the schedule, to the millisecond. Load tests use the same timer.
    async fn wait_until(&self, due: u64) {
        if self.now() < due {
            sleep_until(self.begin + Duration::from_micros(due)).await;
        }
    }
}

/// Histogram of latencies in microseconds, from the due times of the messages. Messages of the
/// warm-up are left out.
struct Latencies {
    histogram: Histogram<u64>,
    from: u64,
}

impl Latencies {
    fn new(clock: Clock) -> Result<Self, Error> {
        Ok(Self { histogram: Histogram::new_with_bounds(1, LONGEST, DIGITS)?, from: clock.from })
    }

    fn record(&mut self, due: u64, at: u64) {
        if due >= self.from {
            self.histogram.saturating_record(at.saturating_sub(due).max(1));
        }
    }

    fn report(&self) -> Latency {
        let at = |quantile| u32::try_from(self.histogram.value_at_quantile(quantile)).unwrap_or(u32::MAX);
        Latency { p50: at(0.5), p95: at(0.95) }
    }
}

/// Sends the messages of a run on schedule. Returns their number, and how late they were sent.
async fn produce(channel: Channel, clock: Clock, sent: Sender<Sent>) -> Result<(u64, Latencies), Error> {
    let (mut count, mut lateness) = (0, Latencies::new(clock)?);
    loop {
        let room = sent.reserve().await?;
        let due = clock.due(count);
        if due >= clock.until {
            break;
        }
        clock.wait_until(due).await;
        lateness.record(due, clock.now());
        room.send((due, put(&channel, due).await?));
        count += 1;
    }
    confirm(put(&channel, END).await?).await?;
    Ok((count, lateness))
}

/// Publishes a message with its due time at the beginning of the body.
async fn put(channel: &Channel, due: u64) -> Result<PublisherConfirm, Error> {
    let mut body = BODY;
    if let Some(stamp) = body.first_chunk_mut() {
        *stamp = due.to_le_bytes();
    }
    publish(channel, &QUEUE.into(), &body, persistent()).await
}

async fn confirm_all(mut answers: Receiver<Sent>, clock: Clock) -> Result<Latencies, Error> {
    let mut latencies = Latencies::new(clock)?;
    while let Some((due, answer)) = answers.recv().await {
        confirm(answer).await?;
        latencies.record(due, clock.now());
    }
    Ok(latencies)
}

/// Receives the messages of a run. Returns their number, the number of those received between the
/// warm-up and the end of the run, and the latencies.
async fn consume(
    channel: Channel,
    mut deliveries: Consumer,
    clock: Clock,
) -> Result<(u64, u32, Latencies), Error> {
    let (mut received, mut in_time, mut end_to_end) = (0, 0, Latencies::new(clock)?);
    loop {
        let delivery = deliveries.next().await.ok_or("the broker ended the consumer")??;
        let at = clock.now();
        let stamp = delivery.data.first_chunk().ok_or("a message does not say when it was due")?;
        let due = u64::from_le_bytes(*stamp);
        if due != END {
            received += 1;
            in_time += u32::from((clock.from..clock.until).contains(&at));
            end_to_end.record(due, at);
        }
        if due == END || delivery.delivery_tag.is_multiple_of(ACK_EVERY.into()) {
            acknowledge(&channel, delivery.delivery_tag).await?;
        }
        if due == END {
            return Ok((received, in_time, end_to_end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_count_from_an_absolute_schedule_after_the_warm_up() {
        let clock = Clock::start(&Task { seconds: 20, warm_up_seconds: 1, rate_per_sec: Some(3) });
        let due = [2, 3, 4].map(|number| clock.due(number));
        assert_eq!((due, clock.until), ([666_667, 1_000_000, 1_333_334], 20_000_000));
        let mut latencies = Latencies::new(clock).unwrap();
        for (due, late) in due.into_iter().zip([9_999, 100, 200]) {
            latencies.record(due, due + late);
        }
        assert_eq!(latencies.report(), Latency { p50: 100, p95: 200 });
    }
}
