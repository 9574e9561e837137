//! Messages in hand: taken under a channel, and settled or put back.

use async_trait::async_trait;
use lapin::options::{BasicAckOptions, BasicNackOptions};
use mq::{BrokerError, Consumed, Deadline, QueueName, UnitOfWork};

use crate::errors::{During, Failure};
use crate::session::{Session, call, inspect};

/// Deliveries that wait for their settlement. Dropping it puts them back, because it cuts the connection.
pub(crate) struct Taken {
    pub(crate) session: Session,
    pub(crate) queue: QueueName,
    /// The last delivery in hand; it stands for all before it.
    pub(crate) last_tag: Option<u64>,
    /// The last delivery of all; what came after the last one in hand did not fit.
    pub(crate) newest_tag: Option<u64>,
    pub(crate) consumed: Consumed,
}

impl Taken {
    /// Acknowledges what is in hand, puts back what did not fit, and asks for the queue's state on the same channel: the broker answers in order, so
    /// its answer proves that the acknowledgement arrived.
    async fn acknowledge(&self, tag: u64, deadline: Deadline) -> Result<(), BrokerError> {
        if !self.session.seems_open() {
            return Err(BrokerError::Unreachable {
                detail: "the connection was lost before the commit; the messages are back on the queue"
                    .to_owned(),
            });
        }
        let in_doubt = |failure: Failure| BrokerError::InDoubt {
            detail: format!(
                "RabbitMQ did not confirm the acknowledgement: {}",
                failure.into_error(During::Queue(&self.queue))
            ),
        };
        let ack = self.session.channel().basic_ack(tag, BasicAckOptions { multiple: true });
        call(deadline, ack).await.map_err(in_doubt)?;
        if let Some(newest) = self.newest_tag.filter(|newest| *newest > tag) {
            call(deadline, self.requeue(newest)).await.map_err(in_doubt)?;
        }
        match inspect(self.session.channel(), &self.queue, deadline).await {
            Ok(_) => Ok(()),
            Err(failure) => match failure.reply().map(|reply| reply.code) {
                // The acknowledgement itself was refused: the deliveries are not ours any more.
                Some(406) => Err(failure.into_error(During::Queue(&self.queue))),
                // The question was refused, which comes after the acknowledgement.
                Some(403..=405) => Ok(()),
                _ => Err(in_doubt(failure)),
            },
        }
    }

    /// Puts back every delivery up to `tag` that is not settled. One command stands for many: a quorum queue's broker (3.10)
    /// delays what exceeds 32 and forgets it when the channel closes.
    async fn requeue(&self, tag: u64) -> lapin::Result<()> {
        let options = BasicNackOptions { multiple: true, requeue: true };
        self.session.channel().basic_nack(tag, options).await
    }

    /// Puts everything back.
    async fn put_back(&self, tag: u64, deadline: Deadline) -> Result<(), Failure> {
        call(deadline, self.requeue(tag)).await?;
        inspect(self.session.channel(), &self.queue, deadline).await.map(drop)
    }

    /// Removes the messages and says what was in hand.
    pub(crate) async fn remove(self, deadline: Deadline) -> (Consumed, Result<(), BrokerError>) {
        let Some(tag) = self.last_tag else {
            // Where anything was delivered, the channel's end puts it back.
            self.session.finish(deadline).await;
            return (self.consumed, Ok(()));
        };
        let result = self.acknowledge(tag, deadline).await;
        if result.is_ok() {
            self.session.finish(deadline).await;
        }
        (self.consumed, result)
    }

    /// Puts the messages back and says what was in hand. It cannot fail: where the broker does not answer, the
    /// connection is cut, and the broker puts back what was not acknowledged.
    pub(crate) async fn restore(self, deadline: Deadline) -> Consumed {
        let put_back = match self.newest_tag {
            Some(tag) => self.put_back(tag, deadline).await,
            None => Ok(()),
        };
        match put_back {
            Ok(()) => self.session.finish(deadline).await,
            Err(failure) => {
                let _ = self.session.fail(failure, During::Queue(&self.queue));
            }
        }
        self.consumed
    }
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

/// Messages of which nothing is left to settle: looked at and put back, or removed for good.
pub(crate) struct Done {
    pub(crate) consumed: Consumed,
    pub(crate) removed: bool,
}

#[async_trait]
impl UnitOfWork for Done {
    fn consumed(&self) -> &Consumed {
        &self.consumed
    }

    async fn commit(self: Box<Self>, _: Deadline) -> Result<(), BrokerError> {
        Ok(())
    }

    async fn rollback(self: Box<Self>, _: Deadline) -> Result<(), BrokerError> {
        if self.removed {
            let detail = "the messages were removed when they were taken and cannot be put back".to_owned();
            return Err(BrokerError::Unsupported { detail });
        }
        Ok(())
    }
}
