//! Getting messages from a queue.

use mq::{Access, Ack, AckMode, BrokerError, ConsumeCommand, Deadline, QueueName, UnitOfWork};
use std::sync::Arc;

use crate::errors::During;
use crate::pools::ConnectionPools;
use crate::queue_facts::{self, QueueKind};
use crate::session::Session;
use crate::taking::{Full, Taking};
use crate::unit_of_work::{Done, Taken};

pub(crate) async fn fetch(
    pool: &Arc<ConnectionPools>,
    access: &Access,
    queue: &QueueName,
    command: &ConsumeCommand,
    max_bytes: usize,
    deadline: Deadline,
) -> Result<Box<dyn UnitOfWork>, BrokerError> {
    if !command.selector.is_empty() {
        let detail = "RabbitMQ cannot select messages by their properties".to_owned();
        return Err(BrokerError::Unsupported { detail });
    }
    let session = Session::open(pool, access, deadline).await?;
    if let AckMode::Browse | AckMode::Take(Ack::Rollback) = command.mode
        && let Err(error) = refuse_to_requeue(&session, queue, deadline).await
    {
        session.finish(deadline).await;
        return Err(error);
    }
    let mut taking = Taking::new(queue, command, max_bytes);
    if let Err(failure) = taking.run(&session, deadline).await {
        return Err(session.fail(failure, During::Queue(queue)));
    }
    let too_large = matches!(taking.stop, Some(Full::First));
    let mut taken = Taken {
        session,
        queue: queue.clone(),
        last_tag: taking.last_tag,
        newest_tag: taking.newest_tag,
        consumed: taking.consumed,
    };
    if too_large {
        taken.restore(deadline).await;
        return Err(BrokerError::MessageTooLarge {
            detail: format!("the first message of the queue {queue} alone exceeds what an answer can carry"),
        });
    }
    match command.mode {
        AckMode::Take(Ack::Commit | Ack::Rollback) => Ok(Box::new(taken)),
        AckMode::Take(Ack::None) => Ok(Box::new(remove(taken, deadline).await)),
        AckMode::Browse => {
            taken.consumed.warnings.push(
                "RabbitMQ has no browse: the messages were taken and put back, hidden from others meanwhile, and are marked as redelivered"
                    .to_owned(),
            );
            Ok(Box::new(Done { consumed: taken.restore(deadline).await, removed: false }))
        }
    }
}

/// Removes messages outside any transaction.
async fn remove(taken: Taken, deadline: Deadline) -> Done {
    let (mut consumed, removed) = taken.remove(deadline).await;
    consumed.warnings.push(
        "the messages were removed at once, outside any transaction; they are lost if this answer is"
            .to_owned(),
    );
    if let Err(error) = removed {
        consumed.warnings.push(format!("the messages may be delivered again: {error}"));
    }
    Done { consumed, removed: true }
}

/// Refuses where putting messages back is not harmless. A quorum queue counts every return, and past its delivery limit
/// it drops the message.
async fn refuse_to_requeue(
    session: &Session,
    queue: &QueueName,
    deadline: Deadline,
) -> Result<(), BrokerError> {
    let kind = match queue_facts::learn(session, queue, deadline).await?.kind {
        QueueKind::Classic => return Ok(()),
        QueueKind::Quorum => "a quorum queue".to_owned(),
        QueueKind::Stream => "a stream".to_owned(),
        QueueKind::Other(name) => format!("of the unknown type `{name}`"),
    };
    Err(BrokerError::Unsupported {
        detail: format!(
            "{queue} is {kind}: messages cannot be looked at and put back there, because a queue may drop what returns too often"
        ),
    })
}
