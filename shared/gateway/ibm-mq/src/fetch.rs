//! Gets messages from a queue as one unit of work, which is then committed or backed out. Also
//! browses messages.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker::{Deadline, SettledMessages, UnitOfWork};
use libmqm_sys::{self as mqi, MQLONG};
use mq::{Access, Ack, AckMode, BackoutRule, BrokerError, ConsumeCommand, Consumed, QueueName};

use crate::depth::fail_to_get;
use crate::doubt::{self, Evidence, SearchedQueue};
use crate::errors::During;
use crate::mqi::Connection;
use crate::outgoing::selected;
use crate::owned::Owned;
use crate::pool::Pool;
use crate::session::{Failure, Session, Told};
use crate::taking::{self, Plan, Selection, Taken, Wait};

/// Reason codes with which the queue manager refuses the selection expression of a consume.
const OF_EXPRESSIONS: [MQLONG; 5] = [
    mqi::MQRC_SELECTOR_SYNTAX_ERROR,
    mqi::MQRC_SELECTOR_INVALID_FOR_TYPE,
    mqi::MQRC_SELECTION_STRING_ERROR,
    mqi::MQRC_SELECTION_NOT_AVAILABLE,
    mqi::MQRC_CONTENT_ERROR,
];
/// Time before a consume's deadline in which it no longer waits for a first message. It is reserved
/// for getting messages, for the response, and for the commit.
const WAIT_MARGIN: Duration = Duration::from_millis(750);
/// Time before a consume's deadline in which it gets no more messages. It is reserved for the
/// response and for the commit.
const TAKE_MARGIN: Duration = Duration::from_millis(250);
pub(crate) async fn fetch(
    pool: &Arc<Pool>,
    access: &Access,
    queue: &QueueName,
    command: &ConsumeCommand,
    max_bytes: usize,
    deadline: Deadline,
) -> Result<Box<dyn UnitOfWork>, BrokerError> {
    let selection = selection(command)?;
    let job = |owned: &Owned| {
        let plan = plan(queue, command, selection.clone(), max_bytes, deadline);
        let abandoned = owned.abandoned();
        move |connection: &Connection, told: Told<_>| taking::take(connection, &plan, &abandoned, told)
    };
    let (session, begun) = pool.begin(access, deadline, job).await?;
    let taken = match begun {
        Ok(taken) => session.answer(taken, deadline).await,
        Err(failure) => Err(failure),
    };
    let taken = match taken {
        Ok(taken) => taken,
        Err(failure) => {
            let error = fail_to_get(session, failure, queue, deadline).await;
            return Err(if is_about_expression(failure) { error.at("/selector/expression") } else { error });
        }
    };
    if taken.first_is_too_large && taken.moved == 0 {
        let _ = session.back_out(deadline).await;
        return Err(BrokerError::too_large(format!(
            "the first message of the queue `{queue}` alone exceeds what an answer can carry"
        )));
    }
    let from = SearchedQueue::new(pool, access, queue);
    let unit = Unit { session, from, taken };
    match command.mode {
        AckMode::Take(Ack::Commit | Ack::Rollback) => Ok(Box::new(unit)),
        AckMode::Take(Ack::None) => Ok(Box::new(unit.remove(deadline).await?)),
        AckMode::Browse => {
            unit.session.finish();
            Ok(Box::new(SettledMessages { consumed: unit.taken.consumed, removed: false }))
        }
    }
}

fn is_about_expression(failure: Failure) -> bool {
    matches!(failure, Failure::Refused(refusal) if OF_EXPRESSIONS.contains(&refusal.reason))
}

fn selection(command: &ConsumeCommand) -> Result<Selection, BrokerError> {
    let id = |bytes: Option<&mq::IdBytes>, member: &str| {
        bytes.map(|bytes| selected(&bytes.0, format!("/selector/{member}"))).transpose()
    };
    Ok(Selection {
        message_id: id(command.selector.msg_id_base64.as_ref(), "msgIdBase64")?,
        correlation_id: id(command.selector.correl_id_base64.as_ref(), "correlIdBase64")?,
        expression: command.selector.expression.as_ref().map(|text| text.as_str().to_owned()),
    })
}

/// Builds the settings of a consume or browse for the connection's thread. `max_bytes` limits the
/// size of the response. Called when the connection is available, since the waits depend on the
/// time left.
fn plan(
    queue: &QueueName,
    command: &ConsumeCommand,
    selection: Selection,
    max_bytes: usize,
    deadline: Deadline,
) -> Plan {
    let asked = Duration::from_secs(command.wait_seconds.get().into());
    let available = deadline.earlier_by(WAIT_MARGIN).remaining();
    let wait = asked.min(available);
    Plan {
        queue: queue.as_str().to_owned(),
        most: usize::try_from(command.max_messages.get()).unwrap_or(usize::MAX),
        max_bytes,
        selection,
        convert: command.convert,
        is_browse: command.mode == AckMode::Browse,
        moves_poison: command.backout == BackoutRule::Requeue && command.mode != AckMode::Take(Ack::Rollback),
        wait: Wait {
            seconds: u32::try_from(wait.as_secs()).unwrap_or(u32::MAX),
            is_shortened: available < asked,
        },
        wait_until: Deadline::after(wait).instant().into_std(),
        stop_at: deadline.earlier_by(TAKE_MARGIN.min(deadline.remaining() / 4)).instant().into_std(),
    }
}

/// Messages of a consume that were received in an open unit of work. Dropping the value ends the
/// connection and backs the messages out.
struct Unit {
    session: Session,
    from: SearchedQueue,
    taken: Taken,
}

#[async_trait]
impl UnitOfWork for Unit {
    fn consumed(&self) -> &Consumed {
        &self.taken.consumed
    }

    async fn commit(self: Box<Self>, deadline: Deadline) -> Result<(), BrokerError> {
        let Self { session, from, taken: Taken { consumed, evidence, .. } } = *self;
        commit(session, &from, &evidence, consumed, deadline).await
    }

    async fn rollback(self: Box<Self>, deadline: Deadline) -> Result<(), BrokerError> {
        // The messages go back in every case: a connection that ends backs out. But without an
        // answer, the time of that is unknown.
        self.session.back_out(deadline).await.map_err(|failure| failure.into_error(During::Connection))
    }
}

impl Unit {
    /// Commits a consume with `ack: none` at once, which removes the messages from the queue.
    ///
    /// # Errors
    /// If the messages are known to be back on the queue. If that is unknown, they are returned
    /// with a warning: if they were removed, no other client can get them.
    async fn remove(self, deadline: Deadline) -> Result<SettledMessages, BrokerError> {
        let Self { session, from, taken } = self;
        let removed = commit(session, &from, &taken.evidence, (), deadline).await;
        let mut consumed = taken.consumed;
        consumed.warnings.push(match removed {
            Ok(()) => {
                "the messages were removed at once, outside any transaction; they are lost if this answer is"
                    .to_owned()
            }
            Err(error @ BrokerError::InDoubt { .. }) => format!(
                "the messages were removed, and are lost if this answer is, or they will be delivered again: {error}"
            ),
            Err(error) => return Err(error),
        });
        Ok(SettledMessages { consumed, removed: true })
    }
}

/// Commits the unit of work of a consume. If the outcome is unknown, searches the queue for the
/// messages: if all are back, the commit did not take effect, and otherwise it stays in doubt.
///
/// `unneeded` is dropped on the connection's thread, which allocated it, because freeing is
/// cheapest there.
async fn commit(
    session: Session,
    from: &SearchedQueue,
    evidence: &[Evidence],
    unneeded: impl Send + 'static,
    deadline: Deadline,
) -> Result<(), BrokerError> {
    let during = During::Queue(&from.queue);
    let until = deadline.earlier_by(doubt::TO_RESOLVE.min(deadline.remaining() / 4));
    let job = move |connection: &Connection| {
        let committed = connection.commit();
        drop(unneeded);
        committed
    };
    let failure = match session.call(until, job).await {
        Ok(()) => {
            session.finish();
            return Ok(());
        }
        Err(failure) => failure,
    };
    if !failure.may_have_committed() {
        return Err(session.fail(failure, during, deadline).await);
    }
    drop(session);
    let error = failure.into_error(during);
    if from.has_all_back(evidence, deadline).await {
        let detail = format!("the messages were not taken and are back on the queue: {error}");
        return Err(BrokerError::unreachable(detail).standing_for(&error));
    }
    let detail = format!("IBM MQ did not confirm the commit: {error}");
    Err(error.left_in_doubt(detail))
}
