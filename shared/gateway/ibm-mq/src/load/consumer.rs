//! Consumer of a load test: receives the messages that a function on the connection's thread gets
//! (a job, see the module `getter`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use broker::Deadline;
use broker::load::{Arrival, GetEnd, GetError, GetOptions, LoadConsumer};
use mq::{Access, BrokerError, QueueName};

use super::getter::{End, Gets, Plan, take};
use crate::depth::fail_to_get;
use crate::errors::During;
use crate::mqi::{Connection, Refusal, Verb};
use crate::owned::Owned;
use crate::pool::Pool;
use crate::session::{Failure, Session, Told};
use crate::worker::WorkerError;

/// Consumer of a load test, on its own connection. Dropping the consumer ends the connection, and
/// backs out uncommitted gets.
pub(crate) struct Consumer<'a> {
    session: Session,
    gets: Gets,
    queue: &'a QueueName,
    /// Reason why the function that gets the messages on the connection's thread has ended; `None`
    /// until the consumer notices that end.
    end: Option<Result<End, Failure>>,
}

/// Connects and opens the queue for a consumer of a load test. The function that gets the messages
/// on the connection's thread waits for [`Consumer::begin`].
pub(crate) async fn connect<'a>(
    pool: &Arc<Pool>,
    access: &Access,
    queue: &'a QueueName,
    options: &'a GetOptions,
    deadline: Deadline,
) -> Result<Consumer<'a>, BrokerError> {
    let job = |owned: &Owned| {
        let (plan, abandoned) = (plan(queue, options, owned.most_uncommitted()), owned.abandoned());
        move |connection: &Connection, told: Told<_>| take(connection, &plan, &abandoned, told)
    };
    let (session, begun) = pool.begin(access, deadline, job).await?;
    match begun {
        Ok(gets) => Ok(Consumer { session, gets, queue, end: None }),
        Err(failure) => Err(fail_to_get(session, failure, queue, deadline).await),
    }
}

fn plan(queue: &QueueName, options: &GetOptions, most_uncommitted: u64) -> Plan {
    let most = usize::try_from(most_uncommitted).unwrap_or(usize::MAX);
    Plan {
        queue: queue.as_str().to_owned(),
        test: options.test.as_str().to_owned(),
        foreign: options.foreign,
        prefetch: options.prefetch.get().into(),
        unit: options.ack_every.get().min(most),
    }
}

impl Consumer<'_> {
    /// Starts the job that gets messages on the connection's thread, unless it has started.
    fn begin(&mut self) {
        if let Some(begin) = self.gets.begin.take() {
            let _ = begin.send(());
        }
    }

    /// Records and returns the reason why the connection's thread delivers no more messages.
    fn note_end(&mut self) -> Result<End, Failure> {
        let end = self.gets.end.try_recv().map_err(|_| Failure::NoAnswer(WorkerError::Gone));
        *self.end.get_or_insert(end)
    }

    fn error(&self, end: Result<End, Failure>) -> GetError {
        let during = During::Queue(self.queue);
        match end {
            Ok(End::Foreign) => GetError::Foreign(self.queue.clone()),
            Ok(End::TooLong(length)) => BrokerError::too_large(format!(
                "a message of the queue `{}` has {length} bytes, more than a load test takes",
                self.queue
            ))
            .into(),
            Ok(End::Refused(refusal)) => refusal.into_error(during).into(),
            Ok(End::Stopped) => Failure::NoAnswer(WorkerError::Gone).into_error(during).into(),
            Err(failure) => failure.into_error(during).into(),
        }
    }

    /// Tells the function that gets the messages on the connection's thread to stop, and returns
    /// the reason of its end. Messages that it still delivers are added to `rest`.
    async fn stop(&mut self, rest: &mut Vec<Arrival>, deadline: Deadline) -> Result<End, Failure> {
        self.gets.stop.store(true, Ordering::SeqCst);
        // A job that has not begun sees at once that it has to stop.
        self.begin();
        loop {
            match deadline.run(self.gets.arrivals.recv()).await {
                Ok(Some(arrival)) => rest.push(arrival),
                Ok(None) => return self.note_end(),
                Err(_) => return Err(Failure::NoAnswer(WorkerError::TimedOut)),
            }
        }
    }
}

#[async_trait]
impl LoadConsumer for Consumer<'_> {
    async fn next(&mut self, wait: Deadline) -> Result<Option<Arrival>, GetError> {
        self.begin();
        match wait.run(self.gets.arrivals.recv()).await {
            Ok(Some(arrival)) => Ok(Some(arrival)),
            Ok(None) => {
                let end = self.note_end();
                Err(self.error(end))
            }
            Err(_) => Ok(None),
        }
    }

    async fn finish(mut self: Box<Self>, deadline: Deadline) -> GetEnd {
        let mut rest = Vec::new();
        let end = self.stop(&mut rest, deadline).await;
        let unsettled = self.gets.unit.numbers().clone();
        let why = self.error(end);
        let Self { session, gets, queue, .. } = *self;
        drop(gets);
        let failure = match end {
            Ok(End::Stopped) => {
                session.finish();
                return GetEnd { rest, unsettled, error: None };
            }
            Ok(End::Foreign | End::TooLong(_)) => {
                // If this fails, the end of the connection backs out as well.
                let _ = session.back_out(deadline).await;
                return GetEnd { rest, unsettled, error: Some(why) };
            }
            Ok(End::Refused(refusal)) => refusal.into(),
            Err(failure) => failure,
        };
        let error = session.fail(failure, During::Queue(queue), deadline).await;
        let error = match unsettled.len() {
            count if count > 0 && is_in_doubt(failure) => {
                let detail = format!("IBM MQ did not confirm that {count} messages were removed: {error}");
                error.left_in_doubt(detail)
            }
            _ => error,
        };
        GetEnd { rest, unsettled, error: Some(error.into()) }
    }
}

/// True if it is unknown after this failure whether a load consumer's unit of work was committed.
/// False if a call other than MQCMIT was refused, since no commit was requested then.
fn is_in_doubt(failure: Failure) -> bool {
    match failure {
        Failure::Refused(Refusal { verb, .. }) if verb != Verb::Commit => false,
        failure => failure.may_have_committed(),
    }
}
