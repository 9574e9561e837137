//! Puts messages on a queue, on the connection's thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use broker::load::{SENT_AT, SEQUENCE};
use clock::Deadline;
use libmqm_sys::{self as mqi, MQLONG};
use tokio::sync::oneshot;

use crate::earlier;
use crate::mqi::{Connection, Object, Properties, PropertyValue, Refusal};
use crate::outgoing::Prepared;
use crate::session::{Failure, Told};
use crate::worker::{WorkerError, wait_for};

/// A queue that is open to put on. Dropping it closes the queue; uncommitted messages remain in the
/// connection's unit of work.
pub(crate) struct Putting {
    steps: mpsc::Sender<Step>,
}

/// Messages that are in the unit of work.
#[derive(Debug, Default)]
pub(crate) struct Handed {
    /// Time at which each message was handed to the library.
    pub(crate) times: Vec<Instant>,
    /// Reason code of each warning.
    pub(crate) warnings: Vec<MQLONG>,
}

/// A refused put, with the message's number in its produce.
type RefusedPut = (Refusal, u64);

enum Step {
    Put(Vec<Prepared>, oneshot::Sender<Result<Handed, RefusedPut>>),
    /// Put the last messages of a unit of work, and commit it.
    PutAndCommit(Vec<Prepared>, Arc<Decision>, oneshot::Sender<Result<Handed, Refused>>),
    Commit(Told<()>),
    /// Search for messages that were put before, with another handle.
    Find(earlier::Look, Told<u64>),
}

/// Decision whether a unit of work is committed. It is made once, either by the thread when it
/// reaches the commit, or by the caller when it stops waiting.
#[derive(Debug, Default)]
struct Decision(AtomicBool);

impl Decision {
    /// `true` for the first caller, which makes the decision.
    fn is_ours(&self) -> bool {
        !self.0.swap(true, Ordering::SeqCst)
    }
}

/// Reason why the thread did not commit the last messages of a unit of work.
enum Refused {
    Put(RefusedPut),
    Commit(Refusal, Handed),
    /// The caller had stopped waiting.
    GivenUp,
}

/// Reason why the last messages of a unit of work are not known to be committed.
pub(crate) enum Unfinished {
    /// The messages were not put; with the number of the refused message, if one was refused.
    Put(Failure, Option<u64>),
    /// The commit failed. The messages that were put are known if the thread answered.
    Commit(Failure, Option<Handed>),
}

impl Putting {
    /// Job that opens the queue, and then puts messages on request of the returned [`Putting`].
    /// With `sets_context` the messages set their own user, application and time.
    pub(crate) fn job(queue: &str, sets_context: bool) -> impl FnOnce(&Connection, Told<Self>) + use<> {
        let queue = queue.to_owned();
        move |connection, told| work(connection, &queue, sets_context, told)
    }

    /// Puts messages into the unit of work.
    ///
    /// # Errors
    /// With the number of the refused message, if one was refused.
    pub(crate) async fn put(
        &self,
        messages: Vec<Prepared>,
        deadline: Deadline,
    ) -> Result<Handed, (Failure, Option<u64>)> {
        match self.take(|answer| Step::Put(messages, answer), deadline).await {
            Ok(put) => put.map_err(|(refusal, at)| (refusal.into(), Some(at))),
            Err(no_answer) => Err((no_answer.into(), None)),
        }
    }

    /// Puts the last messages of a unit of work, and commits it. If the answer does not come in
    /// time and the commit has not begun, it does not begin.
    pub(crate) async fn put_and_commit(
        &self,
        messages: Vec<Prepared>,
        deadline: Deadline,
    ) -> Result<Handed, Unfinished> {
        let decision = Arc::new(Decision::default());
        let theirs = Arc::clone(&decision);
        match self.take(|answer| Step::PutAndCommit(messages, theirs, answer), deadline).await {
            Ok(Ok(handed)) => Ok(handed),
            Ok(Err(Refused::Put((refusal, at)))) => Err(Unfinished::Put(refusal.into(), Some(at))),
            Ok(Err(Refused::Commit(refusal, handed))) => {
                Err(Unfinished::Commit(refusal.into(), Some(handed)))
            }
            Ok(Err(Refused::GivenUp)) => Err(Unfinished::Put(WorkerError::TimedOut.into(), None)),
            Err(no_answer) if decision.is_ours() => Err(Unfinished::Put(no_answer.into(), None)),
            Err(no_answer) => Err(Unfinished::Commit(no_answer.into(), None)),
        }
    }

    pub(crate) async fn commit(&self, deadline: Deadline) -> Result<(), Failure> {
        Ok(self.take(Step::Commit, deadline).await??)
    }

    /// Searches the queue for messages that were put before.
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

/// Executes the steps on the thread, until the sender is dropped.
fn work(connection: &Connection, name: &str, sets_context: bool, told: Told<Putting>) {
    let (to_open, context) = options(sets_context);
    let to_put = mqi::MQPMO_SYNCPOINT | context;
    let queue = match Object::open_queue(connection, name, to_open) {
        Ok(queue) => queue,
        Err(refusal) => {
            let _ = told.send(Err(refusal));
            return;
        }
    };
    // If the caller has stopped waiting, the channel is closed, and the loop ends at once.
    let (steps, todo) = mpsc::channel();
    let _ = told.send(Ok(Putting { steps }));
    let mut last = None;
    for step in todo {
        match step {
            Step::Put(messages, answer) => {
                let _ = answer.send(put_all(connection, &queue, to_put, messages, &mut last));
            }
            Step::PutAndCommit(messages, decision, answer) => {
                let put = put_all(connection, &queue, to_put, messages, &mut last);
                let _ = answer.send(put.map_err(Refused::Put).and_then(|handed| {
                    if !decision.is_ours() {
                        return Err(Refused::GivenUp);
                    }
                    match connection.commit() {
                        Ok(()) => Ok(handed),
                        Err(refusal) => Err(Refused::Commit(refusal, handed)),
                    }
                }));
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

/// Options to open a queue for messages, and to put them besides the syncpoint's. With
/// `sets_context` the messages set their own user, application and time.
pub(crate) const fn options(sets_context: bool) -> (MQLONG, MQLONG) {
    match sets_context {
        true => (mqi::MQOO_OUTPUT | mqi::MQOO_SET_ALL_CONTEXT, mqi::MQPMO_SET_ALL_CONTEXT),
        false => (mqi::MQOO_OUTPUT, mqi::MQPMO_NONE),
    }
}

/// Properties of the last message, which the next one may share.
pub(crate) type Last<'c> = Option<(Arc<Vec<(String, PropertyValue)>>, Properties<'c>)>;

fn put_all<'c>(
    connection: &'c Connection,
    queue: &Object<'_>,
    options: MQLONG,
    messages: Vec<Prepared>,
    last: &mut Last<'c>,
) -> Result<Handed, RefusedPut> {
    let mut handed = Handed { times: Vec::with_capacity(messages.len()), warnings: Vec::new() };
    for message in messages {
        let number = message.sequence;
        let put = put_one(connection, queue, options, message, last);
        let (at, warning) = put.map_err(|refusal| (refusal, number))?;
        handed.times.push(at);
        handed.warnings.extend(warning);
    }
    Ok(handed)
}

/// Puts a message. Returns the time at which it was handed to the library, and the reason code of a
/// warning.
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
    let warning = queue.put(&mut descriptor, options, Some(&properties), None, &body)?;
    *last = Some((shared, properties));
    Ok((at, warning))
}

/// Message handle with the message's properties; the last message's handle if it has the same.
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

fn number(number: u64) -> PropertyValue {
    PropertyValue::Int64(i64::try_from(number).unwrap_or(i64::MAX))
}
