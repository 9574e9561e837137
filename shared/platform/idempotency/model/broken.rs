//! The protocol with one guard taken out, to see that the checker misses it.

use std::time::Duration;

use idempotency::Execution;
use idempotency::protocol::{Decision, Progress, Record, Status, Token, Transition, decide};
use jiff::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Guard {
    /// Later writes are made under the owner and attempt of their claim.
    OwnToken,
    /// A record that ended is not written to any more.
    OpenStatus,
    /// A takeover begins only after the lease has passed.
    Lease,
    /// The lease allows for clocks that differ.
    Skew,
    /// Work that arrives too late is not started.
    StartBefore,
    /// The result is stored before the messages are removed.
    PrepareFirst,
    /// A prepared response is returned; the work is not executed again.
    KeepPrepared,
    /// A takeover keeps the earlier attempt's checkpoint.
    KeepCheckpoint,
    /// After an attempt that ends without a report, all units beyond the checkpoint are in doubt.
    KeepDoubt,
    /// Another body under the same key is a conflict.
    SameBody,
    /// A claim recognizes its own token.
    OwnClaim,
    /// Work may start for as much longer as the worker's clock may be ahead.
    TolerantStart,
    /// A takeover continues at the same place only.
    SamePlace,
    /// Units that were left at another place may be there twice.
    CountMoved,
    /// The record knows of a move before anything is put.
    NoteMove,
    /// A takeover finds the progress that it saw.
    SeenProgress,
    /// Doubt about a place that the record does not name is no doubt about the next attempt's
    /// place.
    DoubtOfNoPlace,
    /// A failed attempt records a place only if units are done or in doubt there.
    PlaceOfWork,
    /// A message is put at its new place before it leaves the old one.
    PutFirst,
    /// Messages that earlier attempts held may be at both places.
    CountHands,
    /// A refused message may be somewhere all the same.
    DoubtRefusals,
    /// The record knows of a refused message before another one is put.
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

/// Applies a transition as [`Transition::apply`], but leaves out one guard.
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

/// Decides as [`decide`], but leaves out one guard.
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
    /// Returns the same decision, with writes that are made at `time`.
    fn at(mut self, time: Timestamp) -> Self {
        if let Self::TakeOver(Transition::TakeOver { now, .. }) = &mut self {
            *now = time;
        }
        self
    }
}
