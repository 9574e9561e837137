//! Takes the messages of a fetch with temporary consumers.

use std::time::Duration;

use broker::Deadline;
use futures_util::future::{FutureExt as _, try_join_all};
use futures_util::stream::{Stream, StreamExt as _};
use lapin::Consumer;
use lapin::message::Delivery;
use lapin::options::BasicCancelOptions;

use super::{POLL, Taking};
use crate::errors::Failure;
use crate::session::{Session, call, consume, inspect, short};

/// Prefix of the consumer tags, which are numbered.
const CONSUMER: &str = "integrahub";
/// Time without a delivery after which a consumer is cancelled, unless deliveries are on their way.
/// The queue is then asked again, since other clients may have taken the messages.
const IDLE_TIMEOUT: Duration = Duration::from_millis(100);
/// Maximum time to wait for the end of a cancelled consumer.
const GONE: Duration = Duration::from_secs(1);
/// Minimum number of messages for which a consumer is started. Fewer are taken by `basic.get`,
/// since starting and cancelling a consumer takes two round trips.
const FEWEST_BY_CONSUMER: usize = 4;
/// Minimum number of expected deliveries for taking them in groups, since each wake-up costs more
/// than taking a delivery.
const MANY: usize = 256;
/// Pause in which the next group of deliveries arrives. A broker takes longer to deliver [`MANY`]
/// messages, so the pause does not delay the last message.
const A_MOMENT: Duration = Duration::from_millis(1);

impl Taking<'_> {
    /// Takes messages by consumers, each with a larger prefetch than the one before, as long as
    /// each delivers its full prefetch. Starts no consumer after `stop_at`. `ready` is the number
    /// of messages on the queue, and is lowered by the number taken. Returns how many messages the
    /// last consumer delivered; `None` if no consumer was started. All consumers are cancelled at
    /// the end.
    ///
    /// A consumer that has delivered its full prefetch gets nothing more until messages are
    /// settled, so the next one can start before it is cancelled.
    pub(super) async fn take_by_consumers(
        &mut self,
        session: &Session,
        ready: &mut usize,
        stop_at: Deadline,
        deadline: Deadline,
    ) -> Result<Option<usize>, Failure> {
        let mut consumers = Vec::new();
        let mut last = None;
        while self.prefetch(*ready) >= FEWEST_BY_CONSUMER
            && !stop_at.has_passed()
            && self.may_bring_excess(session, deadline).await
        {
            let asked = self.prefetch(*ready);
            let mut consumer = self.start_consumer(session, asked, deadline).await?;
            let brought = self.take_from(session, &mut consumer, asked, stop_at).await?;
            consumers.push(consumer);
            self.settlements += usize::from(brought > 0);
            *ready = ready.saturating_sub(brought);
            last = Some(brought);
            if brought < asked {
                break;
            }
        }
        if !self.stop_all(session, &consumers, deadline).await? {
            return Ok(last);
        }
        let mut late = 0;
        for consumer in &mut consumers {
            while let Some(delivery) = self.delivered_before_it_went(session, consumer, deadline).await? {
                late += 1;
                self.keep(session, delivery);
            }
        }
        self.settlements += usize::from(late > 0 && last == Some(0));
        *ready = ready.saturating_sub(late);
        Ok(last.map(|brought| brought + late))
    }

    /// Waits until `wait` for one message with a consumer, which is then cancelled, and keeps the
    /// message. If the queue allows no consumer, asks for a message at intervals.
    pub(super) async fn wait_for_first(
        &mut self,
        session: &Session,
        wait: Deadline,
        deadline: Deadline,
    ) -> Result<(), Failure> {
        if !self.may_consume(session, deadline).await {
            while self.consumed.messages.is_empty() && self.stop.is_none() && !wait.has_passed() {
                tokio::time::sleep(POLL.min(wait.remaining())).await;
                self.drain(session, deadline).await?;
            }
            return Ok(());
        }
        let mut consumer = self.start_consumer(session, 1, deadline).await?;
        let first = wait.run(consumer.next()).await;
        if session.intake().is_exceeded()
            && let Ok(Some(delivery)) = first
        {
            self.keep(session, delivery?);
            ask_to_go(stop_consumer(session, &consumer, deadline));
            return Ok(());
        }
        stop_consumer(session, &consumer, deadline).await?;
        let first = match first {
            Ok(Some(delivery)) => Some(delivery?),
            // The broker ended the consumer, because the queue was deleted. Asking for a message
            // returns that error.
            Ok(None) => return self.drain(session, deadline).await,
            // A message may have arrived during the cancellation.
            Err(_) => self.delivered_before_it_went(session, &mut consumer, deadline).await?,
        };
        if let Some(delivery) = first {
            self.settlements += 1;
            self.keep(session, delivery);
        }
        Ok(())
    }

    /// Cancels consumers, and waits until all deliveries sent to them have arrived. Returns `false`
    /// if the deliveries exceed the connection's limit (its intake).
    async fn stop_all(
        &mut self,
        session: &Session,
        consumers: &[Consumer],
        deadline: Deadline,
    ) -> Result<bool, Failure> {
        // The answer to a cancellation comes after all deliveries that are still on their way.
        let stopped =
            try_join_all(consumers.iter().map(|consumer| stop_consumer(session, consumer, deadline)));
        let mut stopped = std::pin::pin!(stopped);
        tokio::select! {
            biased;
            () = session.intake().exceeded() => {
                self.exceed_the_intake();
                ask_to_go(stopped);
                Ok(false)
            }
            stopped = &mut stopped => stopped.map(|_| true),
        }
    }

    /// Takes up to `count` messages from a consumer, and returns their number. Ends early if no
    /// delivery arrives for [`IDLE_TIMEOUT`] and none is on its way, or soon after the time
    /// `stop_at`.
    ///
    /// A slow quorum queue may still be about to send its deliveries. It takes back those that a
    /// cancelled consumer gets (`handle_delivery` in RabbitMQ's `rabbit_fifo_client`), so later
    /// messages would be taken before them.
    async fn take_from(
        &mut self,
        session: &Session,
        consumer: &mut Consumer,
        count: usize,
        stop_at: Deadline,
    ) -> Result<usize, Failure> {
        let mut brought = 0;
        // One timer for all deliveries: setting one for each costs more than the delivery.
        let mut pause = std::pin::pin!(tokio::time::sleep(IDLE_TIMEOUT));
        let mut idle = true;
        while brought < count && self.stop.is_none() {
            tokio::select! {
                biased;
                delivery = next(consumer, count - brought) => {
                    let Some(delivery) = delivery else { break };
                    brought += 1;
                    idle = false;
                    self.keep(session, delivery?);
                }
                () = &mut pause => {
                    if stop_at.has_passed() {
                        break;
                    }
                    if idle {
                        self.let_deliveries_arrive(session, stop_at).await;
                        let Some(Some(delivery)) = consumer.next().now_or_never() else { break };
                        brought += 1;
                        self.keep(session, delivery?);
                    }
                    idle = !idle;
                    pause.as_mut().reset(tokio::time::Instant::now() + IDLE_TIMEOUT);
                }
            }
        }
        Ok(brought)
    }

    /// Waits until everything that the queue has sent to the consumers has arrived, or the
    /// deliveries exceed the connection's limit (its intake).
    async fn let_deliveries_arrive(&self, session: &Session, stop_at: Deadline) {
        tokio::select! {
            biased;
            () = session.intake().exceeded() => {}
            () = session.let_the_queue_catch_up(self.queue, stop_at) => {}
        }
    }

    /// Starts a consumer with a new tag. With the tag of an earlier consumer that has unsettled
    /// messages, a quorum queue would continue the earlier consumer's count, which crashes the
    /// channel in RabbitMQ 3.10.
    async fn start_consumer(
        &mut self,
        session: &Session,
        prefetch: usize,
        deadline: Deadline,
    ) -> Result<Consumer, Failure> {
        let prefetch = u16::try_from(prefetch).unwrap_or(u16::MAX);
        self.consumers += 1;
        let tag = format!("{CONSUMER}-{}", self.consumers).into();
        let started = call(deadline, consume(session.channel(), short(self.queue), tag, prefetch)).await;
        // Permission to read is not the cause: a message was taken before.
        self.consumer_was_refused =
            started.as_ref().err().and_then(Failure::reply).is_some_and(|reply| reply.code == 403);
        started
    }

    /// Returns a delivery that a cancelled consumer received before; `None` if there are no more.
    /// The client library does not always end the consumer if the queue is deleted at the same
    /// moment. In that case the queue is queried. If it still answers, the error is
    /// [`Failure::Deadline`], so that the caller closes the connection.
    async fn delivered_before_it_went(
        &self,
        session: &Session,
        consumer: &mut Consumer,
        deadline: Deadline,
    ) -> Result<Option<Delivery>, Failure> {
        match deadline.min(GONE).run(consumer.next()).await {
            Ok(delivery) => Ok(delivery.transpose()?),
            Err(_) => {
                inspect(session.channel(), self.queue, deadline).await?;
                Err(Failure::Deadline)
            }
        }
    }
}

/// Waits for the next of `expected` deliveries, and returns it; `None` if the consumer has ended.
/// If many are expected, looks only every [`A_MOMENT`], so that they come in groups. No delivery is
/// lost if the future is dropped.
async fn next<S: Stream + Unpin>(deliveries: &mut S, expected: usize) -> Option<S::Item> {
    if expected < MANY {
        return deliveries.next().await;
    }
    loop {
        if let Some(delivery) = deliveries.next().now_or_never() {
            return delivery;
        }
        tokio::time::sleep(A_MOMENT).await;
    }
}

/// Polls `stopped`, a future that cancels consumers, only once. This sends the cancellations
/// without waiting for their answers, which arrive after all deliveries that were already sent. The
/// cancelled consumers then get no more messages, not even returned ones.
fn ask_to_go<T>(stopped: impl Future<Output = T>) {
    let _ = stopped.now_or_never();
}

async fn stop_consumer(session: &Session, consumer: &Consumer, deadline: Deadline) -> Result<(), Failure> {
    call(deadline, session.channel().basic_cancel(consumer.tag(), BasicCancelOptions::default())).await
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn each_delivery_is_taken_once_and_the_end_is_seen_however_many_are_expected() {
        for expected in [1, MANY - 1, MANY, 10 * MANY] {
            let (sender, mut receiver) = mpsc::unbounded_channel();
            let mut deliveries = stream::poll_fn(move |context| receiver.poll_recv(context));
            sender.send(1).unwrap();
            assert_eq!(next(&mut deliveries, expected).await, Some(1));
            let given_up = tokio::time::timeout(2 * A_MOMENT, next(&mut deliveries, expected));
            assert!(given_up.await.is_err());
            let (second, sent) = tokio::join!(next(&mut deliveries, expected), async { sender.send(2) });
            assert_eq!((second, sent), (Some(2), Ok(())));
            sender.send(3).unwrap();
            drop(sender);
            assert_eq!(next(&mut deliveries, expected).await, Some(3));
            assert_eq!(next(&mut deliveries, expected).await, None);
        }
    }
}
