//! Producer and consumer of a load test, for one message at a time. A worker puts each message when
//! it is due, or takes each when it arrives, and learns when the broker answered.
//!
//! Every message carries the properties `idempotencyKey` and `sequence`, as those of a produce do,
//! and also [`TEST_ID`] and [`SENT_AT`].

use std::num::{NonZeroU16, NonZeroUsize};
use std::time::Instant;

use async_trait::async_trait;
use attempt::Deadline;
use mq::{BrokerError, Outgoing, OutgoingMessage, PropertyText, QueueName};

/// Name of the message property with the sequence number, the same as in a produce request.
pub const SEQUENCE: &str = "sequence";
/// Name of the message property with the id of the load test.
pub const TEST_ID: &str = "testId";
/// Name of the message property with the send time of a load test's message, in microseconds since
/// 1970.
pub const SENT_AT: &str = "sentAtUs";

/// Limit on the total size in bytes of a publisher's unconfirmed message bodies, besides the limit
/// on their number. Below the limit, one more message of any size may be sent.
pub const MOST_IN_FLIGHT: usize = 8 * 1024 * 1024;

/// Settings of a load producer: the messages that it puts, and the limits on unconfirmed messages.
#[derive(Clone, Debug)]
pub struct PutOptions {
    /// Messages to put: their properties and headers, and the seed from which ids and bodies are
    /// derived. The message count, rate and transactions in this value are ignored.
    pub outgoing: Outgoing,
    /// Id of the load test, which every message carries.
    pub test: PropertyText,
    /// Maximum number of messages in flight (unconfirmed) at a time. For IBM MQ, whose client waits
    /// for each put, it limits the messages that wait for the connection's thread; a value below
    /// the size of a transaction is raised to that size.
    pub confirms_in_flight: NonZeroUsize,
    /// Number of messages of a transaction: a unit of work of IBM MQ, or a group of RabbitMQ whose
    /// confirms are awaited before the next group begins. 1 means no transactions.
    pub transaction: NonZeroUsize,
}

/// Outcome of one message that a load producer put, with the times of the put and of the broker's
/// answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// Sequence number of the message in the load test.
    pub sequence: u64,
    /// Time at which the message was handed to the client library.
    pub sent_at: Instant,
    /// Time at which the broker's answer arrived, or the producer stopped waiting for it.
    pub at: Instant,
    /// Outcome of the put, for example confirmed, refused or in doubt.
    pub outcome: Outcome,
}

/// Outcome of putting a message of a load test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The broker has confirmed the message, so it is on the queue.
    Confirmed,
    /// The broker refused the message, for example because the queue is full. RabbitMQ may have
    /// moved it to a dead-letter exchange.
    Refused,
    /// RabbitMQ returned the message, because no queue is bound for it. The message is on no queue.
    Returned,
    /// The message is on no queue: its unit of work was backed out, or its put did not begin.
    NotPut,
    /// The broker's answer did not arrive, so the message may be on the queue.
    InDoubt,
}

/// Result of a load producer when it ends: its last confirmations, and its last error.
#[derive(Clone, Debug)]
pub struct PutEnd {
    /// Confirmations that [`LoadProducer::confirmations`] has not returned. Each message of the
    /// producer has exactly one confirmation, either here or returned before.
    pub confirmations: Vec<Confirmation>,
    /// Last error that led to an outcome other than [`Outcome::Confirmed`]; `None` if there was
    /// none.
    pub error: Option<BrokerError>,
}

/// Producer of a load test, on its own connection. Dropping it ends the connection. Unconfirmed
/// messages are in doubt then: they may or may not be on the queue.
#[async_trait]
pub trait LoadProducer: Send {
    /// Hands a message to the client library, with `sent_at_us` as its [`SENT_AT`]. Waits while the
    /// limit of unconfirmed messages is reached, and records the confirmations that arrive
    /// meanwhile. If the call is cancelled, the message is not sent.
    ///
    /// # Errors
    /// [`BrokerError::Timeout`] if the limit was still reached at `deadline`; a later call may
    /// succeed. After any other error the producer cannot put messages. In both cases, the message
    /// is not sent.
    async fn put(
        &mut self,
        message: OutgoingMessage,
        sent_at_us: u64,
        deadline: Deadline,
    ) -> Result<(), BrokerError>;

    /// Waits until `due`, and records each confirmation with the time of its arrival. A plain sleep
    /// would make the measured latencies too long. If the call is cancelled, no confirmation is
    /// lost.
    async fn idle_until(&mut self, due: tokio::time::Instant);

    /// Returns the confirmations that have arrived since the last call, without waiting.
    fn confirmations(&mut self) -> Vec<Confirmation>;

    /// Commits an open unit of work, waits for all confirmations until `deadline`, and ends the
    /// producer. Messages without an answer are then [in doubt](Outcome::InDoubt). Returns the
    /// confirmations that [`Self::confirmations`] has not returned.
    async fn finish(self: Box<Self>, deadline: Deadline) -> PutEnd;
}

/// Settings of a load consumer: which messages it takes, and when it removes them.
#[derive(Clone, Debug)]
pub struct GetOptions {
    /// Id of the load test whose messages are taken.
    pub test: PropertyText,
    /// Maximum number of messages that are delivered in advance, by RabbitMQ or by the thread of an
    /// IBM MQ connection.
    pub prefetch: NonZeroU16,
    /// Number of messages that are removed together: by one `basic.ack` or one unit of work. A
    /// lower prefetch, or a lower limit of the queue manager, takes precedence.
    pub ack_every: NonZeroUsize,
    /// Treatment of messages that do not belong to the load test.
    pub foreign: Foreign,
}

/// Treatment of a message that does not belong to the load test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Foreign {
    /// The consumer ends, and the message returns to its position on the queue.
    #[default]
    Leave,
    /// The message is taken and removed, like messages of the load test.
    Take,
}

/// Values that a message of a load test carries in its properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Sequence number of the message in the load test.
    pub sequence: u64,
    /// Time in microseconds since 1970 at which the message was sent, as its producer stated in
    /// [`LoadProducer::put`].
    pub sent_at_us: u64,
}

/// Message that a load consumer took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time at which the message was received from the client library.
    pub at: Instant,
    /// Values of the load test that the message carries; `None` if it belongs to no test or to
    /// another test.
    pub stamp: Option<Stamp>,
    /// True if the broker reports that the message may have been delivered before.
    pub redelivered: bool,
    /// Length of the message body in bytes.
    pub bytes: usize,
}

/// Reason why a load consumer stops taking messages.
#[derive(Clone, Debug, thiserror::Error)]
pub enum GetError {
    /// The queue has a message that does not belong to the load test, and [`Foreign::Leave`] is
    /// set.
    #[error("the queue `{0}` has a message that is not of this test; it was left there")]
    Foreign(QueueName),
    /// The connection or the operation at the broker failed.
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

/// Result of a load consumer when it ends: its last messages, the sequence numbers of those that
/// may be delivered again, and its error.
#[derive(Clone, Debug)]
pub struct GetEnd {
    /// Messages that the consumer received, but [`LoadConsumer::next`] had not returned. They count
    /// as taken.
    pub rest: Vec<Arrival>,
    /// Sequence numbers of the test's messages that the consumer reported as taken, but that are or
    /// may be on the queue again, so that they may be delivered a second time.
    pub unsettled: Vec<u64>,
    /// Error that ended the consumer, or that left messages unsettled; `None` if there was none.
    pub error: Option<GetError>,
}

/// Consumer of a load test, on its own connection. Dropping it ends the connection, and returns the
/// messages that are not removed yet to the queue.
#[async_trait]
pub trait LoadConsumer: Send {
    /// Returns the next message; `None` if none arrives before `wait`. The first call begins to
    /// take messages. If the call is cancelled, no message is lost.
    ///
    /// # Errors
    /// If the consumer ended: a message of another test has to stay, or the broker failed.
    /// [`Self::finish`] settles the messages that were already received.
    async fn next(&mut self, wait: Deadline) -> Result<Option<Arrival>, GetError>;

    /// Stops taking messages, removes those already received from the queue, and ends the consumer
    /// before `deadline`. Returns the messages that [`Self::next`] has not returned, and the error
    /// if one occurred.
    async fn finish(self: Box<Self>, deadline: Deadline) -> GetEnd;
}
