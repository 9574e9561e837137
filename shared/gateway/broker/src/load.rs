//! Messages of a load test, one at a time: a worker puts each when it is due, or takes each as it
//! comes, and learns when the broker answered.
//!
//! Every message carries `idempotencyKey` and `sequence`, as those of a produce do, and beside them
//! the properties [`TEST_ID`] and [`SENT_AT`].

use std::num::{NonZeroU16, NonZeroUsize};
use std::time::Instant;

use async_trait::async_trait;
use attempt::Deadline;
use mq::{BrokerError, Outgoing, OutgoingMessage, PropertyText, QueueName};

/// Property with the number of a message, as in a produce.
pub const SEQUENCE: &str = "sequence";
/// Property with the id of the test that a message belongs to.
pub const TEST_ID: &str = "testId";
/// Property with the time that a message carries, in microseconds since 1970.
pub const SENT_AT: &str = "sentAtUs";

/// Limit on the total size of a producer's unconfirmed bodies in bytes, besides the limit on the
/// number of messages. A producer below the limit may send another message of any size.
pub const MOST_IN_FLIGHT: usize = 8 * 1024 * 1024;

/// Messages that a producer puts, and how it waits for their confirmations.
#[derive(Clone, Debug)]
pub struct PutOptions {
    /// Properties, headers and seed of the messages. Its number of messages, its rate and its
    /// transactions are ignored.
    pub outgoing: Outgoing,
    /// Id of the test, which every message carries.
    pub test: PropertyText,
    /// Maximum number of messages that are unconfirmed at once. IBM MQ's client waits for each put,
    /// so there it is the number of messages that are handed to the connection's thread. A
    /// transaction may always be filled.
    pub confirms_in_flight: NonZeroUsize,
    /// Messages of a transaction: on IBM MQ a unit of work, on RabbitMQ a group whose confirms are
    /// awaited before the next group begins. 1 means no transactions.
    pub transaction: NonZeroUsize,
}

/// The broker's answer to a message that was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// Sequence number of the message in the load test.
    pub sequence: u64,
    /// Time at which the message was handed to the client library.
    pub sent_at: Instant,
    /// Time at which the answer came, or the producer stopped waiting for it.
    pub at: Instant,
    /// Outcome of the put.
    pub outcome: Outcome,
}

/// Outcome of putting a message of a load test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The broker has the message.
    Confirmed,
    /// The broker refused the message, for example because the queue is full. RabbitMQ may have it
    /// at a dead-letter exchange nevertheless.
    Refused,
    /// RabbitMQ returned the message, because no queue takes it. The message is on no queue.
    Returned,
    /// The message is on no queue: its unit of work was backed out, or its put did not begin.
    NotPut,
    /// No answer came. The message may be on the queue.
    InDoubt,
}

/// Result of a load test's producer.
#[derive(Clone, Debug)]
pub struct PutEnd {
    /// Confirmations that [`LoadProducer::confirmations`] did not return before. With them, every
    /// message has one.
    pub confirmations: Vec<Confirmation>,
    /// Reason of the outcomes that are not [`Outcome::Confirmed`]; the last one if there are
    /// several, and `None` if there are none.
    pub error: Option<BrokerError>,
}

/// Producer of a load test, on a connection of its own. Dropping it ends the connection, and leaves
/// unconfirmed messages in doubt.
#[async_trait]
pub trait LoadProducer: Send {
    /// Hands a message to the client library, with `sent_at_us` as its [`SENT_AT`]. Waits while as
    /// many messages as allowed are unconfirmed, and records the confirmations that arrive
    /// meanwhile. If the call is cancelled, the message is not sent.
    ///
    /// # Errors
    /// The message is not sent. [`BrokerError::Timeout`] means that there was no room for it before
    /// `deadline`; there may be later. After any other error nothing more can be put.
    async fn put(
        &mut self,
        message: OutgoingMessage,
        sent_at_us: u64,
        deadline: Deadline,
    ) -> Result<(), BrokerError>;

    /// Waits until `due`, and records each confirmation that arrives meanwhile with the time of its
    /// arrival. After a plain sleep, the producer would measure longer latencies than the broker's.
    /// A cancelled call loses no confirmation.
    async fn idle_until(&mut self, due: tokio::time::Instant);

    /// Takes the confirmations that have arrived, without waiting.
    fn confirmations(&mut self) -> Vec<Confirmation>;

    /// Commits an open unit of work, waits for all confirmations until `deadline`, and ends the
    /// producer. A message without an answer is [in doubt](Outcome::InDoubt) then.
    async fn finish(self: Box<Self>, deadline: Deadline) -> PutEnd;
}

/// Selection of the messages that a consumer takes, and when it removes them.
#[derive(Clone, Debug)]
pub struct GetOptions {
    /// Id of the test whose messages are taken.
    pub test: PropertyText,
    /// Maximum number of messages that the broker or the connection's thread hands over in advance.
    pub prefetch: NonZeroU16,
    /// Number of messages that are removed together: by one `basic.ack`, or by one unit of work. A
    /// lower prefetch or limit of the queue manager takes precedence.
    pub ack_every: NonZeroUsize,
    /// Treatment of messages that are not of the test.
    pub foreign: Foreign,
}

/// Treatment of a message that is not of the test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Foreign {
    /// The consumer ends, and the message goes back to its place.
    #[default]
    Leave,
    /// The message is taken and removed, as those of the test are.
    Take,
}

/// Values that a message of a load test carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Sequence number of the message in the load test.
    pub sequence: u64,
    /// Time in microseconds since 1970 that its producer was told.
    pub sent_at_us: u64,
}

/// Message of a load test that a consumer took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time at which the client library delivered the message.
    pub at: Instant,
    /// Values that the message carries; `None` if it belongs to no test or to another one.
    pub stamp: Option<Stamp>,
    /// True if the broker reports that the message may have been delivered before.
    pub redelivered: bool,
    /// Length of the body in bytes.
    pub bytes: usize,
}

/// Reason why a consumer stops taking messages.
#[derive(Clone, Debug, thiserror::Error)]
pub enum GetError {
    /// A message is not of the test, and has to stay.
    #[error("the queue `{0}` has a message that is not of this test; it was left there")]
    Foreign(QueueName),
    /// The broker ended the work.
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

/// Result of a load test's consumer.
#[derive(Clone, Debug)]
pub struct GetEnd {
    /// Messages that the consumer had received and that [`LoadConsumer::next`] did not return. They
    /// count as taken, as the others do.
    pub rest: Vec<Arrival>,
    /// Sequence numbers of messages of the test that the consumer reported as taken, here or
    /// before, but that are, or may be, on the queue again. They may be delivered a second time.
    pub unsettled: Vec<u64>,
    /// Reason why the consumer ended by itself, or why messages are unsettled.
    pub error: Option<GetError>,
}

/// Consumer of a load test, on a connection of its own. Dropping it ends the connection, and
/// puts back the messages that are not removed yet.
#[async_trait]
pub trait LoadConsumer: Send {
    /// Returns the next message, or `None` if none comes before `wait`. The first call begins to
    /// take messages; before that, none is taken. A call that is cancelled loses no message.
    ///
    /// # Errors
    /// No more messages are taken; see [`Self::finish`] about those in hand.
    async fn next(&mut self, wait: Deadline) -> Result<Option<Arrival>, GetError>;

    /// Stops taking messages, removes those in hand, and ends the consumer before `deadline`.
    async fn finish(self: Box<Self>, deadline: Deadline) -> GetEnd;
}
