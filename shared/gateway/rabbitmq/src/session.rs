//! Session: a channel for one operation on a pooled connection.

use std::time::Duration;

use broker::Deadline;
use futures_util::future::BoxFuture;
use lapin::Channel;
use lapin::options::{BasicNackOptions, QueueDeclareOptions};
use lapin::types::{FieldTable, ShortString};
use mq::{Access, BrokerError, QueueName};

use crate::errors::{During, Failure};
use crate::intake::Intake;
use crate::leader::Leadership;
use crate::pool::Pool;
use crate::pooled::PooledConnection;
use crate::server::{Counted, Server};

/// Maximum time to wait for deliveries that are on their way, before the connection is closed.
const UNDER_WAY: Duration = Duration::from_secs(5);
/// Maximum time to wait for returned messages to be sent, before the connection is closed.
const FAREWELL: Duration = Duration::from_millis(500);

/// A channel and its connection. Dropping a session closes the socket, which ends everything that
/// was open on it: the broker requeues unacknowledged messages.
pub(crate) struct Session(PooledConnection);

impl Session {
    pub(crate) async fn open(pool: &Pool, access: &Access, deadline: Deadline) -> Result<Self, BrokerError> {
        pool.acquire(access, deadline).await.map(Self)
    }

    pub(crate) fn channel(&self) -> &Channel {
        self.0.channel()
    }

    pub(crate) fn frame_max(&self) -> usize {
        self.0.connection().frame_max()
    }

    /// Limit on the bytes of deliveries that the connection passes to the client library.
    pub(crate) fn intake(&self) -> &Intake {
        self.0.connection().intake()
    }

    /// Product, version and cluster name of the broker.
    pub(crate) fn server(&self) -> &Server {
        &self.0.connection().server
    }

    /// Leadership of the queue, if it is cached on the connection.
    pub(crate) fn noted_leadership(&self, queue: &QueueName) -> Option<Leadership> {
        self.0.connection().known_queues.get(queue)
    }

    /// Caches the leadership of the queue until the connection ends.
    pub(crate) fn note_leadership(&self, queue: &QueueName, leadership: Leadership) {
        self.0.connection().known_queues.insert(queue, leadership);
    }

    /// Text to add to an error's detail if the broker has blocked the connection; empty if it has
    /// not.
    pub(crate) fn blocked_note(&self) -> String {
        match self.0.connection().blocked() {
            Some(shortage) => {
                format!("; RabbitMQ has blocked this connection ({shortage}) and accepts no messages for now")
            }
            None => String::new(),
        }
    }

    /// Number of messages that the broker has returned as unroutable on the connection.
    pub(crate) fn returns(&self) -> u64 {
        self.0.connection().returns()
    }

    /// Opens another channel on the same connection, for requests that may close their channel.
    pub(crate) async fn throwaway_channel(&self, deadline: Deadline) -> Result<Channel, Failure> {
        self.0.connection().open_channel(deadline).await
    }

    /// True if the library believes that the channel and the connection are open.
    pub(crate) fn seems_open(&self) -> bool {
        self.channel().status().connected() && self.0.connection().seems_open()
    }

    /// Returns all unsettled messages of the channel in the way that a quorum queue does not count,
    /// if this broker has one. Otherwise, and for returns that do not arrive, closing the channel
    /// returns them.
    pub(crate) async fn give_back(&self, queue: &QueueName, deadline: Deadline) {
        if self.server().counted() == Counted::EveryReturn {
            return;
        }
        if self.nack_all(deadline).await.is_ok() {
            // The answer arrives after the messages are on their way to the queue.
            let _ = inspect(self.channel(), queue, deadline).await;
        }
    }

    /// Returns all unsettled messages of the channel to the queue with `basic.nack`.
    pub(crate) async fn nack_all(&self, deadline: Deadline) -> Result<(), Failure> {
        // Tag 0 with `multiple` means all deliveries.
        let options = BasicNackOptions { multiple: true, requeue: true };
        call(deadline, self.channel().basic_nack(0, options)).await
    }

    /// Closes the channel and keeps the connection for the next request.
    pub(crate) async fn finish(self, deadline: Deadline) {
        self.0.release(deadline).await;
    }

    /// Closes the connection because more deliveries are on their way than were discarded in time.
    /// All of them return to `queue`, first by [`Self::give_back`], because a quorum queue may
    /// count messages that are in hand at the end of a connection as failed.
    pub(crate) async fn cut(self, queue: &QueueName, deadline: Deadline) {
        self.give_back(queue, deadline.min(FAREWELL)).await;
        self.0.abandon("more was on its way than it lets in");
    }

    /// Waits until all deliveries over the intake's limit have arrived and been discarded, and then
    /// allows `most` bytes again. Returns whether that happened in time; if not, the caller must
    /// [`cut`](Self::cut) the connection.
    pub(crate) async fn let_pass(&self, queue: &QueueName, most: usize, deadline: Deadline) -> bool {
        let has_passed = inspect(self.channel(), queue, deadline.min(UNDER_WAY)).await.is_ok();
        if has_passed {
            self.intake().bind(most);
        }
        has_passed
    }

    /// Ends the session after `failure`, and returns the error for it. The connection is kept only
    /// if the broker closed just the channel.
    pub(crate) fn fail(self, failure: Failure, during: During<'_>) -> BrokerError {
        if failure.spares_the_connection() {
            self.0.keep();
        } else {
            self.0.abandon("an operation on it failed");
        }
        failure.into_error(during)
    }
}

/// Waits for the broker's answer until `deadline`.
///
/// Boxed for the compiler, which proves once for each call that the exchange may move between
/// threads. Without the box it proves that again for every future that awaits the call.
pub(crate) fn call<'a, T: Send + 'a>(
    deadline: Deadline,
    exchange: impl Future<Output = lapin::Result<T>> + Send + 'a,
) -> BoxFuture<'a, Result<T, Failure>> {
    Box::pin(
        async move { deadline.run(exchange).await.map_err(|_| Failure::Deadline)?.map_err(Failure::from) },
    )
}

/// A queue's name as an AMQP short string.
pub(crate) fn short(queue: &QueueName) -> ShortString {
    // `QueueName` is at most 255 bytes long, as a short string is.
    ShortString::try_new(queue.as_str()).unwrap_or_default()
}

/// Counts of a queue, from a passive declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Number of ready messages.
    pub(crate) messages: u32,
    /// Number of consumers.
    pub(crate) consumers: u32,
}

/// Asks for a queue's counts. This is a synchronous method, which the broker answers after
/// everything before it on the channel.
pub(crate) async fn inspect(
    channel: &Channel,
    queue: &QueueName,
    deadline: Deadline,
) -> Result<Counts, Failure> {
    let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let declare = channel.queue_declare(short(queue), options, FieldTable::default());
    let queue = call(deadline, declare).await?;
    Ok(Counts { messages: queue.message_count(), consumers: queue.consumer_count() })
}
