//! Producer of a load test: sends messages to a function that runs on the connection's thread (a
//! job, see the module `putter`), and collects the outcome of each message.

use std::collections::VecDeque;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use async_trait::async_trait;
use broker::Deadline;
use broker::load::{Confirmation, LoadProducer, MOST_IN_FLIGHT, Outcome, PutEnd, PutOptions};
use mq::{Access, BrokerError, OutgoingMessage, QueueName};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::mpsc::error::TryRecvError;

use super::putter::{Event, Plan, Puts, Step, work};
use crate::errors::During;
use crate::members;
use crate::mqi::{Connection, Refusal};
use crate::outgoing::{Context, Prepared, Preparer};
use crate::owned::Owned;
use crate::pool::Pool;
use crate::produce::{count, fits_unit};
use crate::session::{Failure, Session, Told};
use crate::worker::WorkerError;

/// Producer of a load test, on its own connection. Dropping the producer ends the connection, and
/// backs out uncommitted puts.
pub(crate) struct Producer<'a> {
    session: Session,
    steps: mpsc::Sender<Step>,
    events: UnboundedReceiver<Event>,
    queue: &'a QueueName,
    preparer: Preparer,
    /// Maximum number of unconfirmed messages of the producer at a time.
    most: usize,
    /// Messages that were sent to the connection's thread and that it has not reported on yet,
    /// oldest first.
    handed: VecDeque<Handed>,
    /// Total size in bytes of the bodies of the messages in `handed`.
    bytes: usize,
    /// Messages that the connection's thread has put in the open unit of work.
    held: Vec<Handed>,
    answers: Vec<Confirmation>,
    /// Last reason with which the queue manager refused a message; `None` if it refused none.
    refused: Option<Refusal>,
    /// Failure after which the producer puts no more messages; `None` while it works.
    failed: Option<Failure>,
}

/// Message that was sent to the connection's thread to be put.
#[derive(Clone, Copy, Debug)]
struct Handed {
    sequence: u64,
    bytes: usize,
    at: Instant,
}

/// Connects and opens the queue for a producer of a load test, after checking that IBM MQ can carry
/// the properties and headers of its messages.
pub(crate) async fn connect<'a>(
    pool: &Arc<Pool>,
    access: &Access,
    queue: &'a QueueName,
    options: &'a PutOptions,
    deadline: Deadline,
) -> Result<Producer<'a>, BrokerError> {
    members::check(&options.outgoing)?;
    let context = Context::of(access, pool.settings());
    let preparer = Preparer::new(&options.outgoing, Some(options.test.as_str()), context);
    let preparer = preparer.map_err(BrokerError::unsupported)?;
    let plan = Plan {
        queue: queue.as_str().to_owned(),
        sets_context: preparer.sets_context(),
        unit: options.transaction.get(),
    };
    let job = |owned: &Owned| {
        let (plan, abandoned) = (plan.clone(), owned.abandoned());
        move |connection: &Connection, told: Told<_>| work(connection, &plan, &abandoned, told)
    };
    let (session, begun) = pool.begin(access, deadline, job).await?;
    let Puts { steps, events } = match begun {
        Ok(puts) => puts,
        Err(failure) => return Err(session.fail(failure, During::Queue(queue), deadline).await),
    };
    if let Err(error) = fits_unit(count(plan.unit), session.most_uncommitted()) {
        // Frees the thread for other work.
        drop(steps);
        session.finish();
        return Err(error);
    }
    Ok(Producer {
        session,
        steps,
        events,
        queue,
        preparer,
        most: options.confirms_in_flight.max(options.transaction).get(),
        handed: VecDeque::new(),
        bytes: 0,
        held: Vec::new(),
        answers: Vec::new(),
        refused: None,
        failed: None,
    })
}

impl Producer<'_> {
    fn has_room(&self) -> bool {
        self.handed.len() + self.held.len() < self.most && self.bytes < MOST_IN_FLIGHT
    }

    /// Processes the reports that the connection's thread has sent, without waiting.
    fn note_events(&mut self) {
        loop {
            match self.events.try_recv() {
                Ok(event) => self.note(event),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => return self.note_end(),
            }
        }
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::Held => {
                let next = self.next_handed();
                self.held.extend(next);
            }
            Event::Answered(answer, refusal) => {
                self.next_handed();
                self.answers.push(answer);
                self.refused = refusal.or(self.refused);
            }
            Event::Ended(answers) => {
                self.held.clear();
                self.answers.extend(answers);
            }
            Event::Failed(refusal) => {
                self.failed = Some(refusal.into());
                let not_put = self.handed.drain(..).map(|message| message.ended(Outcome::NotPut));
                self.answers.extend(not_put);
                self.bytes = 0;
            }
        }
    }

    fn next_handed(&mut self) -> Option<Handed> {
        let next = self.handed.pop_front();
        self.bytes = self.bytes.saturating_sub(next.map_or(0, |message| message.bytes));
        next
    }

    /// Records as a failure that the connection's thread sends no more reports. An earlier failure
    /// is kept instead.
    fn note_end(&mut self) {
        self.failed.get_or_insert(Failure::NoAnswer(WorkerError::Gone));
    }

    fn ended(&self) -> Option<BrokerError> {
        self.failed.map(|failure| failure.into_error(During::Queue(self.queue)))
    }

    /// Waits until the function that puts the messages on the connection's thread has ended, at
    /// most until `deadline`, and processes its reports.
    async fn wait_for_end(&mut self, deadline: Deadline) {
        loop {
            match deadline.run(self.events.recv()).await {
                Ok(Some(event)) => self.note(event),
                Ok(None) if self.handed.is_empty() && self.held.is_empty() => return,
                Ok(None) => return self.note_end(),
                Err(_) => {
                    self.failed.get_or_insert(Failure::NoAnswer(WorkerError::TimedOut));
                    return;
                }
            }
        }
    }
}

impl Handed {
    fn ended(self, outcome: Outcome) -> Confirmation {
        Confirmation { sequence: self.sequence, sent_at: self.at, at: Instant::now(), outcome }
    }
}

#[async_trait]
impl LoadProducer for Producer<'_> {
    async fn put(
        &mut self,
        message: OutgoingMessage,
        sent_at_us: u64,
        deadline: Deadline,
    ) -> Result<(), BrokerError> {
        self.note_events();
        while !self.has_room() && self.failed.is_none() {
            match deadline.run(self.events.recv()).await {
                Ok(Some(event)) => self.note(event),
                Ok(None) => self.note_end(),
                Err(_) => {
                    let detail = "IBM MQ did not confirm enough of the messages before this one in time";
                    return Err(BrokerError::timeout(detail));
                }
            }
            self.note_events();
        }
        if let Some(error) = self.ended() {
            return Err(error);
        }
        let prepared = self.preparer.prepared(message).map_err(BrokerError::unsupported)?;
        let message = Handed { sequence: prepared.sequence, bytes: prepared.body.len(), at: Instant::now() };
        let prepared = Prepared { sent_at_us: Some(sent_at_us), ..prepared };
        if self.steps.send(Step::Put(Box::new(prepared))).is_err() {
            self.note_events();
            self.note_end();
            return Err(self.ended().unwrap_or_else(|| BrokerError::unreachable("the connection was lost")));
        }
        self.bytes += message.bytes;
        self.handed.push_back(message);
        Ok(())
    }

    async fn idle_until(&mut self, due: tokio::time::Instant) {
        let until = Deadline::at(due);
        while !self.handed.is_empty() && self.failed.is_none() {
            match until.run(self.events.recv()).await {
                Ok(Some(event)) => self.note(event),
                Ok(None) => self.note_end(),
                Err(_) => break,
            }
        }
        tokio::time::sleep_until(due).await;
    }

    fn confirmations(&mut self) -> Vec<Confirmation> {
        self.note_events();
        std::mem::take(&mut self.answers)
    }

    async fn finish(mut self: Box<Self>, deadline: Deadline) -> PutEnd {
        // If the thread has ended its job already, its last report says why.
        let _ = self.steps.send(Step::Finish);
        self.wait_for_end(deadline).await;
        let Self { session, queue, handed, held, answers, refused, failed, .. } = *self;
        let mut confirmations = answers;
        let unanswered = held.into_iter().chain(handed);
        confirmations.extend(unanswered.map(|message| message.ended(Outcome::InDoubt)));
        let Some(failure) = failed else {
            session.finish();
            let error = refused.map(|refusal| refusal.into_error(During::Queue(queue)));
            return PutEnd { confirmations, error };
        };
        let error = session.fail(failure, During::Queue(queue), deadline).await;
        let in_doubt = confirmations.iter().filter(|message| message.outcome == Outcome::InDoubt).count();
        let error = match in_doubt {
            0 => error,
            _ => {
                let detail = format!("{in_doubt} messages were put and not confirmed: {error}");
                error.left_in_doubt(detail)
            }
        };
        PutEnd { confirmations, error: Some(error) }
    }
}
