//! Puts the messages of a load test, each outside a unit of work, or in units of work with a fixed
//! number of messages. This is a job: a function that runs on the connection's thread until its
//! producer ends it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use broker::load::{Confirmation, Outcome};
use libmqm_sys::{self as mqi, MQLONG};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::mqi::{Connection, Effect, Object, Refusal, Verb};
use crate::outgoing::Prepared;
use crate::putting::{Last, options, put_one};
use crate::reason::{Kind, Reason};
use crate::session::{Told, unless_refused};

/// Settings of the job that puts messages for a load producer on the connection's thread.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) queue: String,
    /// True if the messages set their own context (user, application and time). Otherwise the queue
    /// manager sets it.
    pub(super) sets_context: bool,
    /// Number of messages in a unit of work; 1 puts each message outside a unit of work.
    pub(super) unit: usize,
}

/// Channels between a load producer and the job that puts its messages on the connection's thread.
/// The job ends when `steps` is dropped.
pub(super) struct Puts {
    pub(super) steps: mpsc::Sender<Step>,
    pub(super) events: UnboundedReceiver<Event>,
}

pub(super) enum Step {
    Put(Box<Prepared>),
    /// Commits the open unit of work, and ends the job that puts the messages.
    Finish,
}

/// Report of the job that puts a load producer's messages. Messages are reported in the order in
/// which they were sent to the job.
#[derive(Debug)]
pub(super) enum Event {
    /// The oldest unreported message was put in the open unit of work, which is not committed yet.
    Held,
    /// The oldest unreported message was put and confirmed outside a unit of work, or its put
    /// failed with this refusal.
    Answered(Confirmation, Option<Refusal>),
    /// The open unit of work has ended. The list has the outcome of each of its messages.
    Ended(Vec<Confirmation>),
    /// The job has ended early, and puts none of the messages that are still unreported.
    Failed(Refusal),
}

/// Opens the queue, and sends through `told` the channels that control this job. Then executes the
/// producer's steps, until [`Step::Finish`], the first failure, or until `abandoned` is set.
pub(super) fn work(connection: &Connection, plan: &Plan, abandoned: &AtomicBool, told: Told<Puts>) {
    let (to_open, context) = options(plan.sets_context);
    let opened = Object::open_queue(connection, &plan.queue, to_open);
    let Some((queue, told)) = unless_refused(opened, told) else { return };
    let (steps, todo) = mpsc::channel();
    let (reports, events) = unbounded_channel();
    // If the caller has stopped waiting, the channel is closed, and the loop ends at once.
    let _ = told.send(Ok(Puts { steps, events }));
    let syncpoint = if plan.unit > 1 { mqi::MQPMO_SYNCPOINT } else { mqi::MQPMO_NO_SYNCPOINT };
    let mut putter = Putter {
        connection,
        queue,
        options: syncpoint | context,
        most: plan.unit,
        unit: Vec::new(),
        last: None,
        reports,
    };
    for step in todo {
        if abandoned.load(Ordering::SeqCst) {
            return;
        }
        let done = match step {
            Step::Put(message) => putter.put(*message),
            Step::Finish => {
                if let Err(refusal) = putter.commit() {
                    putter.fail(refusal);
                }
                return;
            }
        };
        if let Err(refusal) = done {
            return putter.fail(refusal);
        }
    }
}

struct Putter<'c> {
    connection: &'c Connection,
    queue: Object<'c>,
    options: MQLONG,
    /// Number of messages in a unit of work; 1 puts each message outside a unit of work.
    most: usize,
    /// Sequence number of each message in the open unit of work, with the time at which the message
    /// was handed to the client library.
    unit: Vec<(u64, Instant)>,
    last: Last<'c>,
    reports: UnboundedSender<Event>,
}

impl Putter<'_> {
    fn put(&mut self, message: Prepared) -> Result<(), Refusal> {
        let (sequence, began) = (message.sequence, Instant::now());
        let put = put_one(self.connection, &self.queue, self.options, message, &mut self.last);
        let answer = |sent_at, outcome| Confirmation { sequence, sent_at, at: Instant::now(), outcome };
        match put {
            Ok((at, _)) if self.is_in_units() => {
                self.unit.push((sequence, at));
                self.report(Event::Held);
                if self.unit.len() >= self.most { self.commit() } else { Ok(()) }
            }
            Ok((at, _)) => {
                self.report(Event::Answered(answer(at, Outcome::Confirmed), None));
                Ok(())
            }
            Err(refusal) => {
                let outcome = outcome(refusal, self.is_in_units());
                self.report(Event::Answered(answer(began, outcome), Some(refusal)));
                if may_pass(refusal) { Ok(()) } else { Err(refusal) }
            }
        }
    }

    fn is_in_units(&self) -> bool {
        self.most > 1
    }

    /// Commits the open unit of work, and reports the outcome of its messages.
    fn commit(&mut self) -> Result<(), Refusal> {
        if self.unit.is_empty() {
            return Ok(());
        }
        let committed = self.connection.commit();
        self.end(match committed {
            Ok(()) => Outcome::Confirmed,
            Err(refusal) if refusal.may_have_committed() => Outcome::InDoubt,
            Err(_) => Outcome::NotPut,
        });
        committed
    }

    /// Reports that the open unit of work has ended, with `outcome` for each of its messages.
    fn end(&mut self, outcome: Outcome) {
        let at = Instant::now();
        let answer = |(sequence, sent_at)| Confirmation { sequence, sent_at, at, outcome };
        let answers = self.unit.drain(..).map(answer).collect();
        self.report(Event::Ended(answers));
    }

    /// Reports a failure after which the job ends. Messages of the open unit of work are reported
    /// as not put, since it is backed out.
    fn fail(&mut self, refusal: Refusal) {
        if !self.unit.is_empty() {
            self.end(Outcome::NotPut);
        }
        self.report(Event::Failed(refusal));
    }

    fn report(&self, event: Event) {
        // If the producer was dropped, nobody wants to know.
        let _ = self.reports.send(event);
    }
}

/// Returns the outcome of a load test's message whose put failed with this refusal. `is_in_unit` is
/// true if the message was put in a unit of work.
fn outcome(refusal: Refusal, is_in_unit: bool) -> Outcome {
    let is_answered = refusal.effect == Effect::Nothing && refusal.spares_the_connection();
    match refusal.verb {
        Verb::Put if is_answered => Outcome::Refused,
        Verb::Put if !is_in_unit => Outcome::InDoubt,
        // The put did not begin, or its unit of work is not committed.
        _ => Outcome::NotPut,
    }
}

/// True if the put failed because the queue was full, so that a later put may succeed.
fn may_pass(refusal: Refusal) -> bool {
    refusal.effect == Effect::Nothing && Reason::of(refusal.reason).kind == Kind::Full
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_put_is_in_doubt_only_if_it_had_no_unit_of_work_and_no_answer() {
        let failed = |verb, reason| Refusal::failed(verb, reason);
        let warned = Refusal { effect: Effect::Something, ..failed(Verb::Put, mqi::MQRC_Q_FULL) };
        for (refusal, alone, in_unit) in [
            (failed(Verb::Put, mqi::MQRC_Q_FULL), Outcome::Refused, Outcome::Refused),
            (failed(Verb::Put, mqi::MQRC_PUT_INHIBITED), Outcome::Refused, Outcome::Refused),
            (failed(Verb::Put, mqi::MQRC_CONNECTION_BROKEN), Outcome::InDoubt, Outcome::NotPut),
            (warned, Outcome::InDoubt, Outcome::NotPut),
            (failed(Verb::SetProperty, mqi::MQRC_CONNECTION_BROKEN), Outcome::NotPut, Outcome::NotPut),
        ] {
            assert_eq!((outcome(refusal, false), outcome(refusal, true)), (alone, in_unit), "{refusal:?}");
        }
    }

    #[test]
    fn a_full_queue_alone_may_have_room_later() {
        assert!(may_pass(Refusal::failed(Verb::Put, mqi::MQRC_Q_FULL)));
        for reason in [mqi::MQRC_PUT_INHIBITED, mqi::MQRC_CONNECTION_BROKEN, mqi::MQRC_MSG_TOO_BIG_FOR_Q] {
            assert!(!may_pass(Refusal::failed(Verb::Put, reason)), "{reason}");
        }
    }
}
