//! Puts messages on a queue, on the connection's thread.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use broker::Deadline;
use broker::load::{SENT_AT, SEQUENCE};
use libmqm_sys::{self as mqi, MQLONG};
use mq::HeaderValue;
use tokio::sync::oneshot;

use crate::earlier;
use crate::mqi::{Connection, Object, Properties, Refusal};
use crate::outgoing::{Prepared, Preparer};
use crate::session::{Failure, Told, unless_refused};
use crate::worker::{WorkerError, wait_for};

/// Number of bytes of bodies after which the connection's thread reports the messages that it has
/// put.
const MOST_BYTES: usize = 1024 * 1024;

/// Queue that is open for output on a connection's thread. Dropping it closes the queue;
/// uncommitted messages stay in the connection's unit of work.
pub(crate) struct Putting {
    steps: mpsc::Sender<Step>,
}

/// Messages that the connection's thread has put in the unit of work: the first of the requested
/// ones, or all.
#[derive(Debug, Default)]
pub(crate) struct Handed {
    /// Time at which each message was handed to the client library.
    pub(crate) times: Vec<Instant>,
    /// Total size of the messages' bodies in bytes.
    pub(crate) bytes: usize,
    /// Reason codes of the warnings with which messages were put.
    pub(crate) warnings: Vec<MQLONG>,
    /// True if the unit of work was committed after these messages.
    pub(crate) is_committed: bool,
}

enum Step {
    Put(Puts, oneshot::Sender<Result<Handed, Unfinished>>),
    Commit(Told<()>),
    /// Searches for messages of earlier attempts, with a second handle of the queue.
    Find(earlier::Look, Told<u64>),
}

/// Request to put messages, given by their indices.
struct Puts {
    messages: Range<u64>,
    /// Time after which no further message is put.
    until: Instant,
    /// Decision about the commit, if these are the last messages of their unit of work; otherwise
    /// `None`.
    commit: Option<Decision>,
}

/// Decision whether a unit of work is committed, made once: the connection's thread decides to
/// commit when it reaches the commit, or the caller decides against it when it stops waiting.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decision(Arc<AtomicBool>);

impl Decision {
    /// Makes the decision, unless it is made already. Returns true if this call made it.
    fn is_ours(&self) -> bool {
        !self.0.swap(true, Ordering::SeqCst)
    }
}

/// Reason why a request to put messages did not succeed.
pub(crate) enum Unfinished {
    /// The messages are not committed. The number is the index of the refused message, if the queue
    /// manager refused one.
    Put(Failure, Option<u64>),
    /// IBM MQ cannot carry one of the messages, for this reason.
    Unusable(String),
    /// The commit failed or was not answered. The messages that were put are known if the thread
    /// answered.
    Commit(Failure, Option<Handed>),
}

impl Putting {
    /// Returns the job that opens the queue and then puts messages at the request of the returned
    /// [`Putting`]. The job builds the messages itself, because building is cheaper than passing
    /// them between threads.
    pub(crate) fn job(queue: &str, preparer: Arc<Preparer>) -> impl FnOnce(&Connection, Told<Self>) + use<> {
        let queue = queue.to_owned();
        move |connection, told| work(connection, &queue, &preparer, told)
    }

    /// Puts messages into the unit of work, perhaps only the first ones: stops at `until`, or after
    /// [`MOST_BYTES`].
    ///
    /// With `commit`, the messages are the last of their unit of work, which is committed if all
    /// are put. If the answer does not arrive before `deadline`, a commit that has not begun is
    /// prevented.
    pub(crate) async fn put(
        &self,
        messages: Range<u64>,
        until: Deadline,
        commit: Option<Decision>,
        deadline: Deadline,
    ) -> Result<Handed, Unfinished> {
        let puts = Puts { messages, until: until.instant().into_std(), commit: commit.clone() };
        match self.take(|answer| Step::Put(puts, answer), deadline).await {
            Ok(answer) => answer,
            Err(no_answer) => Err(match commit.filter(|commit| !commit.is_ours()) {
                Some(_) => Unfinished::Commit(no_answer.into(), None),
                None => Unfinished::Put(no_answer.into(), None),
            }),
        }
    }

    pub(crate) async fn commit(&self, deadline: Deadline) -> Result<(), Failure> {
        Ok(self.take(Step::Commit, deadline).await??)
    }

    /// Searches the queue for messages that earlier attempts put, and returns how many of the first
    /// are known to have been put.
    pub(crate) async fn find(&self, look: earlier::Look, deadline: Deadline) -> Result<u64, Failure> {
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

/// Opens the queue and executes the caller's steps on the connection's thread. Ends when the caller
/// drops the returned [`Putting`].
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

/// State of the job that builds messages and puts them.
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

    fn commit(&self, decision: &Decision, mut handed: Handed) -> Result<Handed, Unfinished> {
        if !decision.is_ours() {
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

/// Returns the options to open a queue for output, and to put messages (without the syncpoint's).
/// With `sets_context`, the messages set their own user, application and time.
pub(crate) const fn options(sets_context: bool) -> (MQLONG, MQLONG) {
    match sets_context {
        true => (mqi::MQOO_OUTPUT | mqi::MQOO_SET_ALL_CONTEXT, mqi::MQPMO_SET_ALL_CONTEXT),
        false => (mqi::MQOO_OUTPUT, mqi::MQPMO_NONE),
    }
}

/// Message handle of the previous message, with the properties that it holds, for reuse by the next
/// message.
pub(crate) type Last<'c> = Option<(Arc<Vec<(String, HeaderValue)>>, Properties<'c>)>;

/// Puts a message. Returns the time at which it was handed to the library, and the reason code of a
/// harmless warning.
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
