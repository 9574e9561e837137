//! Executes a consume or browse. A consume gets messages, stores its response, and only then
//! removes the messages from their queue.

use api::{Problem, Reason, Reply};
use broker::{Deadline, UnitOfWork};
use idempotency::{Execution, Outcome, Prepared, StoreError, Volume, WriteOutcome, from_store};
use mq::{Ack, AckMode, BrokerError, ConsumeCommand, Consumed, OversizedBodies, Target};
use orders::from_broker;
use tokio::time::Instant;

use crate::answer::InHand;
use crate::end::{ChangeDone, ChangeFailure, taken_over};
use crate::large::LARGEST_BODY;
use crate::ready::queue_of;
use crate::{MqAccess, answer};

/// Maximum number of bytes of all messages in a consume response. The other members of the response
/// have the rest of Lambda's 6 MB.
pub(crate) const MAX_CARRIED: usize = 5_500_000;

impl MqAccess {
    /// Gets messages as one unit of work: stores the response, then commits or rolls back at the
    /// broker, then completes the idempotency record. A crash before the response is stored returns
    /// the messages to the queue; after a later crash, a retry gets the stored response. With `ack:
    /// none` the broker removes messages on delivery, and a crash before the record is completed
    /// loses them.
    ///
    /// If `large` allows it, the body of a message that is too large for a response is stored in S3
    /// before the response. A crash before the response is stored leaves an object that no response
    /// names.
    pub(crate) async fn consume(
        &self,
        target: &Target,
        (command, large): (&ConsumeCommand, OversizedBodies),
        execution: &Execution,
        deadline: Deadline,
    ) -> Result<ChangeDone, ChangeFailure> {
        let started = Instant::now();
        let unit = self.fetched(target, command, large, deadline).await?;
        if command.mode == AckMode::Take(Ack::None) {
            return self.removed(target, command, unit.consumed(), execution, started).await;
        }
        let prepared = match self.stored_body(execution, unit.consumed(), large, deadline).await {
            Ok(stored) => {
                let in_hand = InHand { consumed: unit.consumed(), stored: stored.as_ref() };
                let prepared = answer::consumed(target, command, in_hand, started.elapsed());
                self.prepare(execution, prepared, deadline).await
            }
            Err(problem) => Err(problem),
        };
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(problem) => {
                // The messages go back even if the roll-back fails: the channel ends with it.
                let _ = unit.rollback(deadline).await;
                return Err(problem.into());
            }
        };
        let volume = got(unit.consumed());
        let settled = match command.mode {
            AckMode::Take(Ack::Commit) => unit.commit(deadline).await,
            _ => unit.rollback(deadline).await,
        };
        match settled {
            Ok(()) => Ok(ChangeDone::AsPrepared(prepared.into_response(), volume)),
            // The record stays prepared: after its lease a retry returns the stored response.
            Err(error @ BrokerError::InDoubt { .. }) => {
                self.note_doubt(execution).await;
                Err(ChangeFailure::Left(from_broker(&error).retry_after(whole_lease(execution))))
            }
            // The messages are back on the queue: a retry gets them again.
            Err(error) => Err(from_broker(&error).into()),
        }
    }

    /// Writes into the idempotency record that it is unknown whether the messages were removed.
    /// Readers of the table's stream then learn of it before the client retries. A failed write is
    /// only logged.
    async fn note_doubt(&self, execution: &Execution) {
        if let Err(error) = self.store.note_doubt(execution).await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(
                event_type = "idempotency.unavailable",
                error,
                "cannot record the doubt of request {}: {error}",
                execution.trace_id
            );
        }
    }

    /// Responds to a consume with `ack: none`, whose messages the broker has already removed. No
    /// other copy of them exists, so the response is returned even if it cannot be recorded; it
    /// then has a warning.
    async fn removed(
        &self,
        target: &Target,
        command: &ConsumeCommand,
        consumed: &Consumed,
        execution: &Execution,
        started: Instant,
    ) -> Result<ChangeDone, ChangeFailure> {
        let answer = |consumed: &Consumed| {
            let in_hand = InHand { consumed, stored: None };
            let answer = answer::consumed(target, command, in_hand, started.elapsed());
            answer.map(Prepared::into_response).map_err(|error| ChangeFailure::Left(unstored(&error)))
        };
        let response = answer(consumed)?;
        let completed = Outcome::Completed(response.clone());
        let why = match self.store.end_measured(execution, &completed, Some(got(consumed))).await {
            Ok(WriteOutcome::Applied) => return Ok(ChangeDone::Ended(response)),
            Ok(WriteOutcome::Fenced) => "another attempt with this key has taken over",
            Err(_) => "the idempotency store did not confirm it",
        };
        let mut consumed = consumed.clone();
        consumed.warnings.push(format!(
            "this answer may not be recorded ({why}): a retry with the same key may not repeat it, and \
             may remove other messages"
        ));
        answer(&consumed).map(ChangeDone::Ended)
    }

    /// Stores the response of a consume in its idempotency record, before the messages are removed.
    /// Fails if `deadline` has passed by then, or if another execution owns the record.
    async fn prepare(
        &self,
        execution: &Execution,
        prepared: Result<Prepared, StoreError>,
        deadline: Deadline,
    ) -> Result<Prepared, Problem> {
        let prepared = prepared.map_err(|error| unstored(&error))?;
        match self.store.prepare(execution, &prepared).await {
            Ok(WriteOutcome::Applied) if deadline.has_passed() => {
                let detail = "storing the result took all the time there was; the messages stay on the queue";
                Err(Problem::new(Reason::BrokerTimeout, detail))
            }
            Ok(WriteOutcome::Applied) => Ok(prepared),
            Ok(WriteOutcome::Fenced) => Err(taken_over()),
            Err(error) => Err(unstored(&error)),
        }
    }

    /// Reads messages and leaves them on the queue. The request has no idempotency record.
    pub(crate) async fn browse(
        &self,
        target: &Target,
        command: &ConsumeCommand,
        deadline: Deadline,
    ) -> Result<Reply, Problem> {
        let started = Instant::now();
        let unit = self.fetched(target, command, OversizedBodies::Refuse, deadline).await?;
        let in_hand = InHand { consumed: unit.consumed(), stored: None };
        let shown = answer::consumed(target, command, in_hand, started.elapsed());
        unit.rollback(deadline).await.map_err(|error| from_broker(&error))?;
        shown.map(Prepared::into_response).map_err(|error| unstored(&error))
    }

    async fn fetched(
        &self,
        target: &Target,
        command: &ConsumeCommand,
        large: OversizedBodies,
        deadline: Deadline,
    ) -> Result<Box<dyn UnitOfWork>, Problem> {
        let ready = self.ready(target, deadline).await?;
        let queue = queue_of(target)?;
        let command = &ConsumeCommand { backout: target.backout, ..command.clone() };
        let fetched = ready.with_login(async |broker, access| match large {
            OversizedBodies::Refuse => broker.fetch(access, queue, command, MAX_CARRIED, deadline).await,
            OversizedBodies::Store => {
                broker.fetch_large(access, queue, command, MAX_CARRIED, LARGEST_BODY, deadline).await
            }
        });
        fetched.await.map_err(|error| from_broker(&error))
    }
}

/// Returns the number of consumed messages and the bytes of their bodies. Messages that are rolled
/// back count too.
fn got(consumed: &Consumed) -> Volume {
    let whole = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let bodies = consumed.messages.iter().map(|message| whole(message.body.0.len()));
    Volume { messages: whole(consumed.messages.len()), bytes: bodies.fold(0, u64::saturating_add) }
}

pub(crate) fn unstored(error: &StoreError) -> Problem {
    from_store(error, "cannot store the result")
}

fn whole_lease(execution: &Execution) -> u32 {
    let left = execution.lease_left(jiff::Timestamp::now());
    u32::try_from(left.as_secs()).unwrap_or(u32::MAX).saturating_add(1)
}
