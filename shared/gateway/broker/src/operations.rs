//! The interface that every kind of broker implements. Every operation has a deadline and leaves
//! nothing open when it returns: no unit of work, no unacknowledged delivery, no consumer.

use async_trait::async_trait;
use attempt::Deadline;
use mq::{
    Access, AllowedQueues, BrokerError, ConnectionCounts, ConsumeCommand, Consumed, DepthReport, Exchange,
    MaxMessages, MessageId, MoveCommand, MoveFailure, MoveReport, Outgoing, ProduceFailure, ProduceReport,
    QueueName, ReceivedMessage, TestReport, WaitSeconds,
};
use tokio::sync::watch;

use crate::load::{GetOptions, LoadConsumer, LoadProducer, PutOptions};

/// Received messages that are not settled yet, as one unit of work.
#[async_trait]
pub trait UnitOfWork: Send {
    /// Returns the received messages, with the warnings and other details that the response
    /// reports.
    fn consumed(&self) -> &Consumed;

    /// Removes the messages from the queue. If the broker's answer does not arrive, the error is
    /// [`BrokerError::InDoubt`].
    async fn commit(self: Box<Self>, deadline: Deadline) -> Result<(), BrokerError>;

    /// Returns the messages to their positions on the queue.
    async fn rollback(self: Box<Self>, deadline: Deadline) -> Result<(), BrokerError>;
}

/// Range of messages that earlier attempts at a produce may have put without confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlierAttempts {
    /// Number of the produce's messages, counted from the first, that are known to have been put.
    pub from: u64,
    /// Maximum number of messages from index `from` on that may have been put without confirmation.
    pub most: u64,
    /// True if earlier attempts are known to have put messages only on the queue that is searched.
    /// False if they may have put some elsewhere, from where other clients may have moved them to
    /// this queue.
    pub is_here: bool,
}

/// Connection for a produce, on which this attempt has put no message yet. The broker has reported
/// its identity, so the caller can tell whether earlier attempts put messages on the same broker.
#[async_trait]
pub trait ReadyToPut: Send {
    /// Returns the name of the broker's cluster; `None` if the broker reports none.
    fn cluster(&self) -> Option<&str>;

    /// Searches the queue for unconfirmed messages of earlier attempts. Returns how many of the
    /// first messages are known to have been put here. A broker that cannot search returns
    /// `unconfirmed.from`.
    async fn find(&mut self, unconfirmed: EarlierAttempts, deadline: Deadline) -> u64 {
        let _ = deadline;
        unconfirmed.from
    }

    /// Puts the messages from index `from` on, in order, at the rate and in the transactions that
    /// the request sets. Each is confirmed by the broker. `confirmed` receives the number of first
    /// messages (including those before `from`) that are on the queue; it may lag behind, but is
    /// never too high.
    async fn put(
        self: Box<Self>,
        from: u64,
        confirmed: &watch::Sender<u64>,
        deadline: Deadline,
    ) -> Result<ProduceReport, ProduceFailure>;
}

/// Result of one [`Relocation::put`]: messages that were put on their destination queues and are
/// not yet removed from the source queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutMessages {
    /// Number of messages that were put. There are two reasons for 0: the move puts no more
    /// messages, or all messages of this call stay on the source queue although [another
    /// queue](Relocation::refused_in_doubt) may have a copy.
    pub count: u64,
    /// True if the messages are on their destination queues for certain. False if they appear there
    /// when the unit of work commits that also removes them from the source queue.
    pub is_certain: bool,
    /// True if the move puts no more messages after these.
    pub is_last: bool,
}

/// Move of messages from one queue to others at the same broker. Each message is removed from the
/// source queue after it was put on the destination, or in the same unit of work, so that none is
/// lost. Dropping the value leaves unsettled messages on the source queue.
#[async_trait]
pub trait Relocation: Send {
    /// Returns the name of the broker's cluster; `None` if the broker reports none.
    fn cluster(&self) -> Option<&str>;

    /// Returns the maximum number of messages that may be on both source and destination queue if
    /// the move ends without a report; 0 if the broker moves atomically.
    fn most_in_doubt(&self) -> u64;

    /// Returns the number of messages that the move has removed, but that are on the source queue
    /// again if the broker crashed before it had written their removal to disk.
    fn unreplicated_removals(&self) -> u64 {
        0
    }

    /// Returns the number of messages that stay on the source queue and may be on another queue
    /// too, because the destination that refused them may have dead-lettered them. One
    /// [`put`](Self::put) adds at most [`most_in_doubt`](Self::most_in_doubt).
    fn refused_in_doubt(&self) -> u64 {
        0
    }

    /// Puts the next messages on their destination queues, at most `limit`, and returns their
    /// number. Messages that cannot be put stay on the source queue.
    async fn put(&mut self, limit: u64, deadline: Deadline) -> Result<PutMessages, MoveFailure>;

    /// Removes the messages of the last [`put`](Self::put) from the source queue.
    async fn settle(&mut self, deadline: Deadline) -> Result<(), MoveFailure>;

    /// Ends the move, and returns the report about its messages. Messages that were examined but
    /// not moved stay on the source queue.
    async fn finish(self: Box<Self>, deadline: Deadline) -> MoveReport;
}

/// Operations of one kind of broker (RabbitMQ or IBM MQ) at any target.
#[async_trait]
pub trait Broker: Send + Sync {
    /// Returns a message id as the bytes that this kind of broker carries in a message.
    fn wire_id(&self, id: MessageId) -> Vec<u8>;

    /// Connects to put `outgoing` on `queue`. Fails before any put if this kind of broker cannot
    /// carry the messages.
    async fn connect_to_put<'a>(
        &self,
        access: &Access,
        queue: &'a QueueName,
        outgoing: &'a Outgoing,
        deadline: Deadline,
    ) -> Result<Box<dyn ReadyToPut + 'a>, BrokerError>;

    /// Connects to publish `outgoing` to `exchange`, each message with its routing key. A message
    /// without a bound queue fails with [`BrokerError::Unroutable`]. The default implementation is
    /// for brokers without exchanges, and fails.
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

    /// Connects, and puts the messages of `outgoing` from index `from` on, on whichever of the
    /// target's brokers answers. `confirmed` receives the progress as in [`ReadyToPut::put`]. Only
    /// for the first attempt at a request, because it does not search for messages of earlier
    /// attempts.
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

    /// Gets messages as one unit of work, which the caller commits or rolls back. Stops before the
    /// sum of their [`carried_size`](ReceivedMessage::carried_size) exceeds `max_bytes`. If the
    /// first message alone exceeds it, the error is [`BrokerError::MessageTooLarge`], and the
    /// message stays.
    async fn fetch(
        &self,
        access: &Access,
        queue: &QueueName,
        command: &ConsumeCommand,
        max_bytes: usize,
        deadline: Deadline,
    ) -> Result<Box<dyn UnitOfWork>, BrokerError>;

    /// Gets messages as [`Self::fetch`] does, but returns a first message that alone exceeds
    /// `max_bytes` by itself, if its body has at most `largest` bytes.
    ///
    /// The default implementation fetches such a message a second time. A broker that counts
    /// deliveries, or cannot hold every body in memory, overrides it.
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

    /// Connects to move messages from `queue`. A destination queue that a message itself names must
    /// be one that `reach` allows to the caller.
    async fn connect_to_move(
        &self,
        access: &Access,
        queue: &QueueName,
        command: &MoveCommand,
        reach: &AllowedQueues,
        deadline: Deadline,
    ) -> Result<Box<dyn Relocation>, BrokerError>;

    /// Reports what a move with the same arguments would do, without moving messages.
    async fn preview_move(
        &self,
        access: &Access,
        queue: &QueueName,
        command: &MoveCommand,
        reach: &AllowedQueues,
        deadline: Deadline,
    ) -> Result<MoveReport, BrokerError>;

    /// Connects to put the messages of a load test on `queue`. Fails if this kind of broker cannot
    /// carry the messages.
    async fn connect_load_producer<'a>(
        &self,
        access: &Access,
        queue: &'a QueueName,
        options: &'a PutOptions,
        deadline: Deadline,
    ) -> Result<Box<dyn LoadProducer + 'a>, BrokerError>;

    /// Connects to take the messages of a load test from `queue`. The first [`LoadConsumer::next`]
    /// begins to take them.
    async fn connect_load_consumer<'a>(
        &self,
        access: &Access,
        queue: &'a QueueName,
        options: &'a GetOptions,
        deadline: Deadline,
    ) -> Result<Box<dyn LoadConsumer + 'a>, BrokerError>;

    /// Opens a connection and leaves it in the pool for the next operation. Errors concern the
    /// broker, the virtual host or queue manager, or the login.
    async fn connect(&self, access: &Access, deadline: Deadline) -> Result<(), BrokerError>;

    /// Measures the depth of a queue without receiving messages.
    async fn depth(
        &self,
        access: &Access,
        queue: &QueueName,
        deadline: Deadline,
    ) -> Result<DepthReport, BrokerError>;

    /// True if opening a connection failed with this error because of the target's secrets, which
    /// may have been rotated since they were read.
    fn is_about_secrets(&self, error: &BrokerError) -> bool {
        matches!(error, BrokerError::AuthenticationFailed { .. })
    }

    /// Tests a new connection step by step; without a `queue`, no queue is opened. Failures are in
    /// the report.
    async fn test(&self, access: &Access, queue: Option<&QueueName>, deadline: Deadline) -> TestReport;

    /// Lists the pools of open connections of this kind of broker.
    fn pools(&self) -> Vec<ConnectionCounts>;
}

/// Messages of a consume that need no settlement: they are back on the queue, or removed for good.
#[derive(Debug)]
pub struct SettledMessages {
    /// Messages that the consume has received, for the response.
    pub consumed: Consumed,
    /// True if the messages were removed from the queue; false if they are back on it.
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
