//! The one interface to a broker. Every operation has a deadline and leaves nothing open when it
//! returns: no unit of work, no unacknowledged delivery, no consumer.

use async_trait::async_trait;
use attempt::Deadline;
use mq::{
    Access, BrokerError, ConsumeCommand, Consumed, DepthReport, Exchange, MaxMessages, MessageId,
    MoveCommand, MoveFailure, MoveReport, Outgoing, PoolReport, ProduceFailure, ProduceReport, QueueName,
    Reach, ReceivedMessage, TestReport, WaitSeconds,
};
use tokio::sync::watch;

use crate::load::{GetOptions, LoadConsumer, LoadProducer, PutOptions};

/// Messages that were received but not yet settled, in one unit of work.
#[async_trait]
pub trait UnitOfWork: Send {
    /// Returns the messages, with facts about them for the response.
    fn consumed(&self) -> &Consumed;

    /// Removes the messages from the queue. If the broker's answer does not come, the error is
    /// [`BrokerError::InDoubt`].
    async fn commit(self: Box<Self>, deadline: Deadline) -> Result<(), BrokerError>;

    /// Returns the messages to their places on the queue.
    async fn rollback(self: Box<Self>, deadline: Deadline) -> Result<(), BrokerError>;
}

/// Messages that earlier attempts at a produce may have put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlierAttempts {
    /// Number of the first messages that are known to have been put.
    pub from: u64,
    /// Maximum number of messages after `from` that may have been put.
    pub most: u64,
    /// True if they were put here if they were put at all, unless a person moved them.
    pub is_here: bool,
}

/// A connection on which no message has been put yet. The broker has reported its identity, so the
/// caller knows if messages of an earlier attempt are there.
#[async_trait]
pub trait ReadyToPut: Send {
    /// Returns the broker's name of the cluster that it belongs to, if it reports one.
    fn cluster(&self) -> Option<&str>;

    /// Searches for messages of earlier attempts that were not confirmed, and returns how many of
    /// the first messages were put here for certain. A broker that cannot search returns the number
    /// that was known before.
    async fn find(&mut self, unconfirmed: EarlierAttempts, deadline: Deadline) -> u64 {
        let _ = deadline;
        unconfirmed.from
    }

    /// Puts the messages from index `from` on, in order, each confirmed by the broker, at their
    /// rate and grouped in their transactions. `confirmed` is raised as confirms come in: that many
    /// of the first messages, those before `from` included, are on the queue whatever happens from
    /// then on. It may lag behind the result, never run ahead of it.
    async fn put(
        self: Box<Self>,
        from: u64,
        confirmed: &watch::Sender<u64>,
        deadline: Deadline,
    ) -> Result<ProduceReport, ProduceFailure>;
}

/// Messages that are put at their new places and still in hand at the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutMessages {
    /// Number of these messages; 0 only if no more will be put, or if more is [left
    /// somewhere](Relocation::left_somewhere) than before.
    pub count: u64,
    /// True if the messages are at their new places whatever happens from now on. If not, they come
    /// there when they leave the old one, in one unit of work.
    pub is_certain: bool,
    /// True if no more messages will be put.
    pub is_last: bool,
}

/// Messages on their way from one queue to others of the same broker. Each leaves its old place
/// after it has come to its new one, or in the same unit of work, so none is lost. If the value is
/// dropped, the messages that were not settled stay at the old place.
#[async_trait]
pub trait Relocation: Send {
    /// Returns the broker's name of the cluster that it belongs to, if it reports one.
    fn cluster(&self) -> Option<&str>;

    /// Returns the most messages that may be at both places if the move ends without a report.
    fn most_in_doubt(&self) -> u64;

    /// Returns the number of messages that left their old place, but may be there again if the
    /// broker ended before it had written down that they left.
    fn may_return(&self) -> u64 {
        0
    }

    /// Counts the messages that stay at their old place, and may be at another one too, because the
    /// queue that refused them does not prove that they are not. A [`put`](Self::put) leaves no
    /// more of them than [may be in doubt](Self::most_in_doubt).
    fn left_somewhere(&self) -> u64 {
        0
    }

    /// Puts the next messages at their new places, at most `limit`. Messages that cannot be put
    /// stay.
    async fn put(&mut self, limit: u64, deadline: Deadline) -> Result<PutMessages, MoveFailure>;

    /// Removes from the old place the messages that were put last.
    async fn settle(&mut self, deadline: Deadline) -> Result<(), MoveFailure>;

    /// Ends the move. Messages that were examined and not moved are at their old place.
    async fn finish(self: Box<Self>, deadline: Deadline) -> MoveReport;
}

/// Operations of one kind of broker, at every target.
#[async_trait]
pub trait Broker: Send + Sync {
    /// Returns a message id in this broker's wire format.
    fn wire_id(&self, id: MessageId) -> Vec<u8>;

    /// Connects to put `outgoing` on `queue`. Refuses work that this kind of broker cannot do at
    /// all.
    async fn connect_to_put<'a>(
        &self,
        access: &Access,
        queue: &'a QueueName,
        outgoing: &'a Outgoing,
        deadline: Deadline,
    ) -> Result<Box<dyn ReadyToPut + 'a>, BrokerError>;

    /// Connects to publish `outgoing` to `exchange`, each message with its routing key. A message
    /// that no queue gets is [`BrokerError::Unroutable`]. By default a kind of broker has no
    /// exchanges, and refuses.
    async fn connect_to_publish<'a>(
        &self,
        access: &Access,
        exchange: &'a Exchange,
        outgoing: &'a Outgoing,
        deadline: Deadline,
    ) -> Result<Box<dyn ReadyToPut + 'a>, BrokerError> {
        let _ = (access, outgoing, deadline);
        Err(BrokerError::unsupported(format!("this broker has no exchanges, as `{}`", exchange.name)))
    }

    /// Puts the messages of `outgoing` from index `from` on, on whichever broker answers: for
    /// callers that have put nothing before. See [`ReadyToPut::put`].
    async fn produce(
        &self,
        access: &Access,
        queue: &QueueName,
        outgoing: &Outgoing,
        from: u64,
        confirmed: &watch::Sender<u64>,
        deadline: Deadline,
    ) -> Result<ProduceReport, ProduceFailure> {
        let ready = self.connect_to_put(access, queue, outgoing, deadline).await;
        let nothing = |error| ProduceFailure { error, committed: from, in_doubt: Vec::new() };
        ready.map_err(nothing)?.put(from, confirmed, deadline).await
    }

    /// Gets messages as one unit of work. Stops before the messages'
    /// [`carried_size`](ReceivedMessage::carried_size) exceeds `max_bytes`; a first message
    /// that alone does is [`BrokerError::MessageTooLarge`] and stays.
    async fn fetch(
        &self,
        access: &Access,
        queue: &QueueName,
        command: &ConsumeCommand,
        max_bytes: usize,
        deadline: Deadline,
    ) -> Result<Box<dyn UnitOfWork>, BrokerError>;

    /// Gets messages as [`Self::fetch`] does, but also a first message that alone exceeds
    /// `max_bytes`: by itself, if its body has at most `largest` bytes. The caller can tell by its
    /// size.
    ///
    /// By default the message is fetched a second time. A broker that counts how often a message
    /// goes back, or that has no room for every body, has an implementation of its own.
    async fn fetch_large(
        &self,
        access: &Access,
        queue: &QueueName,
        command: &ConsumeCommand,
        max_bytes: usize,
        largest: usize,
        deadline: Deadline,
    ) -> Result<Box<dyn UnitOfWork>, BrokerError> {
        let fetched = self.fetch(access, queue, command, max_bytes, deadline).await;
        let Err(BrokerError::MessageTooLarge { .. }) = fetched else { return fetched };
        // The message was there, so there is no wait: at worst another client has it by now.
        let one = ConsumeCommand {
            max_messages: MaxMessages::default(),
            wait_seconds: WaitSeconds::try_from(0_i64).unwrap_or_default(),
            ..command.clone()
        };
        self.fetch(access, queue, &one, ReceivedMessage::most_carried(largest), deadline).await
    }

    /// Connects to move messages from `queue` to others. Queues that the messages themselves name
    /// must be within `reach`.
    async fn connect_to_move(
        &self,
        access: &Access,
        queue: &QueueName,
        command: &MoveCommand,
        reach: &Reach,
        deadline: Deadline,
    ) -> Result<Box<dyn Relocation>, BrokerError>;

    /// Reports the effects of [`Self::connect_to_move`] and the move after it, and moves nothing.
    async fn preview_move(
        &self,
        access: &Access,
        queue: &QueueName,
        command: &MoveCommand,
        reach: &Reach,
        deadline: Deadline,
    ) -> Result<MoveReport, BrokerError>;

    /// Connects to put the messages of a load test on `queue`. Refuses messages that this kind of
    /// broker cannot carry.
    async fn connect_load_producer<'a>(
        &self,
        access: &Access,
        queue: &'a QueueName,
        options: &'a PutOptions,
        deadline: Deadline,
    ) -> Result<Box<dyn LoadProducer + 'a>, BrokerError>;

    /// Connects to take the messages of a load test from `queue`. None is taken yet.
    async fn connect_load_consumer<'a>(
        &self,
        access: &Access,
        queue: &'a QueueName,
        options: &'a GetOptions,
        deadline: Deadline,
    ) -> Result<Box<dyn LoadConsumer + 'a>, BrokerError>;

    /// Connects, and leaves the connection to the next operation. An error is about the login or
    /// the place, and about no queue.
    async fn connect(&self, access: &Access, deadline: Deadline) -> Result<(), BrokerError>;

    /// Measures a queue without touching its messages.
    async fn depth(
        &self,
        access: &Access,
        queue: &QueueName,
        deadline: Deadline,
    ) -> Result<DepthReport, BrokerError>;

    /// True if a connection failed with this error because of the target's secrets, which may have
    /// been replaced since they were read.
    fn is_about_secrets(&self, error: &BrokerError) -> bool {
        matches!(error, BrokerError::AuthenticationFailed { .. })
    }

    /// Tests a new connection step by step; the report contains the failures.
    async fn test(&self, access: &Access, queue: Option<&QueueName>, deadline: Deadline) -> TestReport;

    /// Lists the pools of open connections.
    fn pools(&self) -> Vec<PoolReport>;
}

/// Messages that need no settlement any more: read and put back, or removed for good.
#[derive(Debug)]
pub struct SettledMessages {
    /// Messages of the consume, as the response shows them.
    pub consumed: Consumed,
    /// True if the messages have left the queue.
    pub removed: bool,
}

#[async_trait]
impl UnitOfWork for SettledMessages {
    fn consumed(&self) -> &Consumed {
        &self.consumed
    }

    async fn commit(self: Box<Self>, _: Deadline) -> Result<(), BrokerError> {
        Ok(())
    }

    async fn rollback(self: Box<Self>, _: Deadline) -> Result<(), BrokerError> {
        if self.removed {
            let detail = "the messages were removed when they were taken and cannot be put back";
            return Err(BrokerError::unsupported(detail));
        }
        Ok(())
    }
}
