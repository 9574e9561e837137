//! Messages in hand: taken under a channel, and settled or put back.

use async_trait::async_trait;
use lapin::options::BasicAckOptions;
use mq::{BrokerError, Consumed, Deadline, QueueName, UnitOfWork};

use crate::errors::{During, Failure};
use crate::server::Counted;
use crate::session::{Session, call, inspect};

/// Deliveries that wait for their settlement. Dropping it puts them back, because it cuts the
/// connection.
pub(crate) struct Taken {
    pub(crate) session: Session,
    pub(crate) queue: QueueName,
    /// The last delivery in hand; it stands for all before it.
    pub(crate) last_tag: Option<u64>,
    /// Whether more was delivered, which did not fit.
    pub(crate) has_excess: bool,
    pub(crate) consumed: Consumed,
}

impl Taken {
    /// Acknowledges what is in hand, and asks for the queue's state on the same channel: the broker
    /// answers in order, so its answer proves that the acknowledgement arrived at the channel. A
    /// quorum queue settles later, and gets what is settled before the channel's end unless it
    /// loses its leader then: see [`Taking`](crate::taking::Taking) for how much that may be.
    async fn acknowledge(&self, tag: u64, deadline: Deadline) -> Result<(), BrokerError> {
        if !self.session.seems_open() {
            return Err(not_ours_any_more());
        }
        let in_doubt = |failure: Failure| {
            let error = failure.into_error(During::Queue(&self.queue));
            let detail = format!("RabbitMQ did not confirm the acknowledgement: {error}");
            error.left_in_doubt(detail)
        };
        let ack = self.session.channel().basic_ack(tag, BasicAckOptions { multiple: true });
        match call(deadline, ack).await {
            Ok(()) => {}
            Err(failure) if failure.was_not_sent() => return Err(not_ours_any_more()),
            Err(failure) => return Err(in_doubt(failure)),
        }
        if self.has_excess && self.session.server().counted() == Counted::Failures {
            // The question that follows shows whether it arrived.
            let _ = self.session.nack_all(deadline).await;
        }
        match inspect(self.session.channel(), &self.queue, deadline).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.refuses_a_delivery_tag() => {
                Err(failure.into_error(During::Queue(&self.queue)))
            }
            Err(failure) => match failure.reply().map(|reply| reply.code) {
                // The question was refused, which comes after the acknowledgement.
                Some(403..=405) => Ok(()),
                _ => Err(in_doubt(failure)),
            },
        }
    }

    /// Removes the messages and says what was in hand.
    pub(crate) async fn remove(self, deadline: Deadline) -> (Consumed, Result<(), BrokerError>) {
        let Some(tag) = self.last_tag else {
            return (self.restore(deadline).await, Ok(()));
        };
        let result = self.acknowledge(tag, deadline).await;
        if result.is_ok() {
            self.session.finish(deadline).await;
        }
        (self.consumed, result)
    }

    /// Puts the messages back and says what was in hand. It cannot fail: the end of the channel
    /// puts them back, in their places, and where the broker does not answer, the connection is
    /// cut.
    pub(crate) async fn restore(self, deadline: Deadline) -> Consumed {
        if self.last_tag.is_some() || self.has_excess {
            self.session.give_back(&self.queue, deadline).await;
        }
        self.session.finish(deadline).await;
        self.consumed
    }
}

fn not_ours_any_more() -> BrokerError {
    BrokerError::unreachable("the connection was lost before the commit; the messages are back on the queue")
}

#[async_trait]
impl UnitOfWork for Taken {
    fn consumed(&self) -> &Consumed {
        &self.consumed
    }

    async fn commit(self: Box<Self>, deadline: Deadline) -> Result<(), BrokerError> {
        self.remove(deadline).await.1
    }

    async fn rollback(self: Box<Self>, deadline: Deadline) -> Result<(), BrokerError> {
        self.restore(deadline).await;
        Ok(())
    }
}
