//! Getting messages from a queue.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::StreamExt as _;
use lapin::message::Delivery;
use lapin::options::{
    BasicCancelOptions, BasicConsumeOptions, BasicGetOptions, BasicNackOptions, BasicQosOptions,
};
use lapin::types::{FieldTable, ShortString};
use mq::{Access, Ack, AckMode, BrokerError, ConsumeCommand, Consumed, Deadline, QueueName, UnitOfWork};

use crate::errors::{During, Failure};
use crate::message::received;
use crate::pools::ConnectionPools;
use crate::queue_facts::{self, QueueKind};
use crate::session::{Session, call, short};
use crate::unit_of_work::{Done, Taken};

/// What is kept of the time when waiting for a first message, for all that follows.
const WAIT_MARGIN: Duration = Duration::from_secs(1);
/// What is kept of the time when taking messages.
const TAKE_MARGIN: Duration = Duration::from_millis(250);

const CONSUMER: &str = "integrahub";

pub(crate) async fn fetch(
    pool: &Arc<ConnectionPools>,
    access: &Access,
    queue: &QueueName,
    command: &ConsumeCommand,
    max_bytes: usize,
    deadline: Deadline,
) -> Result<Box<dyn UnitOfWork>, BrokerError> {
    if !command.selector.is_empty() {
        let detail = "RabbitMQ cannot select messages by their properties".to_owned();
        return Err(BrokerError::Unsupported { detail });
    }
    let session = Session::open(pool, access, deadline).await?;
    if let AckMode::Browse | AckMode::Take(Ack::Rollback) = command.mode
        && let Err(error) = refuse_to_requeue(&session, queue, deadline).await
    {
        session.finish(deadline).await;
        return Err(error);
    }
    let mut taking = Taking {
        queue,
        command,
        max_bytes,
        size: 0,
        last_tag: None,
        stop: None,
        consumed: Consumed::default(),
    };
    if let Err(failure) = taking.run(&session, deadline).await {
        return Err(session.fail(failure, During::Queue(queue)));
    }
    let too_large = matches!(taking.stop, Some(Full::First));
    let mut taken =
        Taken { session, queue: queue.clone(), last_tag: taking.last_tag, consumed: taking.consumed };
    if too_large {
        taken.restore(deadline).await;
        return Err(BrokerError::MessageTooLarge {
            detail: format!("the first message of the queue {queue} alone exceeds what an answer can carry"),
        });
    }
    match command.mode {
        AckMode::Take(Ack::Commit | Ack::Rollback) => Ok(Box::new(taken)),
        AckMode::Take(Ack::None) => Ok(Box::new(remove(taken, deadline).await)),
        AckMode::Browse => {
            taken.consumed.warnings.push(
                "RabbitMQ has no browse: the messages were taken and put back, hidden from others meanwhile, and are marked as redelivered"
                    .to_owned(),
            );
            Ok(Box::new(Done { consumed: taken.restore(deadline).await, removed: false }))
        }
    }
}

/// Removes messages outside any transaction.
async fn remove(taken: Taken, deadline: Deadline) -> Done {
    let (mut consumed, removed) = taken.remove(deadline).await;
    consumed.warnings.push(
        "the messages were removed at once, outside any transaction; they are lost if this answer is"
            .to_owned(),
    );
    if let Err(error) = removed {
        consumed.warnings.push(format!("the messages may be delivered again: {error}"));
    }
    Done { consumed, removed: true }
}

/// Refuses where putting messages back is not harmless. A quorum queue counts every return, and past its delivery limit
/// it drops the message.
async fn refuse_to_requeue(
    session: &Session,
    queue: &QueueName,
    deadline: Deadline,
) -> Result<(), BrokerError> {
    let kind = match queue_facts::learn(session, queue, deadline).await?.kind {
        QueueKind::Classic => return Ok(()),
        QueueKind::Quorum => "a quorum queue".to_owned(),
        QueueKind::Stream => "a stream".to_owned(),
        QueueKind::Other(name) => format!("of the unknown type `{name}`"),
    };
    Err(BrokerError::Unsupported {
        detail: format!(
            "{queue} is {kind}: messages cannot be looked at and put back there, because a queue may drop what returns too often"
        ),
    })
}

/// Why no more is taken.
enum Full {
    /// The next message does not fit any more.
    Next,
    /// The very first one does not.
    First,
}

struct Taking<'a> {
    queue: &'a QueueName,
    command: &'a ConsumeCommand,
    max_bytes: usize,
    size: usize,
    last_tag: Option<u64>,
    stop: Option<Full>,
    consumed: Consumed,
}

impl Taking<'_> {
    async fn run(&mut self, session: &Session, deadline: Deadline) -> Result<(), Failure> {
        let available = deadline.earlier_by(WAIT_MARGIN).remaining();
        let wait = Duration::from_secs(self.command.wait_seconds.get().into()).min(available);
        self.consumed.wait_seconds_applied = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX);
        if available < Duration::from_secs(self.command.wait_seconds.get().into()) {
            self.consumed.warnings.push("the wait was cut short by the time that the request has".to_owned());
        }
        let wait = Deadline::after(wait);
        self.drain(session, deadline).await?;
        if self.consumed.messages.is_empty() && self.stop.is_none() && !wait.has_passed() {
            self.wait_for_first(session, wait, deadline).await?;
            if !self.consumed.messages.is_empty() {
                self.drain(session, deadline).await?;
            }
        }
        if matches!(self.stop, Some(Full::Next)) {
            self.consumed.truncated = true;
        }
        Ok(())
    }

    /// Takes what is there.
    async fn drain(&mut self, session: &Session, deadline: Deadline) -> Result<(), Failure> {
        let stop_at = deadline.earlier_by(TAKE_MARGIN);
        while self.stop.is_none() && self.consumed.messages.len() < self.max_messages() {
            if !self.consumed.messages.is_empty() && stop_at.has_passed() {
                self.consumed.warnings.push("the time ended before all messages were taken".to_owned());
                break;
            }
            let get = session.channel().basic_get(short(self.queue), BasicGetOptions { no_ack: false });
            match call(deadline, get).await? {
                Some(message) => self.take(session, message.delivery, deadline).await?,
                None => break,
            }
        }
        Ok(())
    }

    fn max_messages(&self) -> usize {
        usize::try_from(self.command.max_messages.get()).unwrap_or(usize::MAX)
    }

    /// Waits for one message with a consumer, which is gone again when this returns.
    async fn wait_for_first(
        &mut self,
        session: &Session,
        wait: Deadline,
        deadline: Deadline,
    ) -> Result<(), Failure> {
        let channel = session.channel();
        call(deadline, channel.basic_qos(1, BasicQosOptions::default())).await?;
        let consume = channel.basic_consume(
            short(self.queue),
            CONSUMER.into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        let mut consumer = call(deadline, consume).await?;
        let first = wait.run(consumer.next()).await;
        call(deadline, channel.basic_cancel(ShortString::from(CONSUMER), BasicCancelOptions::default()))
            .await?;
        match first {
            Ok(Some(delivery)) => return self.take(session, delivery?, deadline).await,
            // The broker ended the consumer, because the queue went away. Asking for a message tells.
            Ok(None) => return self.drain(session, deadline).await,
            Err(_) => {}
        }
        // A message may have come while the consumer went.
        while let Ok(Some(delivery)) = deadline.run(consumer.next()).await {
            self.take(session, delivery?, deadline).await?;
        }
        Ok(())
    }

    /// Keeps a message, or puts it back where it does not fit.
    async fn take(
        &mut self,
        session: &Session,
        delivery: Delivery,
        deadline: Deadline,
    ) -> Result<(), Failure> {
        let tag = delivery.delivery_tag;
        let message = received(delivery);
        // And the comma between two messages.
        let size = self.size.saturating_add(message.carried_size()).saturating_add(1);
        if size > self.max_bytes {
            let requeue = BasicNackOptions { multiple: false, requeue: true };
            call(deadline, session.channel().basic_nack(tag, requeue)).await?;
            self.stop = Some(if self.consumed.messages.is_empty() { Full::First } else { Full::Next });
            return Ok(());
        }
        self.size = size;
        self.last_tag = Some(tag);
        self.consumed.messages.push(message);
        Ok(())
    }
}
