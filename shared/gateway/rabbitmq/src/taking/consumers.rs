//! Consumers that take what is there and go.

use std::time::Duration;

use broker::Deadline;
use futures_util::future::{FutureExt as _, try_join, try_join_all};
use futures_util::stream::StreamExt as _;
use lapin::Consumer;
use lapin::message::Delivery;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;

use super::{POLL, Taking};
use crate::errors::Failure;
use crate::session::{Session, call, inspect, short};

/// Begins the consumers' tags.
const CONSUMER: &str = "integrahub";
/// How long a consumer may be given nothing before the queue is asked again: others may have been
/// faster.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long a consumer that is gone may take to end.
const GONE: Duration = Duration::from_secs(1);
/// Fewer messages than this are got one by one: a consumer takes two round trips to come and go.
const FEWEST_BY_CONSUMER: usize = 4;

impl Taking<'_> {
    /// Takes messages with consumers, each for more than those before it, as long as each brings
    /// all that it may. Says what the last one brought, if any came. All are gone again when this
    /// returns.
    ///
    /// One that brought all is given nothing more while nothing is settled, so it may stay until
    /// the end, and the next need not wait for it to go.
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

    /// Waits for one message with a consumer, which is gone again when this returns.
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
            // The broker ended the consumer, because the queue went away. Asking for a message
            // tells.
            Ok(None) => return self.drain(session, deadline).await,
            // A message may have come while the consumer went.
            Err(_) => self.delivered_before_it_went(session, &mut consumer, deadline).await?,
        };
        if let Some(delivery) = first {
            self.settlements += 1;
            self.keep(session, delivery);
        }
        Ok(())
    }

    /// Lets consumers go, and says whether all that was on its way to them has come. Not if that is
    /// more than the connection lets in.
    async fn stop_all(
        &mut self,
        session: &Session,
        consumers: &[Consumer],
        deadline: Deadline,
    ) -> Result<bool, Failure> {
        // The answer to a cancellation comes after all that is still on its way.
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

    /// Takes up to `count` messages that a consumer brings without a long pause.
    async fn take_from(
        &mut self,
        session: &Session,
        consumer: &mut Consumer,
        count: usize,
        stop_at: Deadline,
    ) -> Result<usize, Failure> {
        let mut brought = 0;
        // One timer for all deliveries: setting one for each costs more than the delivery.
        let mut pause = std::pin::pin!(tokio::time::sleep(PATIENCE));
        let mut idle = true;
        while brought < count && self.stop.is_none() {
            tokio::select! {
                biased;
                delivery = consumer.next() => {
                    let Some(delivery) = delivery else { break };
                    brought += 1;
                    idle = false;
                    self.keep(session, delivery?);
                }
                () = &mut pause => {
                    if idle || stop_at.has_passed() {
                        break;
                    }
                    idle = true;
                    pause.as_mut().reset(tokio::time::Instant::now() + PATIENCE);
                }
            }
        }
        Ok(brought)
    }

    /// Each consumer has a tag of its own: a quorum queue goes on counting where one left off that
    /// has the same tag and unsettled messages, which the broker (3.10) does not survive on its
    /// channel.
    async fn start_consumer(
        &mut self,
        session: &Session,
        prefetch: usize,
        deadline: Deadline,
    ) -> Result<Consumer, Failure> {
        let channel = session.channel();
        let prefetch = u16::try_from(prefetch).unwrap_or(u16::MAX);
        let limit = channel.basic_qos(prefetch, BasicQosOptions::default());
        self.consumers += 1;
        let consume = channel.basic_consume(
            short(self.queue),
            format!("{CONSUMER}-{}", self.consumers).into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        // The broker takes them in this order, so neither has to wait for the other's answer.
        let started =
            call(deadline, async { try_join(limit, consume).await.map(|((), consumer)| consumer) }).await;
        // The permission to read was not in question: a message was asked for before.
        self.consumer_was_refused =
            started.as_ref().err().and_then(Failure::reply).is_some_and(|reply| reply.code == 403);
        started
    }

    /// What a consumer that is gone was given before. The library has all of it by now, but does
    /// not always end the consumer when the queue is deleted in the same moment; then the queue is
    /// asked, and what is in doubt is cut.
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

/// Sends cancellations without waiting for their answers, which come after all that is on its way:
/// the consumers are given nothing more, not even what goes back.
fn ask_to_go<T>(stopped: impl Future<Output = T>) {
    let _ = stopped.now_or_never();
}

async fn stop_consumer(session: &Session, consumer: &Consumer, deadline: Deadline) -> Result<(), Failure> {
    call(deadline, session.channel().basic_cancel(consumer.tag(), BasicCancelOptions::default())).await
}
