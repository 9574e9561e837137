//! Unit of work: messages that were taken on a channel, and are then acknowledged or returned.

use async_trait::async_trait;
use broker::{Deadline, UnitOfWork};
use lapin::options::BasicAckOptions;
use mq::{BrokerError, Consumed, QueueName};

use crate::leader;
use crate::queue_facts::QueueKind;
use crate::server::Counted;
use crate::session::{Session, call};
use crate::settlement::{Proof, Unproven};

/// Deliveries of a fetch that are not settled yet. Dropping it closes the connection, so that the
/// broker requeues them.
pub(crate) struct Taken {
    pub(crate) session: Session,
    pub(crate) queue: QueueName,
    /// Tag of the last kept delivery; acknowledging it covers all before it. `None` if no delivery
    /// was kept.
    pub(crate) last_tag: Option<u64>,
    /// True if deliveries after the last kept one have to be returned.
    pub(crate) has_excess: bool,
    /// Type of the queue; `None` if it is unknown.
    pub(crate) kind: Option<QueueKind>,
    /// Number of consumers that a quorum queue counts until the messages are settled.
    pub(crate) consumers_to_settle: usize,
    pub(crate) consumed: Consumed,
}

impl Taken {
    /// Prepares the proof that the queue has applied the acknowledgement of the messages, which the
    /// broker does not answer. Must be called before the acknowledgement is sent. Fails if the
    /// connection was lost, or the queue has no leader.
    async fn prepare(&self, deadline: Deadline) -> Result<Proof, BrokerError> {
        if !self.session.seems_open() {
            return Err(not_ours_any_more());
        }
        let leadership = match &self.kind {
            Some(kind) => kind.into(),
            None => leader::leadership(&self.session, &self.queue, deadline).await?,
        };
        let consumers = self.consumers_to_settle.max(1);
        Proof::prepare(leadership, &self.session, &self.queue, consumers, deadline).await
    }

    /// Acknowledges the kept deliveries up to `tag`, and waits for the proof that the queue has
    /// applied it.
    async fn acknowledge(&self, tag: u64, proof: Proof, deadline: Deadline) -> Result<(), BrokerError> {
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
        let returns_excess = self.has_excess && self.returns_by_nack();
        if returns_excess {
            // The request that follows shows whether the `nack` arrived.
            let _ = self.session.nack_all(deadline).await;
        }
        match proof.obtain(&self.session, &self.queue, deadline).await {
            Ok(_) => {
                if returns_excess {
                    self.session.let_the_queue_catch_up(&self.queue, deadline).await;
                }
                Ok(())
            }
            Err(unproven) if unproven.is_a_refused_tag() => Err(unproven.into_error(&self.queue)),
            Err(unproven) => Err(in_doubt(unproven)),
        }
    }

    /// Acknowledges the messages, and returns them with the result. If no proof of the
    /// acknowledgement can be prepared, for example because the queue has no leader, sends none:
    /// the messages return to the queue, and the result is an error.
    pub(crate) async fn remove(self, deadline: Deadline) -> (Consumed, Result<(), BrokerError>) {
        let Some(tag) = self.last_tag else {
            return (self.restore(deadline).await, Ok(()));
        };
        let proof = match self.prepare(deadline).await {
            Ok(proof) => proof,
            Err(error) => return (self.restore(deadline).await, Err(error)),
        };
        let result = self.acknowledge(tag, proof, deadline).await;
        if result.is_ok() {
            self.session.release(deadline).await;
        }
        (self.consumed, result)
    }

    /// True if messages are returned by `basic.nack`, which their queue does not count towards a
    /// delivery limit; false if closing the channel returns them.
    fn returns_by_nack(&self) -> bool {
        self.session.server.counted() == Counted::Failures || self.kind == Some(QueueKind::Classic)
    }

    /// Returns the messages to the queue, and also to the caller. Cannot fail: closing the channel
    /// requeues them, and without an answer the connection is closed.
    pub(crate) async fn restore(self, deadline: Deadline) -> Consumed {
        if (self.last_tag.is_some() || self.has_excess) && self.returns_by_nack() {
            self.session.return_all(&self.queue, deadline).await;
        }
        self.session.release(deadline).await;
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
