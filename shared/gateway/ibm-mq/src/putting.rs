//! Puts the messages of a produce on a queue, on the connection's thread.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use broker::Deadline;
use broker::load::{SENT_AT, SEQUENCE};
use libmqm_sys::{self as mqi, MQLONG};
use mq::HeaderValue;
use tokio::sync::oneshot;

use crate::earlier::EarlierSearch;
use crate::mqi::{Connection, Object, Properties, Refusal};
use crate::outgoing::{Prepared, Preparer};
use crate::session::{Failure, Told, unless_refused};
use crate::worker::{WorkerError, wait_for};

/// Number of bytes of bodies after which the connection's thread puts no more messages, and reports
/// the messages that it has put.
const MOST_BYTES: usize = 1024 * 1024;

/// Queue that is open for output on a connection's thread. Dropping the value closes the queue;
/// uncommitted messages stay in the connection's unit of work.
pub(crate) struct Putting {
    steps: mpsc::Sender<Step>,
}

/// Messages that the connection's thread has put in the unit of work: all that were requested, or
/// the first ones of them.
#[derive(Debug, Default)]
pub(crate) struct Handed {
    /// Time at which each message was handed to the client library.
    pub(crate) times: Vec<Instant>,
    /// Total size of the messages' bodies in bytes.
    pub(crate) bytes: usize,
    /// Reason codes of the warnings with which the queue manager accepted messages.
    pub(crate) warnings: Vec<MQLONG>,
    /// True if the unit of work was committed after these messages.
    pub(crate) is_committed: bool,
}

enum Step {
    Put(Puts, oneshot::Sender<Result<Handed, Unfinished>>),
    Commit(Told<()>),
    /// Searches for messages that earlier attempts at the produce put, with a second handle of the
    /// queue.
    Find(EarlierSearch, Told<u64>),
}

/// Request to the connection's thread to put messages, which are given by their indices.
struct Puts {
    messages: Range<u64>,
    /// Time after which no further message is put.
    until: Instant,
    /// Decision about the commit, if these are the last messages of their unit of work; otherwise
    /// `None`.
    commit: Option<CommitDecision>,
}

/// Flag that decides once whether a unit of work is committed. The connection's thread sets it when
/// it begins the commit. The caller sets it when it stops waiting, which prevents the commit. The
/// first of the two wins.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommitDecision(Arc<AtomicBool>);

impl CommitDecision {
    /// Claims the decision for the side that calls this: the operation or the connection's thread.
    /// Returns true if it is the first to claim, and false if the other side has decided before.
    fn claim(&self) -> bool {
        !self.0.swap(true, Ordering::SeqCst)
    }
}

/// Reason why the connection's thread did not fulfil a request to put messages.
pub(crate) enum Unfinished {
    /// A put failed, so the messages are not committed. The number is the index of the message that
    /// the queue manager refused; `None` if it refused none.
    Put(Failure, Option<u64>),
    /// IBM MQ cannot carry one of the messages, for this reason.
    Unusable(String),
    /// The commit failed or was not answered. The messages that were put are given if the thread
    /// answered, otherwise `None`.
    Commit(Failure, Option<Handed>),
}

impl Putting {
    /// Returns the function that runs on the connection's thread for a produce (its job). It opens
    /// the queue, and then puts messages at the request of the [`Putting`] that it sends back. The
    /// function builds the messages itself, because building is cheaper than passing them between
    /// threads.
    pub(crate) fn job(queue: &str, preparer: Arc<Preparer>) -> impl FnOnce(&Connection, Told<Self>) + use<> {
        let queue = queue.to_owned();
        move |connection, told| work(connection, &queue, &preparer, told)
    }

    /// Puts the messages with these indices into the unit of work, and returns which were put.
    /// Stops at the time `until`, or after [`MOST_BYTES`], so perhaps only the first messages are
    /// put.
    ///
    /// With `commit`, the messages are the last of their unit of work, which is committed if all
    /// are put. If the answer does not arrive before `deadline`, a commit that has not begun is
    /// prevented.
    pub(crate) async fn put(
        &self,
        messages: Range<u64>,
        until: Deadline,
        commit: Option<CommitDecision>,
        deadline: Deadline,
    ) -> Result<Handed, Unfinished> {
        let puts = Puts { messages, until: until.instant().into_std(), commit: commit.clone() };
        match self.take(|answer| Step::Put(puts, answer), deadline).await {
            Ok(answer) => answer,
            Err(no_answer) => Err(match commit.filter(|commit| !commit.claim()) {
                Some(_) => Unfinished::Commit(no_answer.into(), None),
                None => Unfinished::Put(no_answer.into(), None),
            }),
        }
    }

    pub(crate) async fn commit(&self, deadline: Deadline) -> Result<(), Failure> {
        Ok(self.take(Step::Commit, deadline).await??)
    }

    /// Searches the queue for messages that earlier attempts put, and returns how many of the
    /// produce's first messages are known to have been put.
    pub(crate) async fn find(&self, look: EarlierSearch, deadline: Deadline) -> Result<u64, Failure> {
        Ok(self.take(|answer| Step::Find(look, answer), deadline).await??)
    }

    async fn take<T>(
        &self,
        step: impl FnOnce(oneshot::Sender<T>) -> Step,
        deadline: Deadline,
    ) -> Result<T, WorkerError> {
        let (answer, answered) = oneshot::channel();
        // If the thread has ended, no answer comes.
        let _ = self.steps.send(step(answer));
        wait_for(answered, deadline).await
    }
}

/// Opens the queue, and executes the steps of a produce on the connection's thread. Ends when the
/// caller drops the [`Putting`] that is sent through `told`.
fn work(connection: &Connection, name: &str, preparer: &Preparer, told: Told<Putting>) {
    let (to_open, context) = options(preparer.sets_context());
    let opened = Object::open_queue(connection, name, to_open);
    let Some((queue, told)) = unless_refused(opened, told) else { return };
    // If the caller has stopped waiting, the channel is closed, and the loop ends at once.
    let (steps, todo) = mpsc::channel();
    let _ = told.send(Ok(Putting { steps }));
    let options = mqi::MQPMO_SYNCPOINT | context;
    let mut putter = Putter { connection, queue, options, preparer, last: None };
    for step in todo {
        match step {
            Step::Put(puts, answer) => {
                let _ = answer.send(putter.put(puts));
            }
            Step::Commit(answer) => {
                let _ = answer.send(connection.commit());
            }
            Step::Find(look, answer) => {
                let _ = answer.send(look.at(connection, name));
            }
        }
    }
}

/// State of the job on the connection's thread that builds a produce's messages and puts them.
struct Putter<'c> {
    connection: &'c Connection,
    queue: Object<'c>,
    options: MQLONG,
    preparer: &'c Preparer,
    last: Last<'c>,
}

impl Putter<'_> {
    fn put(&mut self, Puts { messages, until, commit }: Puts) -> Result<Handed, Unfinished> {
        let mut handed = Handed::default();
        let mut left = messages;
        while handed.bytes < MOST_BYTES
            && Instant::now() < until
            && let Some(number) = left.next()
        {
            let prepared = self.preparer.prepare(number).map_err(Unfinished::Unusable)?;
            let Some(message) = prepared else { break };
            handed.bytes += message.body.len();
            let put = put_one(self.connection, &self.queue, self.options, message, &mut self.last);
            let (at, warning) = put.map_err(|refusal| Unfinished::Put(refusal.into(), Some(number)))?;
            handed.times.push(at);
            handed.warnings.extend(warning);
        }
        match commit {
            Some(decision) if left.is_empty() => self.commit(&decision, handed),
            _ => Ok(handed),
        }
    }

    fn commit(&self, decision: &CommitDecision, mut handed: Handed) -> Result<Handed, Unfinished> {
        if !decision.claim() {
            // The caller has stopped waiting.
            return Err(Unfinished::Put(WorkerError::TimedOut.into(), None));
        }
        match self.connection.commit() {
            Ok(()) => {
                handed.is_committed = true;
                Ok(handed)
            }
            Err(refusal) => Err(Unfinished::Commit(refusal.into(), Some(handed))),
        }
    }
}

/// Returns the options of MQOPEN to open a queue for output, and those of MQPUT, without the option
/// for the syncpoint. With `sets_context`, the messages set their own user, application and time.
pub(crate) const fn options(sets_context: bool) -> (MQLONG, MQLONG) {
    match sets_context {
        true => (mqi::MQOO_OUTPUT | mqi::MQOO_SET_ALL_CONTEXT, mqi::MQPMO_SET_ALL_CONTEXT),
        false => (mqi::MQOO_OUTPUT, mqi::MQPMO_NONE),
    }
}

/// Message handle of the previous message with that message's properties, to be reused by the next
/// one; `None` before the first message.
pub(crate) type Last<'c> = Option<(Arc<Vec<(String, HeaderValue)>>, Properties<'c>)>;

/// Puts a message with these MQPUT `options`. Returns the time at which the message was handed to
/// the client library, and the reason code of a harmless warning; `None` without a warning. Keeps
/// the message handle in `last` for the next message.
pub(crate) fn put_one<'c>(
    connection: &'c Connection,
    queue: &Object<'_>,
    options: MQLONG,
    message: Prepared,
    last: &mut Last<'c>,
) -> Result<(Instant, Option<MQLONG>), Refusal> {
    let properties = properties(connection, &message, last)?;
    let Prepared { mut descriptor, properties: shared, body, .. } = message;
    let at = Instant::now();
    let warning = queue.put(&mut descriptor, options, &properties, None, &body)?;
    *last = Some((shared, properties));
    Ok((at, warning))
}

/// Returns a message handle with the message's properties, reusing the previous message's handle if
/// the properties are the same.
fn properties<'c>(
    connection: &'c Connection,
    message: &Prepared,
    last: &mut Last<'c>,
) -> Result<Properties<'c>, Refusal> {
    let properties = match last.take() {
        Some((shared, properties)) if Arc::ptr_eq(&shared, &message.properties) => properties,
        _ => {
            let properties = Properties::new(connection)?;
            for (name, value) in message.properties.iter() {
                properties.set(name, value)?;
            }
            properties
        }
    };
    properties.set(SEQUENCE, &number(message.sequence))?;
    if let Some(sent_at_us) = message.sent_at_us {
        properties.set(SENT_AT, &number(sent_at_us))?;
    }
    Ok(properties)
}

fn number(number: u64) -> HeaderValue {
    HeaderValue::Int64(i64::try_from(number).unwrap_or(i64::MAX))
}
