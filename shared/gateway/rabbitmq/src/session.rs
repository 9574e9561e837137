//! One operation's channel on a connection of the pool.

use std::sync::Arc;
use std::time::Duration;

use broker::Deadline;
use lapin::Channel;
use lapin::options::{BasicNackOptions, QueueDeclareOptions};
use lapin::types::{FieldTable, ShortString};
use mq::{Access, BrokerError, QueueName};

use crate::errors::{During, Failure};
use crate::intake::Intake;
use crate::leader::Leadership;
use crate::pooled::PooledConnection;
use crate::pools::ConnectionPools;
use crate::server::{Counted, Server};

/// How long to wait for what is on its way, before a connection is cut.
const UNDER_WAY: Duration = Duration::from_secs(5);
/// How long to wait then for what is given back to be on its way.
const FAREWELL: Duration = Duration::from_millis(500);

/// A channel and the connection under it. Dropping a session cuts the connection, so whatever was
/// open on it ends: the broker puts unacknowledged messages back.
pub(crate) struct Session(PooledConnection);

impl Session {
    pub(crate) async fn open(
        pool: &Arc<ConnectionPools>,
        access: &Access,
        deadline: Deadline,
    ) -> Result<Self, BrokerError> {
        pool.acquire(access, deadline).await.map(Self)
    }

    pub(crate) fn channel(&self) -> &Channel {
        self.0.channel()
    }

    pub(crate) fn frame_max(&self) -> usize {
        self.0.connection().frame_max()
    }

    /// What the connection lets in of the messages that it is given.
    pub(crate) fn intake(&self) -> &Intake {
        self.0.connection().intake()
    }

    /// What the broker said of itself.
    pub(crate) fn server(&self) -> &Server {
        &self.0.connection().server
    }

    /// What was noted of the queue on the connection.
    pub(crate) fn noted_leadership(&self, queue: &QueueName) -> Option<Leadership> {
        self.0.connection().known_queues.get(queue)
    }

    /// Notes it until the connection ends.
    pub(crate) fn note_leadership(&self, queue: &QueueName, leadership: Leadership) {
        self.0.connection().known_queues.insert(queue, leadership);
    }

    /// What to add to a caller's answer if the broker has said that it reads nothing more.
    pub(crate) fn blocked_note(&self) -> String {
        match self.0.connection().blocked() {
            Some(shortage) => {
                format!("; RabbitMQ has blocked this connection ({shortage}) and accepts no messages for now")
            }
            None => String::new(),
        }
    }

    /// How many messages the broker has given back as unroutable on the connection.
    pub(crate) fn returns(&self) -> u64 {
        self.0.connection().returns()
    }

    /// Another channel on the same connection, for what may end a channel.
    pub(crate) async fn throwaway_channel(&self, deadline: Deadline) -> Result<Channel, Failure> {
        self.0.connection().open_channel(deadline).await
    }

    /// Whether the library still believes in channel and connection.
    pub(crate) fn seems_open(&self) -> bool {
        self.channel().status().connected() && self.0.connection().seems_open()
    }

    /// Gives back whatever is unsettled on the channel in the way that a quorum queue does not
    /// count, if the broker has one. Otherwise, and for what does not arrive, the channel's end
    /// does it.
    pub(crate) async fn give_back(&self, queue: &QueueName, deadline: Deadline) {
        if self.server().counted() == Counted::EveryReturn {
            return;
        }
        if self.nack_all(deadline).await.is_ok() {
            // Its answer comes after the messages are on their way to the queue.
            let _ = inspect(self.channel(), queue, deadline).await;
        }
    }

    /// Gives back whatever is unsettled on the channel.
    pub(crate) async fn nack_all(&self, deadline: Deadline) -> Result<(), Failure> {
        // Tag 0 with `multiple` stands for all deliveries.
        let options = BasicNackOptions { multiple: true, requeue: true };
        call(deadline, self.channel().basic_nack(0, options)).await
    }

    /// Closes the channel and keeps the connection for the next request.
    pub(crate) async fn finish(self, deadline: Deadline) {
        self.0.release(deadline).await;
    }

    /// Cuts the connection, on which more is on its way than has passed in time. All of it goes
    /// back to `queue`, and first by [`Self::give_back`], because a quorum queue may count what is
    /// in hand at the end of a connection as failed.
    pub(crate) async fn cut(self, queue: &QueueName, deadline: Deadline) {
        self.give_back(queue, deadline.min(FAREWELL)).await;
        self.0.abandon("more was on its way than it lets in");
    }

    /// Waits until what was not let in has passed, which is dropped as it comes, and then lets in
    /// `most` bytes again. Says whether it has passed in time; otherwise the connection is to be
    /// [`cut`](Self::cut).
    pub(crate) async fn let_pass(&self, queue: &QueueName, most: usize, deadline: Deadline) -> bool {
        let has_passed = inspect(self.channel(), queue, deadline.min(UNDER_WAY)).await.is_ok();
        if has_passed {
            self.intake().bind(most);
        }
        has_passed
    }

    /// Ends the session after `failure` and says what that means. The connection is kept only where
    /// the broker closed the channel and nothing else.
    pub(crate) fn fail(self, failure: Failure, during: During<'_>) -> BrokerError {
        if failure.spares_the_connection() {
            self.0.keep();
        } else {
            self.0.abandon("an operation on it failed");
        }
        failure.into_error(during)
    }
}

/// Awaits an answer of the broker until `deadline`.
pub(crate) async fn call<T>(
    deadline: Deadline,
    exchange: impl Future<Output = lapin::Result<T>>,
) -> Result<T, Failure> {
    deadline.run(exchange).await.map_err(|_| Failure::Deadline)?.map_err(Failure::from)
}

/// A queue's name as AMQP carries it.
pub(crate) fn short(queue: &QueueName) -> ShortString {
    // `QueueName` is at most 255 bytes long, as a short string is.
    ShortString::try_new(queue.as_str()).unwrap_or_default()
}

/// What a passive declaration tells of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// How many messages are ready.
    pub(crate) messages: u32,
    /// How many consumers there are.
    pub(crate) consumers: u32,
}

/// Asks for a queue's counts: a synchronous method that the broker answers after everything before
/// it on the channel.
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
