//! Takes the messages of a load test as a consumer delivers them.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use broker::Deadline;
use broker::load::{Arrival, Foreign, GetEnd, GetError, GetOptions, LoadConsumer};
use futures_util::future::FutureExt as _;
use futures_util::stream::StreamExt as _;
use lapin::Channel;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicCancelOptions};
use mq::{Access, BrokerError, QueueName};

use super::stamp;
use crate::content_header;
use crate::errors::{During, Failure};
use crate::pool::Pool;
use crate::session::{Session, call, consume, inspect, short};

/// Consumer tag of the only consumer on the channel.
const CONSUMER: &str = "integrahub-load";
/// Maximum time to wait for the end of a cancelled consumer.
const GONE: Duration = Duration::from_secs(1);

/// Consumer of a load test, on its own connection. Dropping it closes the connection, so that the
/// broker requeues unacknowledged messages.
pub(crate) struct Consumer<'a> {
    // First, so that the channel of a closed connection sends nothing.
    session: Session,
    /// Channel of the session, shared for requests that outlive a borrow of the session.
    channel: Arc<Channel>,
    queue: &'a QueueName,
    options: &'a GetOptions,
    most_held: usize,
    deliveries: Deliveries,
    /// Tag of the last delivery that is not acknowledged; acknowledging it covers all before it.
    /// `None` if all are acknowledged.
    last_tag: Option<u64>,
    /// Number of messages that were taken and not acknowledged.
    in_hand: usize,
    /// Sequence numbers of the load test's messages that were taken and not acknowledged.
    numbers: Vec<u64>,
    /// Reason why the consumer takes no more messages; `None` while it takes messages.
    ended: Option<GetError>,
    /// Failure after which the channel is unusable; `None` while the channel works.
    failure: Option<Failure>,
}

type Begun = Pin<Box<dyn Future<Output = lapin::Result<lapin::Consumer>> + Send>>;

/// State of the consumer on the broker: not requested, requested, or started.
enum Deliveries {
    NotWanted,
    /// The consumer was requested. The value is the pending request, which continues even if its
    /// caller stops waiting.
    Wanted(Begun),
    Open(lapin::Consumer),
}

/// Connects for a load consumer, checks that the queue exists, and limits the bytes of deliveries
/// that no caller has taken yet. Messages are not taken before the first [`LoadConsumer::next`].
pub(crate) async fn connect<'a>(
    pool: &Pool,
    access: &Access,
    queue: &'a QueueName,
    options: &'a GetOptions,
    deadline: Deadline,
) -> Result<Consumer<'a>, BrokerError> {
    let session = pool.acquire(access, deadline).await?;
    if let Err(failure) = inspect(session.channel(), queue, deadline).await {
        return Err(session.fail(failure, During::Queue(queue)));
    }
    let most_held = pool.settings().most_held;
    session.intake().bind_stream(most_held);
    Ok(Consumer {
        channel: Arc::new(session.channel().clone()),
        queue,
        options,
        most_held,
        deliveries: Deliveries::NotWanted,
        last_tag: None,
        in_hand: 0,
        numbers: Vec::new(),
        ended: None,
        failure: None,
        session,
    })
}

impl Consumer<'_> {
    /// Waits for the next delivery, and starts the consumer first if necessary. `None` if the
    /// broker has ended the consumer.
    async fn delivery(&mut self) -> Option<Result<Delivery, Failure>> {
        if let Deliveries::NotWanted = self.deliveries {
            let (channel, queue) = (Arc::clone(&self.channel), short(self.queue));
            let prefetch = self.options.prefetch.get();
            let begun = async move { consume(&channel, queue, CONSUMER.into(), prefetch).await };
            self.deliveries = Deliveries::Wanted(Box::pin(begun));
        }
        if let Err(failure) = self.begun().await {
            return Some(Err(failure));
        }
        match &mut self.deliveries {
            Deliveries::Open(consumer) => Some(consumer.next().await?.map_err(Failure::from)),
            Deliveries::NotWanted | Deliveries::Wanted(_) => None,
        }
    }

    /// Waits until the broker has started the consumer, if it was requested.
    async fn begun(&mut self) -> Result<(), Failure> {
        let Deliveries::Wanted(begun) = &mut self.deliveries else { return Ok(()) };
        let begun = begun.await;
        match begun {
            Ok(consumer) => {
                self.deliveries = Deliveries::Open(consumer);
                Ok(())
            }
            Err(error) => {
                self.deliveries = Deliveries::NotWanted;
                Err(error.into())
            }
        }
    }

    /// Converts a delivery to an arrival, and counts it as unacknowledged. Ends the consumer after
    /// a failure, at a delivery over the byte limit, or at a message outside the load test that
    /// must stay on the queue.
    fn take(&mut self, delivery: Option<Result<Delivery, Failure>>) -> Result<Arrival, GetError> {
        let at = Instant::now();
        let mut delivery = match delivery {
            Some(Ok(delivery)) => delivery,
            Some(Err(failure)) => return Err(self.fail(failure)),
            None => {
                let detail = format!(
                    "RabbitMQ ended the consumer of the queue `{}`: the queue was deleted, or lost its leader",
                    self.queue
                );
                return Err(self.end(BrokerError::rejected(detail).into()));
            }
        };
        let tag = delivery.delivery_tag;
        if self.session.intake().was_exceeded_by(tag) {
            let detail = format!(
                "messages that take more than {} bytes were delivered in advance; ask for a lower `prefetch`",
                self.most_held
            );
            return Err(self.end(BrokerError::too_large(detail).into()));
        }
        self.session.intake().release();
        content_header::restore(&mut delivery);
        let stamp = stamp(&delivery, &self.options.test);
        if stamp.is_none() && self.options.foreign == Foreign::Leave {
            return Err(self.end(GetError::Foreign(self.queue.clone())));
        }
        self.last_tag = Some(tag);
        self.in_hand += 1;
        self.numbers.extend(stamp.map(|stamp| stamp.sequence));
        Ok(Arrival { at, stamp, redelivered: delivery.redelivered, bytes: delivery.data.len() })
    }

    fn fail(&mut self, failure: Failure) -> GetError {
        let error = failure.clone().into_error(During::Queue(self.queue));
        self.failure = Some(failure);
        self.end(error.into())
    }

    fn end(&mut self, error: GetError) -> GetError {
        self.ended = Some(error.clone());
        error
    }

    /// Returns how many messages the consumer takes before it acknowledges them together. This is
    /// the `ack_every` of its options, but at most the prefetch: with that many unacknowledged
    /// messages, the broker delivers no more.
    fn most_in_hand(&self) -> usize {
        self.options.ack_every.get().min(self.options.prefetch.get().into())
    }

    /// Sends the acknowledgement of all unacknowledged messages, without waiting. Polling the
    /// client library's future once puts the request into its send queue, and the broker does not
    /// answer it.
    fn acknowledge(&mut self) -> Result<(), Failure> {
        let Some(tag) = self.last_tag.take() else { return Ok(()) };
        let ack = self.channel.basic_ack(tag, BasicAckOptions { multiple: true });
        ack.now_or_never().transpose()?;
        Ok(())
    }

    /// Cancels the consumer, adds the messages that were still delivered to `rest`, and
    /// acknowledges all messages.
    async fn settle(&mut self, rest: &mut Vec<Arrival>, deadline: Deadline) -> Result<(), Failure> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.acknowledge()?;
        deadline.run(self.begun()).await.map_err(|_| Failure::Deadline)??;
        let tag = match &self.deliveries {
            Deliveries::Open(consumer) => Some(consumer.tag()),
            Deliveries::NotWanted | Deliveries::Wanted(_) => None,
        };
        if let Some(tag) = tag {
            // The answer comes after all deliveries that are on their way.
            call(deadline, self.channel.basic_cancel(tag, BasicCancelOptions::default())).await?;
        }
        while let Some(delivery) = self.left(deadline).await? {
            match self.take(Some(Ok(delivery))) {
                Ok(arrival) => rest.push(arrival),
                Err(_) => break,
            }
        }
        self.acknowledge()?;
        if self.ended.is_some() {
            self.session.give_back(self.queue, deadline).await;
        }
        // The broker answers after it has handled the acknowledgement.
        inspect(self.session.channel(), self.queue, deadline).await.map(drop)
    }

    /// Returns a message that was delivered before the consumer was cancelled; `None` if there are
    /// no more.
    async fn left(&mut self, deadline: Deadline) -> Result<Option<Delivery>, Failure> {
        match &mut self.deliveries {
            Deliveries::Open(consumer) if self.ended.is_none() => {
                let delivery = deadline.min(GONE).run(consumer.next()).await;
                Ok(delivery.map_err(|_| Failure::Deadline)?.transpose()?)
            }
            _ => Ok(None),
        }
    }
}

#[async_trait]
impl LoadConsumer for Consumer<'_> {
    async fn next(&mut self, wait: Deadline) -> Result<Option<Arrival>, GetError> {
        if let Some(error) = &self.ended {
            return Err(error.clone());
        }
        if self.in_hand >= self.most_in_hand() {
            self.acknowledge().map_err(|failure| self.fail(failure))?;
            self.in_hand = 0;
            self.numbers.clear();
        }
        match wait.run(self.delivery()).await {
            Ok(delivery) => self.take(delivery).map(Some),
            Err(_) => Ok(None),
        }
    }

    async fn finish(mut self: Box<Self>, deadline: Deadline) -> GetEnd {
        let mut rest = Vec::new();
        let settled = self.settle(&mut rest, deadline).await;
        let Self { session, queue, numbers, ended, .. } = *self;
        let Err(failure) = settled else {
            session.release(deadline).await;
            return GetEnd { rest, unsettled: Vec::new(), error: ended };
        };
        let error = session.fail(failure, During::Queue(queue));
        let error = match numbers.len() {
            0 => error,
            count => {
                let detail = format!("RabbitMQ did not confirm that {count} messages were removed: {error}");
                error.left_in_doubt(detail)
            }
        };
        GetEnd { rest, unsettled: numbers, error: Some(error.into()) }
    }
}
