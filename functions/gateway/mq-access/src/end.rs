//! Writes the outcome of a change (produce, consume or move) into its idempotency record.

use std::time::Duration;

use api::{Problem, Reply};
use idempotency::{Execution, Outcome, Progress, Volume, WriteOutcome, in_progress};

use crate::MqAccess;

/// Outcome of a successful change (produce, consume or move), which decides how its idempotency
/// record is completed.
pub(crate) enum ChangeDone {
    /// The reply is not recorded yet. It has to be written into the request's idempotency record,
    /// with the number and bytes of the request's messages. Retries get the recorded reply.
    Completed(Reply, Volume),
    /// The reply was written into the request's idempotency record before the broker committed or
    /// rolled back. The record has to be marked as completed, with the number and bytes of the
    /// request's messages. Retries get the stored reply.
    AsPrepared(Reply, Volume),
    /// The request's idempotency record is already complete, or the reply warns that the record may
    /// not be. Nothing is written.
    Ended(Reply),
}

/// Outcome of a failed change (produce, consume or move), which decides how its idempotency record
/// is updated.
pub(crate) enum ChangeFailure {
    /// The execution changed nothing at the broker. A retry starts where this execution started.
    Failed(Problem),
    /// The execution ended before all messages were put or moved. Up to `in_doubt` messages may or
    /// may not have been put or moved by it. A retry starts at `progress`, which includes these
    /// messages. `volume` counts the messages of all attempts.
    Stopped { problem: Problem, progress: Progress, in_doubt: u64, volume: Volume },
    /// The idempotency record stays unchanged: another execution owns it, or retries have to wait
    /// until its lease expires.
    Left(Problem),
}

impl From<Problem> for ChangeFailure {
    fn from(problem: Problem) -> Self {
        Self::Failed(problem)
    }
}

impl ChangeFailure {
    /// Returns the failure of an execution whose record another execution has taken over.
    pub(crate) fn taken_over() -> Self {
        Self::Left(taken_over())
    }
}

/// Returns the problem "in progress" for an execution whose record another execution has taken
/// over. The outcome of the other execution will be the response to the request.
pub(crate) fn taken_over() -> Problem {
    in_progress(Duration::from_secs(1))
}

impl MqAccess {
    /// Writes the outcome of an execution into its idempotency record, and returns the response. If
    /// another execution owns the record by now, the response is "in progress" even after a
    /// completed change, because no retry would get the reply of this execution.
    pub(crate) async fn end(
        &self,
        execution: &Execution,
        ended: Result<ChangeDone, ChangeFailure>,
    ) -> Result<Reply, Problem> {
        let (outcome, volume, answer) = match ended {
            Ok(ChangeDone::Completed(reply, volume)) => {
                (Outcome::Completed(reply.clone()), Some(volume), Ok(reply))
            }
            Ok(ChangeDone::AsPrepared(reply, volume)) => (Outcome::AsPrepared, Some(volume), Ok(reply)),
            Ok(ChangeDone::Ended(reply)) => return Ok(reply),
            Err(ChangeFailure::Failed(problem)) => (execution.failed(&problem), None, Err(problem)),
            Err(ChangeFailure::Stopped { problem, progress, in_doubt, volume }) => {
                let outcome = Outcome::Failed { error: problem.to_string(), progress, in_doubt };
                (outcome, Some(volume), Err(problem))
            }
            Err(ChangeFailure::Left(problem)) => return Err(problem),
        };
        match (self.store.end_measured(execution, &outcome, volume).await, answer) {
            (Ok(WriteOutcome::Fenced), Ok(_)) => Err(taken_over()),
            (_, answer) => answer,
        }
    }
}
