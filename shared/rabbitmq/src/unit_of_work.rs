//! Messages in hand: taken under a channel, and settled or put back.

use async_trait::async_trait;
use lapin::options::BasicAckOptions;
use mq::{BrokerError, Consumed, Deadline, QueueName, UnitOfWork};

use crate::errors::During;
use crate::leader::{self, Holders, Unproven};
use crate::queue_facts::QueueKind;
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
    /// The queue's kind, if it was asked.
    pub(crate) kind: Option<QueueKind>,
    /// How many consumers a quorum queue counts until the messages are settled.
    pub(crate) holders: usize,
    pub(crate) consumed: Consumed,
}

impl Taken {
    /// Acknowledges what is in hand, and asks for the queue's state on the same channel: the broker
    /// answers in order, so its answer proves that the acknowledgement arrived at the channel. A
    /// quorum queue settles later, and may lose its leader before, so it is asked until it shows
    /// that it has.
    async fn acknowledge(&self, tag: u64, deadline: Deadline) -> Result<(), BrokerError> {
        if !self.session.seems_open() {
            return Err(not_ours_any_more());
        }
        let holders = match self.is_on_a_quorum_queue(deadline).await {
            true => Some(Holders::count(&self.session, &self.queue, self.holders.max(1), deadline).await?),
            false => None,
        };
        let in_doubt = |unproven: Unproven| {
            let error = unproven.into_error(&self.queue);
            let detail = format!("RabbitMQ did not confirm the acknowledgement: {error}");
            error.left_in_doubt(detail)
        };
        let ack = self.session.channel().basic_ack(tag, BasicAckOptions { multiple: true });
        match call(deadline, ack).await {
            Ok(()) => {}
            Err(failure) if failure.was_not_sent() => return Err(not_ours_any_more()),
            Err(failure) => return Err(in_doubt(failure.into())),
        }
        if self.has_excess && self.session.server().counted() == Counted::Failures {
            // The question that follows shows whether it arrived.
            let _ = self.session.nack_all(deadline).await;
        }
        let settled = match holders {
            Some(holders) => holders.fewer(&self.session, &self.queue, deadline).await,
            None => inspect(self.session.channel(), &self.queue, deadline).await.map_err(Unproven::from),
        };
        match settled {
            Ok(_) => Ok(()),
            Err(Unproven::Failure(failure)) if failure.refuses_a_delivery_tag() => {
                Err(failure.into_error(During::Queue(&self.queue)))
            }
            // The question was refused, which comes after the acknowledgement.
            Err(Unproven::Failure(failure))
                if failure.reply().is_some_and(|reply| matches!(reply.code, 403..=405)) =>
            {
                Ok(())
            }
            Err(unproven) => Err(in_doubt(unproven)),
        }
    }

    async fn is_on_a_quorum_queue(&self, deadline: Deadline) -> bool {
        match &self.kind {
            Some(kind) => *kind == QueueKind::Quorum,
            None => leader::is_quorum(&self.session, &self.queue, deadline).await,
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
