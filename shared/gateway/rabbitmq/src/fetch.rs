//! Fetches messages from a queue: to settle later, to remove at once, or to browse.

use mq::{Access, Ack, AckMode, BrokerError, ConsumeCommand, QueueName};

use broker::{Deadline, SettledMessages, UnitOfWork};

use crate::errors::During;
use crate::intake::held_alone;
use crate::pool::Pool;
use crate::queue_facts::{self, QueueFacts, QueueKind};
use crate::server::Counted;
use crate::session::Session;
use crate::taking::{Full, Room, Taking};
use crate::unit_of_work::Taken;

/// Warning for a browse or preview: the messages were taken and returned, since RabbitMQ cannot
/// browse.
pub(crate) const NO_BROWSE: &str = "RabbitMQ has no browse: the messages were taken and put back, hidden from \
                                    others meanwhile, and are marked as redelivered";

pub(crate) async fn fetch(
    pool: &Pool,
    access: &Access,
    queue: &QueueName,
    command: &ConsumeCommand,
    room: Room,
    deadline: Deadline,
) -> Result<Box<dyn UnitOfWork>, BrokerError> {
    if !command.selector.is_empty() {
        let detail = "RabbitMQ cannot select messages by their properties";
        return Err(BrokerError::unsupported_member("/selector", detail));
    }
    if command.convert {
        let detail = "RabbitMQ knows no character sets, so it cannot convert bodies";
        return Err(BrokerError::unsupported_member("/convert", detail));
    }
    let (session, taking) = take(pool, access, queue, command, room, deadline).await?;
    if matches!(taking.stop, Some(Full::First)) {
        let error = too_large(queue, room, taking.last_count, session.server.counted());
        if taking.has_exceeded_the_intake {
            session.close_overfull(queue, deadline).await;
        } else {
            session.give_back(queue, deadline).await;
            session.release(deadline).await;
        }
        return Err(error);
    }
    let mut taken = Taken {
        session,
        queue: queue.clone(),
        last_tag: taking.last_tag,
        has_excess: taking.has_excess,
        kind: taking.kind(),
        consumers_to_settle: taking.consumers_to_settle(),
        consumed: taking.consumed,
    };
    match command.mode {
        AckMode::Take(Ack::Commit | Ack::Rollback) => Ok(Box::new(taken)),
        AckMode::Take(Ack::None) => Ok(Box::new(remove(taken, deadline).await)),
        AckMode::Browse => {
            taken.consumed.warnings.push(NO_BROWSE);
            Ok(Box::new(SettledMessages { consumed: taken.restore(deadline).await, removed: false }))
        }
    }
}

/// Takes messages from a queue, as many as the command asks for and fit into `room`: by consumers
/// if the queue allows them, otherwise by single `basic.get` requests. Returns the session that
/// holds the deliveries, and the kept messages.
async fn take<'a>(
    pool: &Pool,
    access: &Access,
    queue: &'a QueueName,
    command: &'a ConsumeCommand,
    room: Room,
    deadline: Deadline,
) -> Result<(Session, Taking<'a>), BrokerError> {
    let session = open(pool, access, room, deadline).await?;
    let most_held = pool.settings().most_held;
    let mut taking = Taking::new(queue, command, room);
    let goes_back = matches!(command.mode, AckMode::Browse | AckMode::Take(Ack::Rollback));
    if goes_back && session.server.counted() == Counted::EveryReturn {
        match refuse_to_requeue(&session, queue, deadline).await {
            Ok(facts) => taking.facts = Some(Some(facts)),
            Err(error) => {
                session.release(deadline).await;
                return Err(error);
            }
        }
    }
    let mut taking = match taking.run(&session, most_held, deadline).await {
        Ok(()) if taking.has_exceeded_the_intake && !taking.consumed.messages.is_empty() => {
            session.close_overfull(queue, deadline).await;
            taking.again()
        }
        Ok(()) => return Ok((session, taking)),
        Err(failure) => {
            let error = session.fail(failure, During::Queue(queue));
            if !taking.consumer_was_refused {
                return Err(error);
            }
            // Another client is the queue's exclusive consumer, which does not prevent `basic.get`.
            // The refusal closed the channel, so the broker requeues what was taken.
            taking.again()
        }
    };
    let session = open(pool, access, room, deadline).await?;
    match taking.run(&session, most_held, deadline).await {
        Ok(()) => Ok((session, taking)),
        Err(failure) => Err(session.fail(failure, During::Queue(queue))),
    }
}

/// Acquires a connection on which the bytes of deliveries are limited to those that one fetch may
/// hold in memory.
async fn open(pool: &Pool, access: &Access, room: Room, deadline: Deadline) -> Result<Session, BrokerError> {
    let session = pool.acquire(access, deadline).await?;
    session.intake().bind(pool.settings().most_held);
    if let Some(largest) = room.alone {
        session.intake().let_in_alone(held_alone(largest));
    }
    Ok(session)
}

/// Builds the error of a first message that alone exceeds the size limit `room`. `returns` is how
/// often the message was returned to its queue before, if known. For a quorum queue that counts
/// every return, the text has this number plus one, because the message is returned once more.
fn too_large(queue: &QueueName, room: Room, returns: Option<u64>, counted: Counted) -> BrokerError {
    let counted = returns.filter(|_| counted == Counted::EveryReturn).map_or_else(String::new, |returns| {
        let times = returns.saturating_add(1);
        format!("; its queue has counted that it went back {times} times, and drops it past a delivery limit")
    });
    let bound = match room.alone {
        None => "an answer can carry".to_owned(),
        Some(largest) => format!("can be stored for an answer, which are {largest} bytes"),
    };
    BrokerError::too_large(format!(
        "the first message of the queue `{queue}` alone exceeds what {bound}{counted}"
    ))
}

/// Acknowledges the messages at once, and adds a warning that they are removed outside any
/// transaction.
async fn remove(taken: Taken, deadline: Deadline) -> SettledMessages {
    let (mut consumed, removed) = taken.remove(deadline).await;
    consumed
        .warnings
        .push("the messages were removed at once, outside any transaction; they are lost if this answer is");
    if let Err(error) = removed {
        consumed.warnings.push(format!("the messages may be delivered again: {error}"));
    }
    SettledMessages { consumed, removed: true }
}

/// Returns the session, or an error if requeueing messages of this queue could lose them.
pub(crate) async fn refuse_harm(
    session: Session,
    queue: &QueueName,
    deadline: Deadline,
) -> Result<Session, BrokerError> {
    if session.server.counted() == Counted::EveryReturn
        && let Err(error) = refuse_to_requeue(&session, queue, deadline).await
    {
        session.release(deadline).await;
        return Err(error);
    }
    Ok(session)
}

/// Returns the type and arguments of a classic queue, and an error for any other queue. A quorum
/// queue that counts every return drops or dead-letters messages past its delivery limit, and a
/// policy may set a limit that no client can see.
async fn refuse_to_requeue(
    session: &Session,
    queue: &QueueName,
    deadline: Deadline,
) -> Result<QueueFacts, BrokerError> {
    let facts = queue_facts::learn(session, queue, deadline).await?;
    let kind = match facts.kind {
        QueueKind::Classic => return Ok(facts),
        QueueKind::Quorum => "a quorum queue".to_owned(),
        QueueKind::Stream => "a stream".to_owned(),
        QueueKind::Other(name) => format!("of the unknown type `{name}`"),
    };
    Err(BrokerError::unsupported(format!(
        "the queue `{queue}` is {kind}: messages cannot be looked at and put back there, because a queue may drop what returns too often"
    )))
}
