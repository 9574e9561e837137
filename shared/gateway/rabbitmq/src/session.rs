//! Session: a pooled connection with its channel, while one operation uses it.

use std::time::Duration;

use broker::Deadline;
use futures_util::future::{BoxFuture, try_join};
use lapin::options::{BasicConsumeOptions, BasicNackOptions, BasicQosOptions, QueueDeclareOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, Consumer};
use mq::{BrokerError, QueueName};

use crate::errors::{During, Failure};
use crate::pooled::PooledConnection;
use crate::server::Counted;

/// Maximum time to wait until deliveries over the connection's limit have arrived and been
/// discarded, before the connection is closed.
const UNDER_WAY: Duration = Duration::from_secs(5);
/// Maximum time to wait until unsettled messages are returned to the queue, before the connection
/// is closed.
const FAREWELL: Duration = Duration::from_millis(500);

/// Channel in use, with its connection. Dropping it closes the socket, so that the broker requeues
/// unacknowledged messages.
pub(crate) type Session = PooledConnection;

impl Session {
    /// Returns text for an error's detail if the broker has blocked the connection; otherwise an
    /// empty text.
    pub(crate) fn blocked_note(&self) -> String {
        match self.blocked() {
            Some(shortage) => {
                format!("; RabbitMQ has blocked this connection ({shortage}) and accepts no messages for now")
            }
            None => String::new(),
        }
    }

    /// True if the client library considers the channel and the connection open, and the broker has
    /// not blocked the connection.
    pub(crate) fn seems_open(&self) -> bool {
        self.channel().status().connected() && self.is_connected() && self.blocked().is_none()
    }

    /// Returns all unsettled messages of the channel by `basic.nack`, unless the broker's quorum
    /// queues count every return. If no `basic.nack` is sent, or it does not arrive, closing the
    /// channel returns the messages.
    pub(crate) async fn give_back(&self, queue: &QueueName, deadline: Deadline) {
        if self.server.counted() == Counted::EveryReturn {
            return;
        }
        self.return_all(queue, deadline).await;
    }

    /// Returns all unsettled messages of the channel by `basic.nack`, and waits until they are on
    /// the queue. If the `basic.nack` does not arrive, closing the channel returns the messages.
    pub(crate) async fn return_all(&self, queue: &QueueName, deadline: Deadline) {
        if self.nack_all(deadline).await.is_ok() {
            self.let_the_queue_catch_up(queue, deadline).await;
        }
    }

    /// Asks for the numbers of `queue` twice, so that nothing is on its way between the queue and
    /// the client any more:
    ///
    /// - A classic queue that finds the first request and earlier returns in its mailbox answers
    ///   the request first (`prioritise_call` in RabbitMQ's `rabbit_amqqueue_process`). It applies
    ///   the returns next, before the second request can arrive.
    /// - A quorum queue answers the first request after it has sent its deliveries to the broker's
    ///   channel, which forwards them before it handles the second request.
    ///
    /// A quorum queue that is slower than 250 ms is not waited for, because RabbitMQ then answers
    /// for it.
    pub(crate) async fn let_the_queue_catch_up(&self, queue: &QueueName, deadline: Deadline) {
        for _ in 0..2 {
            let _ = inspect(self.channel(), queue, deadline).await;
        }
    }

    /// Returns all unsettled messages of the channel to the queue by `basic.nack`.
    pub(crate) async fn nack_all(&self, deadline: Deadline) -> Result<(), Failure> {
        // Tag 0 with `multiple` means all deliveries.
        let options = BasicNackOptions { multiple: true, requeue: true };
        call(deadline, self.channel().basic_nack(0, options)).await
    }

    /// Closes the connection because more deliveries are still arriving than can be discarded in
    /// time. First returns all messages to `queue` by [`Self::give_back`], since a quorum queue may
    /// count unsettled messages of a closed connection as failed.
    pub(crate) async fn close_overfull(self, queue: &QueueName, deadline: Deadline) {
        self.give_back(queue, deadline.min(FAREWELL)).await;
        self.abandon("more was on its way than it lets in");
    }

    /// Waits until the deliveries beyond the connection's limit (its intake) have arrived and been
    /// discarded, and then sets the limit to `most` bytes. Returns `false` if that took too long;
    /// the caller must then [`close_overfull`](Self::close_overfull) the connection.
    pub(crate) async fn discard_excess(&self, queue: &QueueName, most: usize, deadline: Deadline) -> bool {
        let has_passed = inspect(self.channel(), queue, deadline.min(UNDER_WAY)).await.is_ok();
        if has_passed {
            self.intake().bind(most);
        }
        has_passed
    }

    /// Queries and returns the numbers of messages and consumers of a queue. Uses a separate
    /// channel, so that a refusal does not close the channel of the session.
    pub(crate) async fn inspect_apart(
        &self,
        queue: &QueueName,
        deadline: Deadline,
    ) -> Result<Counts, Failure> {
        let channel = self.open_channel(deadline).await?;
        let counts = inspect(&channel, queue, deadline).await?;
        // A connection is kept for reuse only if no channel is open on it.
        let _ = self.close_channel(&channel, deadline).await;
        Ok(counts)
    }

    /// Ends the session after `failure`, and returns the error for the caller. The connection is
    /// kept only if the broker closed just the channel.
    pub(crate) fn fail(self, failure: Failure, during: During<'_>) -> BrokerError {
        if failure.spares_the_connection() {
            self.keep();
        } else {
            self.abandon("an operation on it failed");
        }
        failure.into_error(during)
    }
}

/// Waits until `deadline` for the broker's answer to `exchange`, a request of the client library,
/// and returns it. The error is [`Failure::Deadline`] if no answer arrives.
///
/// The future is boxed to shorten compile times: the compiler then checks once for each call that
/// it may move between threads, not for each future that awaits it.
pub(crate) fn call<'a, T: Send + 'a>(
    deadline: Deadline,
    exchange: impl Future<Output = lapin::Result<T>> + Send + 'a,
) -> BoxFuture<'a, Result<T, Failure>> {
    Box::pin(
        async move { deadline.run(exchange).await.map_err(|_| Failure::Deadline)?.map_err(Failure::from) },
    )
}

/// Sets the channel's prefetch, and starts and returns a consumer of the queue with this tag.
pub(crate) async fn consume(
    channel: &Channel,
    queue: ShortString,
    tag: ShortString,
    prefetch: u16,
) -> lapin::Result<Consumer> {
    let limit = channel.basic_qos(prefetch, BasicQosOptions::default());
    let consume = channel.basic_consume(queue, tag, BasicConsumeOptions::default(), FieldTable::default());
    // The broker handles them in this order, so neither request waits for the other's answer.
    try_join(limit, consume).await.map(|((), consumer)| consumer)
}

/// Converts the name of a queue to an AMQP short string.
pub(crate) fn short(queue: &QueueName) -> ShortString {
    // `QueueName` is at most 255 bytes long, as a short string is.
    ShortString::try_new(queue.as_str()).unwrap_or_default()
}

/// Numbers of messages and consumers of a queue, from a passive declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Number of messages that are ready for delivery.
    pub(crate) messages: u32,
    /// Number of consumers of the queue. A quorum queue also counts channels that hold its
    /// messages.
    pub(crate) consumers: u32,
}

/// Queries and returns the numbers of messages and consumers of a queue, by a passive declaration.
/// The broker answers after it has processed everything sent before on the channel.
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
