//! Moves messages from one queue to others of the same queue manager.
//!
//! A message is browsed and locked, put on its destination, and got from the source queue, all in
//! one unit of work. So it is on exactly one queue at any time. If the destination refuses a
//! message, the message was never got: neither its position nor its backout count changes.

mod route;
mod source;

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use broker::{Deadline, PutMessages, Relocation};
use mq::{Access, AllowedQueues, BrokerError, Destination, MoveCommand, MoveFailure, MoveReport, QueueName};
use tokio::sync::oneshot;

use crate::depth::fail_to_get;
use crate::doubt::{self, SearchedQueue};
use crate::errors::During;
use crate::mqi::{Connection, Refusal};
use crate::outgoing::selected;
use crate::pool::Pool;
use crate::session::{Failure, Session};
use crate::worker::{WorkerError, wait_for};
use route::Route;
use source::{Plan, SelectedId, Source, Window};

/// Time reserved before the deadline for committing the last messages of a move.
const MARGIN: Duration = Duration::from_secs(1);

/// Move in progress, with its IBM MQ connection and the messages of its open unit of work.
pub(crate) struct Moving {
    /// Open connection; `None` after a commit whose outcome is unknown.
    open: Option<Open>,
    from: SearchedQueue,
    /// Messages of the last step of the move, in a unit of work that is not committed yet; empty
    /// after a commit.
    window: Window,
}

/// Open connection of a move. Dropping the value backs out uncommitted work and ends the
/// connection.
struct Open {
    session: Session,
    steps: mpsc::Sender<Step>,
}

type Answer<T> = oneshot::Sender<Result<T, Refusal>>;

enum Step {
    Put { limit: usize, stop_at: Instant, answer: Answer<Window> },
    Commit(Answer<()>),
    Finish(Answer<MoveReport>),
}

pub(crate) async fn connect(
    pool: &Arc<Pool>,
    access: &Access,
    queue: &QueueName,
    command: &MoveCommand,
    reach: &AllowedQueues,
    deadline: Deadline,
) -> Result<Moving, BrokerError> {
    let msg_ids = ids(command)?;
    let session = pool.acquire(access, deadline).await?;
    let plan = plan(&session, queue, command, reach, msg_ids);
    let (steps, todo) = mpsc::channel();
    let (opened, is_open) = oneshot::channel();
    let begun = session.begin(move |connection| work(connection, &plan, opened, &todo));
    let opened = match begun {
        Ok(()) => wait_for(is_open, deadline).await.map_err(Failure::from),
        Err(failure) => Err(failure),
    };
    let from = SearchedQueue::new(pool, access, queue);
    match opened {
        Ok(Ok(())) => Ok(Moving { open: Some(Open { session, steps }), from, window: Window::default() }),
        Ok(Err((refusal, at))) => {
            drop(steps);
            Err(did_not_open(session, refusal, (queue, &at), deadline).await)
        }
        Err(failure) => Err(session.fail(failure, During::Queue(queue), deadline).await),
    }
}

/// Reports which messages a move would put on which queues, by browsing the messages.
pub(crate) async fn preview(
    pool: &Arc<Pool>,
    access: &Access,
    queue: &QueueName,
    command: &MoveCommand,
    reach: &AllowedQueues,
    deadline: Deadline,
) -> Result<MoveReport, BrokerError> {
    let msg_ids = ids(command)?;
    let session = pool.acquire(access, deadline).await?;
    let plan = Plan { is_preview: true, ..plan(&session, queue, command, reach, msg_ids) };
    let limit = usize::try_from(command.max.get()).unwrap_or(usize::MAX);
    let stop_at = stop_at(deadline);
    let shown = session.call(deadline, move |connection| {
        let mut source = match Source::open(connection, &plan) {
            Ok(source) => source,
            Err((refusal, at)) => return Ok(Err((refusal, at))),
        };
        source.fill(limit, stop_at)?;
        Ok(Ok(source.report()))
    });
    match shown.await {
        Ok(Ok(report)) => {
            session.finish();
            Ok(report)
        }
        Ok(Err((refusal, at))) => Err(did_not_open(session, refusal, (queue, &at), deadline).await),
        Err(failure) => Err(session.fail(failure, During::Queue(queue), deadline).await),
    }
}

/// Ends the session of a move that could not open the queue `at`, and returns the error. `from` is
/// the source queue of the move.
async fn did_not_open(
    session: Session,
    refusal: Refusal,
    (from, at): (&QueueName, &QueueName),
    deadline: Deadline,
) -> BrokerError {
    if from == at {
        fail_to_get(session, refusal.into(), from, deadline).await
    } else {
        session.fail(refusal.into(), During::Queue(at), deadline).await
    }
}

fn plan(
    session: &Session,
    queue: &QueueName,
    command: &MoveCommand,
    reach: &AllowedQueues,
    msg_ids: Option<Vec<SelectedId>>,
) -> Plan {
    let most = session.most_uncommitted().max(2);
    let manager = session.queue_manager().map(|facts| facts.name.clone());
    Plan {
        queue: queue.clone(),
        destination: match &command.to {
            Destination::Queue(to) => Some(to.clone()),
            Destination::Origin => None,
        },
        route: Route::new(queue.clone(), command.to.clone(), reach.clone(), manager),
        msg_ids,
        // A message counts twice: when it is put, and when it is got.
        most: usize::try_from(most / 2).unwrap_or(usize::MAX),
        abandoned: session.abandoned(),
        is_preview: false,
    }
}

fn ids(command: &MoveCommand) -> Result<Option<Vec<SelectedId>>, BrokerError> {
    let Some(ids) = &command.msg_ids else { return Ok(None) };
    let id = |(index, given): (usize, &mq::IdBytes)| {
        let id = selected(&given.0, format!("/selector/msgIdsBase64/{index}"));
        id.map(|id| SelectedId { id, given: given.0.clone() })
    };
    ids.iter().enumerate().map(id).collect::<Result<_, _>>().map(Some)
}

fn stop_at(deadline: Deadline) -> Instant {
    deadline.earlier_by(MARGIN.min(deadline.remaining() / 4)).instant().into_std()
}

/// Opens the queues of a move, and reports the result to `opened`. Then executes the caller's steps
/// from `todo` on the connection's thread, until [`Step::Finish`] or until the caller drops their
/// sender.
fn work(
    connection: &Connection,
    plan: &Plan,
    opened: oneshot::Sender<Result<(), (Refusal, QueueName)>>,
    todo: &mpsc::Receiver<Step>,
) {
    let mut source = match Source::open(connection, plan) {
        Ok(source) => source,
        Err(refused) => {
            let _ = opened.send(Err(refused));
            return;
        }
    };
    let _ = opened.send(Ok(()));
    for step in todo {
        match step {
            Step::Put { limit, stop_at, answer } => {
                let _ = answer.send(source.fill(limit, stop_at));
            }
            Step::Commit(answer) => {
                let _ = answer.send(connection.commit());
            }
            Step::Finish(answer) => {
                let _ = answer.send(Ok(source.report()));
                return;
            }
        }
    }
}

impl Moving {
    async fn step<T>(&self, step: impl FnOnce(Answer<T>) -> Step, deadline: Deadline) -> Result<T, Failure> {
        let Some(open) = &self.open else { return Err(WorkerError::Gone.into()) };
        let (answer, answered) = oneshot::channel();
        // If the thread has ended, no answer comes.
        let _ = open.steps.send(step(answer));
        Ok(wait_for(answered, deadline).await??)
    }

    /// Returns the failure of a move whose commit failed or was not answered. If the outcome is
    /// unknown, searches the source queue.
    ///
    /// The search can only prove that nothing was moved: all messages are back. A message on its
    /// destination proves nothing, since another client may have moved it with the same id and
    /// times.
    async fn unsettled(&mut self, failure: Failure, deadline: Deadline) -> MoveFailure {
        let Window { count, evidence, .. } = std::mem::take(&mut self.window);
        let may_have_committed = failure.may_have_committed();
        let error = failure.into_error(During::Queue(&self.from.queue));
        if !may_have_committed {
            return MoveFailure { error, in_doubt: 0 };
        }
        // As long as the connection exists, its unit of work may hold the messages.
        self.open = None;
        if self.from.has_all_back(&evidence, deadline).await {
            let detail =
                format!("the last {count} messages were not moved and are back on the queue: {error}");
            return MoveFailure { error: BrokerError::unreachable(detail).standing_for(&error), in_doubt: 0 };
        }
        let detail = format!(
            "IBM MQ did not confirm the commit of {count} messages, which are either at their old places or at \
             their new ones: {error}"
        );
        MoveFailure { error: error.left_in_doubt(detail), in_doubt: count }
    }
}

#[async_trait]
impl Relocation for Moving {
    fn cluster(&self) -> Option<&str> {
        self.open.as_ref().and_then(|open| open.session.cluster())
    }

    /// Returns the maximum number of messages that may be on both the source and the destination
    /// queue: 0, since a unit of work is committed or backed out atomically.
    fn most_in_doubt(&self) -> u64 {
        0
    }

    async fn put(&mut self, limit: u64, deadline: Deadline) -> Result<PutMessages, MoveFailure> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let stop_at = stop_at(deadline);
        let window = self.step(|answer| Step::Put { limit, stop_at, answer }, deadline).await;
        self.window = window.map_err(|failure| MoveFailure {
            error: failure.into_error(During::Queue(&self.from.queue)),
            in_doubt: 0,
        })?;
        Ok(PutMessages { count: self.window.count, is_certain: false, is_last: self.window.is_last })
    }

    async fn settle(&mut self, deadline: Deadline) -> Result<(), MoveFailure> {
        if self.window.count == 0 {
            return Ok(());
        }
        let until = deadline.earlier_by(doubt::TO_RESOLVE.min(deadline.remaining() / 4));
        match self.step(Step::Commit, until).await {
            Ok(()) => {
                self.window = Window::default();
                Ok(())
            }
            Err(failure) => Err(self.unsettled(failure, deadline).await),
        }
    }

    async fn finish(self: Box<Self>, deadline: Deadline) -> MoveReport {
        let report = self.step(Step::Finish, deadline).await;
        if let (Ok(report), Some(Open { session, .. })) = (report, self.open) {
            session.finish();
            return report;
        }
        // The messages were moved nevertheless.
        let mut unknown = MoveReport { truncated: true, ..MoveReport::default() };
        unknown.warnings.push("the connection broke before it was said which messages were moved");
        unknown
    }
}
