//! The protocol with one guard taken out, to see that the checker misses it.

use std::time::Duration;

use idempotency::Execution;
use idempotency::protocol::{Decision, Progress, Record, Status, Token, Transition, decide};
use jiff::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
/// Rule of the idempotency protocol. The model leaves out one rule at a time, to show that the
/// checker then finds a breach.
pub(crate) enum Guard {
    /// The store accepts an attempt's writes only under the owner and attempt number of its claim.
    OwnToken,
    /// A record whose execution has ended accepts no further write of that execution.
    OpenStatus,
    /// A takeover is refused until the lease of the earlier attempt has passed.
    Lease,
    /// The lease is longer by the maximum difference between two clocks.
    Skew,
    /// A worker refuses work that arrives too long after its claim.
    StartBefore,
    /// The response is stored before the messages are removed from the queue.
    PrepareFirst,
    /// A retry that finds a prepared response returns it, and does not execute the work again.
    KeepPrepared,
    /// A takeover keeps the earlier attempt's checkpoint.
    KeepCheckpoint,
    /// If an attempt ended without a report, a takeover counts all units beyond its checkpoint as
    /// in doubt (may have been done).
    KeepDoubt,
    /// A request with another body under the same key is a conflict.
    SameBody,
    /// A claim owns a record that has the claim's own token: it wrote the record before, and only
    /// the response to this write was lost.
    OwnClaim,
    /// The time limit for the start of work is longer by the maximum by which the worker's clock
    /// may be ahead of the clock of the claim.
    TolerantStart,
    /// An attempt resumes the progress of an earlier attempt only if both work at the same place
    /// (such as a queue).
    SamePlace,
    /// Units of work (such as messages) that an earlier attempt left at another place count as
    /// possible duplicates.
    CountMoved,
    /// The record is updated with an attempt's new place before the attempt puts a message there.
    NoteMove,
    /// A takeover is refused if the record's progress has changed since the takeover read it.
    SeenProgress,
    /// Units that an earlier attempt may have done at an unrecorded place count as possible
    /// duplicates. None of them counts as in doubt at the place of the next attempt.
    DoubtOfNoPlace,
    /// A failed attempt records its place only if units were done there, or may have been.
    PlaceOfWork,
    /// A move puts a message at the new place before it removes the message from the old place.
    PutFirst,
    /// A message that an earlier attempt was moving when it ended without a report counts as a
    /// possible duplicate.
    CountHands,
    /// A message whose put was refused counts as in doubt (perhaps delivered): a copy may be in
    /// another queue.
    DoubtRefusals,
    /// The record is updated with a refused message before the next message is put.
    NoteRefusals,
}

impl Guard {
    pub(crate) const ALL: [Self; 22] = [
        Self::OwnToken,
        Self::OpenStatus,
        Self::Lease,
        Self::Skew,
        Self::StartBefore,
        Self::PrepareFirst,
        Self::KeepPrepared,
        Self::KeepCheckpoint,
        Self::KeepDoubt,
        Self::SameBody,
        Self::OwnClaim,
        Self::TolerantStart,
        Self::SamePlace,
        Self::CountMoved,
        Self::NoteMove,
        Self::SeenProgress,
        Self::DoubtOfNoPlace,
        Self::PlaceOfWork,
        Self::PutFirst,
        Self::CountHands,
        Self::DoubtRefusals,
        Self::NoteRefusals,
    ];
}

/// Applies a transition as [`Transition::apply`] does, but without the guard `broken`.
pub(crate) fn apply(
    broken: Option<Guard>,
    transition: &Transition,
    current: Option<&Record>,
) -> Option<Record> {
    let Some(guard) = broken else { return transition.apply(current) };
    let mut transition = transition.clone();
    let mut current = current.cloned();
    let mut seen = current.clone();
    match (guard, &mut transition, &mut current) {
        (
            Guard::OwnToken,
            Transition::Checkpoint { token, .. }
            | Transition::Prepare { token, .. }
            | Transition::Complete { token, .. }
            | Transition::Fail { token, .. },
            Some(record),
        ) => *token = Token { owner: record.owner.clone(), attempt: record.attempt },
        (
            Guard::OpenStatus,
            Transition::Checkpoint { .. }
            | Transition::Prepare { .. }
            | Transition::Complete { .. }
            | Transition::Fail { .. },
            Some(record),
        ) => {
            record.status = match transition {
                Transition::Complete { .. } => Status::Prepared,
                _ => Status::InProgress,
            };
            seen = Some(record.clone());
        }
        (Guard::KeepDoubt, Transition::TakeOver { progress, .. }, _) => progress.in_doubt = 0,
        (Guard::SeenProgress, Transition::TakeOver { progress, .. }, Some(record)) => {
            (record.progress.done, record.progress.repeated) = (progress.done, progress.repeated);
            seen = Some(record.clone());
        }
        _ => {}
    }
    let mut after = transition.apply(seen.as_ref())?;
    if guard == Guard::Skew && matches!(transition, Transition::Claim { .. } | Transition::TakeOver { .. }) {
        after.lease_expires_at -= i64::try_from(Execution::SKEW.as_millis()).unwrap();
    }
    if guard == Guard::KeepCheckpoint && matches!(transition, Transition::TakeOver { .. }) {
        after.progress = Progress::default();
    }
    if guard == Guard::KeepPrepared && matches!(transition, Transition::TakeOver { .. }) {
        after.status = Status::InProgress;
    }
    if let (Guard::PlaceOfWork, Transition::Fail { whereabouts, .. }) = (guard, transition) {
        after.whereabouts = whereabouts;
    }
    Some(after)
}

/// Decides about a claim as [`decide`] does, but without the guard `broken`.
pub(crate) fn decision(
    broken: Option<Guard>,
    found: &Record,
    request_hash: &str,
    owner: &str,
    now: Timestamp,
    retention: Duration,
) -> Decision {
    match broken {
        Some(Guard::Lease) => decide(found, request_hash, owner, Timestamp::MAX, retention).at(now),
        Some(Guard::SameBody) => decide(found, &found.request_hash, owner, now, retention),
        Some(Guard::OwnClaim) => decide(found, request_hash, "somebody else", now, retention),
        _ => decide(found, request_hash, owner, now, retention),
    }
}

trait At {
    fn at(self, time: Timestamp) -> Self;
}

impl At for Decision {
    /// Returns the same decision, with `time` as the time of its write.
    fn at(mut self, time: Timestamp) -> Self {
        if let Self::TakeOver(Transition::TakeOver { now, .. }) = &mut self {
            *now = time;
        }
        self
    }
}
