//! The one door through which a change leaves its record.

use std::time::Duration;

use api::{Problem, Reply};
use idempotency::{Execution, Outcome, Progress, Volume, WriteOutcome, in_progress};

use crate::MqAccess;

/// End of a successful change (produce, consume or move), which decides how its record is
/// completed.
pub(crate) enum ChangeDone {
    /// The reply still has to be recorded, with the request's volume. Retries get the recorded
    /// reply.
    Completed(Reply, Volume),
    /// The reply was stored before the broker committed; retries get the stored reply.
    AsPrepared(Reply, Volume),
    /// The record is already complete, or the reply has a warning that it may not be.
    Ended(Reply),
}

/// End of a failed change (produce, consume or move), which decides how its record is updated.
pub(crate) enum ChangeFailure {
    /// The execution changed nothing at the broker. A retry starts where this execution started.
    Failed(Problem),
    /// Up to `in_doubt` messages are in doubt: the execution may or may not have put or moved them.
    /// A retry starts at `progress`, which includes these messages. `volume` counts the messages of
    /// all attempts.
    Stopped { problem: Problem, progress: Progress, in_doubt: u64, volume: Volume },
    /// The record stays unchanged: another execution owns it, or retries have to wait until its
    /// lease expires.
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
/// over, since that execution's outcome will be the request's.
pub(crate) fn taken_over() -> Problem {
    in_progress(Duration::from_secs(1))
}

impl MqAccess {
    /// Writes the outcome of an execution into its record, and returns the response. If another
    /// execution owns the record by now, even a completed change is answered as "in progress",
    /// since no retry would repeat its reply.
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
