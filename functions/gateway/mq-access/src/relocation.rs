//! Executes a move: messages are confirmed on their destination queues, recorded in the idempotency
//! record, and only then removed from the source queue.

use std::time::Duration;

use api::{Problem, Reply};
use broker::{Deadline, Relocation};
use idempotency::{
    Execution, Progress, ProgressLeftBehind, StoreError, Tally, Volume, WriteOutcome, from_store,
};
use mq::{MoveCommand, MoveFailure, MoveOutcome, MoveReport, Target};
use orders::{from_broker, from_move};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::end::{ChangeDone, ChangeFailure};
use crate::produce::{resumed, with_elsewhere};
use crate::ready::queue_of;
use crate::{MqAccess, answer};

/// Reason why a move ended before all selected messages were moved.
enum Stopped {
    /// The broker failed. `done` messages are on their destination queues, and `settled` of them
    /// are removed from the source queue; both numbers include earlier attempts.
    Failed { failure: MoveFailure, done: u64, settled: u64 },
    /// The idempotency record could not be written. All attempts together had moved `moved`
    /// messages before.
    Unnoted { error: StoreError, moved: u64 },
    /// Another execution owns the idempotency record. Messages that were put and not yet removed
    /// stay on the source queue too; the response of the other execution counts them as possible
    /// duplicates.
    TakenOver,
}

/// Result of a completed move, from which its response is built.
struct Moved<'a> {
    /// Claimed idempotency record of the request, with the progress of earlier attempts, as it was
    /// before this attempt moved its messages.
    execution: &'a Execution,
    /// Number of messages that all attempts together moved from the present source queue.
    moved: u64,
    possible_duplicates: u64,
    possibly_moved: u64,
}

impl MqAccess {
    /// Moves messages until the total of all attempts reaches the command's maximum. The progress
    /// is recorded before a message is removed from the source queue, if the broker cannot move it
    /// atomically.
    pub(crate) async fn relocate(
        &self,
        target: &Target,
        command: &MoveCommand,
        execution: &mut Execution,
        deadline: Deadline,
    ) -> Result<ChangeDone, ChangeFailure> {
        let started = Instant::now();
        let ready = self.ready(target, deadline).await?;
        let queue = queue_of(target)?;
        let reach = &target.reach;
        let connected = ready.with_login(async |broker, access| {
            broker.connect_to_move(access, queue, command, reach, deadline).await
        });
        let mut moving = connected.await.map_err(|error| {
            let left = execution.place_history.left_by(execution.progress);
            with_elsewhere(from_move(&error, 0, 0), &left, max(command))
        })?;
        *execution = self.arrived(target, execution, moving.cluster()).await?;
        let execution = &*execution;
        match self.move_all(&mut *moving, command, execution, deadline).await {
            Ok(moved) => {
                let (most_in_doubt, refused_in_doubt) = (moving.most_in_doubt(), moving.refused_in_doubt());
                let report = moving.finish(deadline).await;
                let possible_duplicates = possible_duplicates(execution, most_in_doubt);
                let done = Moved {
                    execution,
                    moved,
                    possible_duplicates: possible_duplicates.saturating_add(refused_in_doubt),
                    possibly_moved: possibly_moved(execution, most_in_doubt, max(command)),
                };
                let reply = answered(target, command, Some(&done), &report, started.elapsed());
                Ok(ChangeDone::Completed(reply, volume(execution, moved)))
            }
            Err(Stopped::TakenOver) => Err(ChangeFailure::taken_over()),
            Err(Stopped::Unnoted { error, moved }) => {
                let problem = resumed(unnoted(&error, moved), execution.progress.done);
                let progress = progress(execution, (moved, 0), &*moving);
                let volume = volume(execution, moved);
                Err(ChangeFailure::Stopped { problem, progress, in_doubt: 0, volume })
            }
            Err(Stopped::Failed { failure, done, settled }) => {
                let left = &execution.place_history.left_behind;
                let hand = moving.most_in_doubt();
                let earlier = possible_duplicates(execution, hand).saturating_add(possibly_moved(
                    execution,
                    hand,
                    max(command),
                ));
                let in_doubt =
                    failure.in_doubt.saturating_add(moving.refused_in_doubt()).saturating_add(earlier);
                let problem = from_move(&failure.error, settled, in_doubt);
                let problem = with_elsewhere(problem, left, max(command));
                let problem = resumed(problem, execution.progress.done);
                let progress = progress(execution, (done, failure.in_doubt), &*moving);
                let returned =
                    if failure.error.may_mean_a_lost_broker() { moving.unreplicated_removals() } else { 0 };
                let progress = progress.repeating(returned);
                let volume = volume(execution, done);
                Err(ChangeFailure::Stopped { problem, progress, in_doubt: failure.in_doubt, volume })
            }
        }
    }

    /// Lists the messages that a move would take, without moving them.
    pub(crate) async fn preview_move(
        &self,
        target: &Target,
        command: &MoveCommand,
        deadline: Deadline,
    ) -> Result<Reply, Problem> {
        let started = Instant::now();
        let ready = self.ready(target, deadline).await?;
        let (queue, reach) = (queue_of(target)?, &target.reach);
        let report = ready.with_login(async |broker, access| {
            broker.preview_move(access, queue, command, reach, deadline).await
        });
        let report = report.await.map_err(|error| from_broker(&error))?;
        Ok(answered(target, command, None, &report, started.elapsed()))
    }

    /// Moves messages until none is left on the source queue or the command's maximum is reached.
    /// Returns the number that all attempts together moved.
    async fn move_all(
        &self,
        moving: &mut dyn Relocation,
        command: &MoveCommand,
        execution: &Execution,
        deadline: Deadline,
    ) -> Result<u64, Stopped> {
        let mut moved = execution.progress.done;
        while moved < max(command) {
            let left_before = moving.refused_in_doubt();
            let put = moving.put(max(command) - moved, deadline).await;
            let put = put.map_err(|failure| Stopped::Failed { failure, done: moved, settled: moved })?;
            if put.count == 0 && (put.is_last || moving.refused_in_doubt() == left_before) {
                break;
            }
            let done = moved.saturating_add(put.count);
            let now = progress(execution, (done, 0), moving);
            let mut noted = if put.is_certain { self.note(execution, now, done).await } else { Ok(()) };
            if let Err(Stopped::TakenOver) = noted {
                return Err(Stopped::TakenOver);
            }
            // A message that is at its new place leaves the old one even if the record does not
            // have it: this is all that a retry may move in excess, and it is not there twice.
            moving.settle(deadline).await.map_err(|failure| {
                let done = if put.is_certain { done } else { moved };
                Stopped::Failed { failure, done, settled: moved }
            })?;
            moved = done;
            if !put.is_certain {
                noted = self.note(execution, now, moved).await;
            }
            noted?;
            if put.is_last {
                break;
            }
        }
        Ok(moved)
    }

    /// Writes the progress of a move to the idempotency record: the number of messages on their
    /// destination queues, and the number in doubt. `moved` is the number of moved messages that
    /// [`Stopped::Unnoted`] reports if the write fails.
    async fn note(&self, execution: &Execution, progress: Progress, moved: u64) -> Result<(), Stopped> {
        match self.store.checkpoint(execution, progress).await {
            Ok(WriteOutcome::Applied) => Ok(()),
            Ok(WriteOutcome::Fenced) => Err(Stopped::TakenOver),
            Err(error) => Err(Stopped::Unnoted { error, moved }),
        }
    }
}

/// Builds the problem of a move that stopped because its idempotency record could not be updated.
/// `moved` messages had been moved before.
fn unnoted(error: &StoreError, moved: u64) -> Problem {
    let mut problem = from_store(error, "cannot record what was moved").extension("moved", json!(moved));
    if moved > 0 {
        problem.detail = format!(
            "the idempotency store did not take that {moved} messages were moved; ask again with the same key \
             for the rest"
        );
    }
    problem
}

/// Returns the progress of a move: `done` messages are on their destination queues, and up to
/// `in_doubt` further messages may be on theirs.
fn progress(execution: &Execution, (done, in_doubt): (u64, u64), moving: &dyn Relocation) -> Progress {
    let begun = execution.progress;
    let advanced = begun.advanced(done, in_doubt);
    // Doubts without a number are counted by attempts: see `possible_duplicates`.
    let repeated = if Tally::of(begun.in_doubt).is_complete { advanced.repeated } else { begun.repeated };
    Progress { repeated, ..advanced }.repeating(moving.refused_in_doubt())
}

/// Returns the number of moved messages, including those that earlier attempts moved from other
/// source queues. The bytes are 0, because a move does not count them.
fn volume(execution: &Execution, moved: u64) -> Volume {
    let elsewhere = execution.place_history.left_behind.iter().map(|left| left.done);
    Volume { messages: elsewhere.fold(moved, u64::saturating_add), bytes: 0 }
}

fn max(command: &MoveCommand) -> u64 {
    command.max.get().into()
}

/// Returns how many messages of earlier attempts may be on both queues, or on a destination twice.
/// The record has this number for attempts that recorded their end, and for messages that a queue
/// refused. An attempt without a recorded end left at most `most_in_doubt`. The result is 0 if the
/// broker moves atomically (`most_in_doubt` is 0).
fn possible_duplicates(execution: &Execution, most_in_doubt: u64) -> u64 {
    if most_in_doubt == 0 {
        return 0;
    }
    let Tally { counted, is_complete } = execution.progress.in_doubt_or_repeated();
    let silent = if is_complete { 0 } else { execution.earlier_attempts() };
    most_in_doubt.saturating_mul(silent.into()).saturating_add(counted)
}

/// Returns how many messages earlier attempts may have moved without recording it, at most `max`
/// for each attempt. Returns 0 for a broker that cannot move atomically (`most_in_doubt` is above
/// 0), where such messages count as possible duplicates.
fn possibly_moved(execution: &Execution, most_in_doubt: u64, max: u64) -> u64 {
    if most_in_doubt > 0 {
        return 0;
    }
    let progress = execution.progress;
    let in_doubt = progress.in_doubt.saturating_add(progress.repeated);
    in_doubt.min(max.saturating_mul(u64::from(execution.earlier_attempts())))
}

/// Body of the response to a move, with its members in alphabetical order, as in other responses.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MoveAnswer<'a> {
    destinations: Vec<Value>,
    dry_run: bool,
    duration_ms: u64,
    elsewhere: Value,
    examined: u64,
    messages: &'a [MoveOutcome],
    moved: u64,
    possible_duplicates: u64,
    possibly_moved: u64,
    remaining: Option<u64>,
    resumed_from: u64,
    stayed: u64,
    target: String,
    truncated: bool,
    warnings: Vec<String>,
}

fn answered(
    target: &Target,
    command: &MoveCommand,
    done: Option<&Moved<'_>>,
    report: &MoveReport,
    took: Duration,
) -> Reply {
    let by_destination = report.by_destination();
    let left = done.map(|done| done.execution.place_history.left_behind.as_slice()).unwrap_or_default();
    let resumed_from = done.map_or(0, |done| done.execution.progress.done);
    let ids = report.warning_of_ids(resumed_from);
    let elsewhere_warnings = left.iter().map(|left| moved_elsewhere(left, max(command)));
    let body = MoveAnswer {
        target: target.to_string(),
        dry_run: done.is_none(),
        moved: done.map_or(by_destination.values().sum(), |done| done.moved),
        resumed_from,
        possible_duplicates: done.map_or(0, |done| done.possible_duplicates),
        possibly_moved: done.map_or(0, |done| done.possibly_moved),
        elsewhere: answer::elsewhere(left, max(command)),
        stayed: report.stayed,
        examined: report.examined,
        remaining: report.remaining,
        truncated: report.truncated,
        duration_ms: answer::millis(took),
        destinations: by_destination
            .iter()
            .map(|(queue, moved)| json!({"queue": queue, "moved": moved}))
            .collect(),
        warnings: report.warnings.iter().cloned().chain(ids).chain(elsewhere_warnings).collect(),
        messages: &report.messages,
    };
    Reply::json(200, &body)
}

/// Builds a warning about messages that earlier attempts at the move took from another queue or
/// broker (`left`). `max` is the maximum number of messages of the move.
fn moved_elsewhere(left: &ProgressLeftBehind, max: u64) -> String {
    let messages = answer::left_behind(left, max, "from");
    format!("earlier attempts moved {messages}; this attempt began again")
}

#[cfg(test)]
mod tests {
    use api::Reason;
    use mq::{KeptReason, MaxMoves, QueueName};

    use super::*;

    #[test]
    fn a_move_that_could_not_be_noted_does_not_say_that_nothing_was_moved() {
        let error = StoreError::Unavailable("down".into());
        let problem = unnoted(&error, 32);
        assert!(problem.detail.contains("32 messages were moved"), "{problem}");
        assert_eq!((problem.reason, &problem.extensions["moved"]), (Reason::StoreUnavailable, &json!(32)));
        assert!(unnoted(&error, 0).detail.contains("executed nothing"));
    }

    /// Measures the message list of a move's response, with the maximum number of messages, and
    /// with ids and names of the maximum length.
    #[test]
    fn the_answer_of_the_largest_move_can_be_carried() {
        let name: QueueName = "\"".repeat(255).try_into().unwrap();
        let message = MoveOutcome {
            msg_id: Some(vec![0xff; 255]),
            to: Some(name),
            stays: Some(KeptReason::NotReproducible),
            deaths: u64::MAX,
            backout_count: u64::MAX,
        };
        let most = u64::from(MaxMoves::MAX) + MoveReport::MOST_STAYING;
        let messages = vec![message; usize::try_from(most).unwrap()];
        // Lambda carries a body as a JSON string, in which each quote and backslash is escaped.
        let body = serde_json::to_string(&messages).unwrap();
        let carried = serde_json::to_string(&body).unwrap().len();
        assert!(carried < 5_500_000, "{carried} bytes");
    }
}
