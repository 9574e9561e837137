//! The one door through which a change leaves its record.

use std::time::Duration;

use api::{Problem, Reply};
use idempotency::{Execution, Outcome, Progress, Volume, WriteOutcome, in_progress};

use crate::MqAccess;

/// Change at a broker that completed.
pub(crate) enum ChangeDone {
    /// The reply is recorded with the volume of the request, and retries get it again.
    Completed(Reply, Volume),
    /// The reply was stored before the change became final. Retries get it again.
    AsPrepared(Reply, Volume),
    /// The record has ended already, and the reply states its outcome.
    Ended(Reply),
}

/// Failure of a change, as a whole or in part.
pub(crate) enum ChangeFailure {
    /// The execution did nothing. Retries run again, from where it began.
    Failed(Problem),
    /// The execution left `in_doubt` units in doubt, at most. Retries run again, from `progress`,
    /// which counts these too. `volume` is that of all attempts.
    Stopped { problem: Problem, progress: Progress, in_doubt: u64, volume: Volume },
    /// The record stays unchanged: another execution owns it, or retries wait for its lease.
    Left(Problem),
}

impl From<Problem> for ChangeFailure {
    fn from(problem: Problem) -> Self {
        Self::Failed(problem)
    }
}

impl ChangeFailure {
    /// An end without a word: another execution has the record by now.
    pub(crate) fn taken_over() -> Self {
        Self::Left(taken_over())
    }
}

/// The answer of an execution that lost its record is that of the one that has it by now.
pub(crate) fn taken_over() -> Problem {
    in_progress(Duration::from_secs(1))
}

impl MqAccess {
    /// Ends the record of an execution, and answers. If another one has the record by now, the
    /// answer is that one's, even if this change was done: no replay would ever repeat its reply.
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
