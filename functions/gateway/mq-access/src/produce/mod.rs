//! Executes a produce: puts messages, and continues after the messages that earlier attempts put.

use std::time::Duration;

use api::Problem;
use broker::{Broker, Deadline, EarlierAttempts, ReadyToPut};
use idempotency::{
    Execution, Place, PlaceHistory, Progress, ProgressLeftBehind, StoreError, Volume, WriteOutcome,
    from_store,
};
use mq::{BrokerError, ContentSeed, MessageId, Outgoing, ProduceCommand, ProduceFailure, Target};
use orders::from_produce;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};

use crate::answer::Produced;
use crate::end::{ChangeDone, ChangeFailure};
use crate::{MqAccess, answer};

/// Interval at which a produce records its progress (a checkpoint): 800 ms, which with the time of
/// a write makes at least one checkpoint a second.
const CHECKPOINT_EVERY: Duration = Duration::from_millis(800);

impl MqAccess {
    /// Puts the messages of the command, with the same ids and contents in every attempt. Continues
    /// at the checkpoint of an earlier attempt, or begins with the first message if that attempt
    /// put its messages on another queue or broker.
    pub(crate) async fn produce(
        &self,
        target: &Target,
        command: ProduceCommand,
        execution: &mut Execution,
        deadline: Deadline,
    ) -> Result<ChangeDone, ChangeFailure> {
        let (started, count) = (Instant::now(), command.source.count());
        // Messages that earlier attempts put are not reported as on this target: without a
        // connection it is unknown whether its place is the same.
        let not_begun = |problem: Problem| {
            let left = execution.place_history.left_by(execution.progress);
            with_elsewhere(problem, &left, count)
        };
        let uploaded = self.with_uploaded_bodies(&execution.tenant, command, deadline).await;
        let mut command = uploaded.map_err(not_begun)?;
        let ready = self.ready(target, deadline).await.map_err(not_begun)?;
        let warnings = std::mem::take(&mut command.warnings);
        let outgoing = Outgoing::of(command, seed(execution)).after(execution.earlier_attempts());
        let connected = ready.with_login(async |broker, access| {
            let Target { exchange, queue, .. } = target;
            match (exchange, queue) {
                (Some(exchange), _) => broker.connect_to_publish(access, exchange, &outgoing, deadline).await,
                (None, Some(queue)) => broker.connect_to_put(access, queue, &outgoing, deadline).await,
                (None, None) => {
                    Err(BrokerError::rejected("the target names neither a queue nor an exchange"))
                }
            }
        });
        let nothing = |error| ProduceFailure { error, committed: 0, in_doubt: Vec::new() };
        let mut connected =
            connected.await.map_err(|error| not_begun(from_produce(&nothing(error), 0, |_| Vec::new())))?;
        let arrived = self.arrived(target, execution, connected.cluster()).await?;
        *execution = self.found(connected.as_mut(), (&*execution, arrived), count, deadline).await?;
        let execution = &*execution;
        let from = execution.progress.done;
        let confirmed = watch::Sender::new(from);
        let produced = tokio::select! {
            produced = connected.put(from, &confirmed, deadline) => produced,
            () = self.keep_checkpoints(execution, confirmed.subscribe()) => {
                return Err(ChangeFailure::taken_over());
            }
        };
        match produced {
            Ok(report) => {
                let volume = put_before(&outgoing, &execution.place_history, from)
                    .plus(Volume { messages: report.enqueued, bytes: report.bytes });
                let produced =
                    Produced { warnings: &warnings, report: &report, execution, message_count: count };
                let reply = answer::produced(target, &produced, started.elapsed());
                Ok(ChangeDone::Completed(reply, volume))
            }
            Err(failure) => Err(not_put(ready.broker(), execution, &outgoing, &failure)),
        }
    }

    /// Searches the queue for messages that earlier attempts put without a checkpoint. `before` is
    /// the execution as this attempt found it, and `execution` the same with its progress on the
    /// present queue and broker; `count` is the number of messages of the produce. Records the
    /// progress after the found messages, and returns the execution with that progress. After a
    /// single earlier attempt, each found message is on the queue once; after several, a stalled
    /// attempt may still put duplicates.
    async fn found(
        &self,
        connected: &mut (dyn ReadyToPut + '_),
        (before, mut execution): (&Execution, Execution),
        count: u64,
        deadline: Deadline,
    ) -> Result<Execution, ChangeFailure> {
        let progress = execution.progress;
        let unconfirmed = unconfirmed(&before.place_history, before.progress, progress);
        let Some(unconfirmed) = unconfirmed else { return Ok(execution) };
        let done = connected.find(unconfirmed, deadline).await;
        let progress = progress_behind(progress, done, execution.earlier_attempts(), count);
        match Box::pin(self.store.checkpoint(&execution, progress)).await {
            Ok(WriteOutcome::Applied) => {}
            Ok(WriteOutcome::Fenced) => return Err(ChangeFailure::taken_over()),
            // The next attempt finds the messages, too.
            Err(error) => unwritten(&error),
        }
        execution.progress = progress;
        Ok(execution)
    }

    /// Records which queue and broker the connection of a produce or move reached, and returns the
    /// execution with its progress there. `cluster` is the name that the broker gives its cluster;
    /// `None` if it reports none. Messages that an earlier attempt put or moved at another queue or
    /// broker do not count as progress.
    pub(crate) async fn arrived(
        &self,
        target: &Target,
        execution: &Execution,
        cluster: Option<&str>,
    ) -> Result<Execution, ChangeFailure> {
        let place = Place { id: target.queue_identity(cluster), name: target.to_string() };
        match self.store.arrive(execution, place).await {
            Ok(Some(arrived)) => Ok(arrived),
            Ok(None) => Err(ChangeFailure::taken_over()),
            Err(error) => Err(from_store(&error, "cannot record the move to another place").into()),
        }
    }

    /// Writes the number of confirmed messages to the idempotency record at intervals, while the
    /// produce continues. Returns only if another execution owns the record; every further message
    /// would be a duplicate then.
    async fn keep_checkpoints(&self, execution: &Execution, mut confirmed: watch::Receiver<u64>) {
        let mut ticks = tokio::time::interval_at(Instant::now() + CHECKPOINT_EVERY, CHECKPOINT_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if !confirmed.has_changed().unwrap_or_default() {
                continue;
            }
            let done = *confirmed.borrow_and_update();
            let progress = execution.progress.advanced(done, 0);
            // Boxed: most produces are over before the first one.
            match Box::pin(self.store.checkpoint(execution, progress)).await {
                Ok(WriteOutcome::Applied) => {}
                Ok(WriteOutcome::Fenced) => return,
                Err(error) => unwritten(&error),
            }
        }
    }
}

/// Builds the failure of an execution that did not put all messages of the produce.
fn not_put(
    broker: &dyn Broker,
    execution: &Execution,
    outgoing: &Outgoing,
    failure: &ProduceFailure,
) -> ChangeFailure {
    let count = outgoing.count();
    let in_doubt = u64::try_from(failure.in_doubt.len()).unwrap_or(u64::MAX);
    let progress = execution.progress.advanced(failure.committed, in_doubt);
    // Messages in doubt of earlier attempts count too.
    let all_in_doubt = progress.in_doubt.min(count.saturating_sub(progress.done));
    let problem = from_produce(failure, all_in_doubt, |id: &MessageId| broker.wire_id(*id));
    let problem = with_elsewhere(problem, &execution.place_history.left_behind, count);
    let problem = resumed(problem, execution.progress.done);
    let volume = put_before(outgoing, &execution.place_history, progress.done);
    ChangeFailure::Stopped { problem, progress, in_doubt, volume }
}

/// Returns the number and bytes of the messages that all attempts put: the first `done` messages on
/// the present queue, and the messages that earlier attempts put on other queues or brokers. Each
/// attempt elsewhere began with the first message.
fn put_before(outgoing: &Outgoing, place_history: &PlaceHistory, done: u64) -> Volume {
    let attempts = place_history.left_behind.iter().map(|left| left.done).chain([done]);
    let volume = |messages| Volume { messages, bytes: outgoing.bytes_of_first(messages) };
    attempts.map(volume).fold(Volume::default(), Volume::plus)
}

/// Returns the progress of an attempt after a search found the first `done` of `count` messages on
/// the queue. With more than one earlier attempt, messages may have been put more than once.
fn progress_behind(progress: Progress, done: u64, earlier_attempts: u32, count: u64) -> Progress {
    match earlier_attempts {
        1 => progress.found(done, count),
        _ => progress.advanced(done, 0),
    }
}

/// Returns the range of messages that earlier attempts may have put without a checkpoint; `None` if
/// there are none. `before` is the recorded progress of these attempts, and `progress` the part of
/// it on the present queue and broker. The result's field `is_here` is true only if the record
/// (`place_history`) shows that all earlier attempts used the present queue and broker. Messages
/// put elsewhere may have been moved here since.
fn unconfirmed(
    place_history: &PlaceHistory,
    before: Progress,
    progress: Progress,
) -> Option<EarlierAttempts> {
    let from = progress.done;
    if progress.in_doubt > 0 {
        let is_here = place_history.left_behind.is_empty() && progress.repeated == 0;
        let most = if is_here { progress.in_doubt } else { progress.in_doubt.max(progress.repeated) };
        return Some(EarlierAttempts { from, most, is_here });
    }
    // Before the first checkpoint the place of the messages is not noted.
    let is_unnoted = place_history.place.is_none() && before.done == 0;
    // An attempt that searched in vain, or did not search, has counted them as repeated.
    let most = before.in_doubt.max(before.repeated);
    (is_unnoted && most > 0).then_some(EarlierAttempts { from, most, is_here: false })
}

fn unwritten(error: &StoreError) {
    let error: &dyn std::error::Error = error;
    tracing::warn!(
        event_type = "idempotency.unavailable",
        error,
        "cannot write a checkpoint of the produce: {error}"
    );
}

/// Returns the seed from which the ids and contents of the produce's messages are derived. It is
/// the same in every attempt.
fn seed(execution: &Execution) -> ContentSeed {
    let Execution { tenant, idempotency_key, fingerprint, created_at, .. } = execution;
    ContentSeed::new(tenant, idempotency_key, fingerprint.as_str(), *created_at)
}

/// Adds `resumedFrom` to a problem: the number `done` of messages that earlier attempts put or
/// moved at the same queue and broker. Adds nothing if it is 0.
pub(crate) fn resumed(problem: Problem, done: u64) -> Problem {
    if done == 0 { problem } else { problem.extension("resumedFrom", json!(done)) }
}

/// Adds `elsewhere` to a problem: the messages that earlier attempts put or moved at other queues
/// or brokers (`left`), with at most `count` in doubt for each of these. Adds nothing if there are
/// none.
pub(crate) fn with_elsewhere(problem: Problem, left: &[ProgressLeftBehind], count: u64) -> Problem {
    if left.is_empty() {
        problem
    } else {
        problem.extension("elsewhere", answer::elsewhere_in_a_problem(left, count))
    }
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use mq::{ExplicitMessage, Headers, MqProps, ProduceSource, Transaction};

    use super::*;

    fn arrived(place_history: &PlaceHistory, before: Progress) -> Option<EarlierAttempts> {
        let place = Place { id: "here".to_owned(), name: "here".to_owned() };
        unconfirmed(place_history, before, place_history.arrive(before, place).progress)
    }

    #[test]
    fn the_volume_of_a_request_has_what_earlier_attempts_put_here_and_elsewhere() {
        let messages = ["a", "bcd", "ef"].map(ExplicitMessage::of_text).to_vec();
        let command = ProduceCommand {
            source: ProduceSource::Explicit { messages },
            rate_limit_per_sec: None,
            transaction: Transaction::default(),
            props: MqProps::default(),
            headers: Headers::default(),
            warnings: Vec::new(),
        };
        let seed = ContentSeed::new("tenant", "key", "fingerprint", jiff::Timestamp::UNIX_EPOCH);
        let outgoing = Outgoing::of(command, seed);
        let left = ProgressLeftBehind { name: None, done: 2, in_doubt: 1 };
        let moved = PlaceHistory { place: None, left_behind: vec![left] };
        assert_eq!(put_before(&outgoing, &PlaceHistory::default(), 0), Volume::default());
        assert_eq!(put_before(&outgoing, &moved, 1), Volume { messages: 3, bytes: 4 + 1 });
    }

    #[test]
    fn a_problem_says_what_earlier_attempts_did_and_nothing_if_there_were_none() {
        let problem = || Problem::new(api::Reason::QueueFull, "the queue is full");
        assert_eq!(resumed(problem(), 0), problem());
        assert_eq!(resumed(problem(), 40).extensions["resumedFrom"], json!(40));
    }

    #[test]
    fn one_message_stands_for_others_only_where_all_attempts_were() {
        let noted = |place: &str| PlaceHistory {
            place: Some(Place { id: place.to_owned(), name: place.to_owned() }),
            left_behind: Vec::new(),
        };
        let crashed = |done, repeated| Progress { done, in_doubt: u64::MAX, repeated };
        let found = |from, is_here| Some(EarlierAttempts { from, most: u64::MAX, is_here });
        assert_eq!(arrived(&noted("here"), crashed(5, 0)), found(5, true));
        assert_eq!(arrived(&noted("there"), crashed(5, 0)), None, "it begins again");
        assert_eq!(arrived(&PlaceHistory::default(), crashed(0, 0)), found(0, false));
        // An attempt before the last one was at a place that was left, or is unknown.
        let left = ProgressLeftBehind { name: None, done: 5, in_doubt: 0 };
        let moved = PlaceHistory { left_behind: vec![left], ..noted("here") };
        assert_eq!(arrived(&moved, crashed(5, 0)), found(5, false));
        assert_eq!(arrived(&noted("here"), crashed(5, u64::MAX)), found(5, false));
        let failed = Progress { repeated: u64::MAX, ..Progress::default() };
        assert_eq!(arrived(&PlaceHistory::default(), failed), found(0, false), "without a word since");
        // Nothing is in doubt.
        let ended = Progress { done: 5, ..Progress::default() };
        assert_eq!(arrived(&noted("here"), ended), None);
        assert_eq!(arrived(&PlaceHistory::default(), Progress::default()), None);
        let some = Progress { done: 5, in_doubt: 2, repeated: 0 };
        assert_eq!(arrived(&noted("here"), some), Some(EarlierAttempts { from: 5, most: 2, is_here: true }));
    }
}
