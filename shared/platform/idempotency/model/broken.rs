//! Idempotency protocol without one of its rules (guards). A test checks each of these incomplete
//! protocols, to prove that the model checker finds the error.

use std::time::Duration;

use idempotency::Execution;
use idempotency::protocol::{Decision, Progress, Record, Status, Token, Transition, decide};
use jiff::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
/// Rule of the idempotency protocol. A test leaves out one rule at a time, and expects the model
/// checker to find a state that breaks an invariant.
pub(crate) enum Guard {
    /// A write of an attempt succeeds only while the record has the owner and the attempt number of
    /// the attempt's claim.
    OwnToken,
    /// A record whose execution has ended accepts no further write of that execution.
    OpenStatus,
    /// A takeover is refused until the lease of the earlier attempt, its time to work alone, has
    /// ended.
    Lease,
    /// The lease of an attempt includes 5 s for a takeover whose clock is ahead of the worker's.
    Skew,
    /// A worker refuses to start work that it receives more than 8 s after the claim, by its own
    /// clock.
    StartBefore,
    /// A consume stores its response before it removes the messages from the queue.
    PrepareFirst,
    /// A retry returns the response that an earlier attempt has stored (prepared), and does not
    /// execute the work again.
    KeepPrepared,
    /// A takeover keeps the progress that the earlier attempt recorded at its last checkpoint.
    KeepCheckpoint,
    /// If an attempt ended without a report, a takeover counts all messages beyond the last
    /// checkpoint as in doubt (may have been put).
    KeepDoubt,
    /// A request is refused as a conflict if its idempotency key was used with another body.
    SameBody,
    /// A claim is granted if the record that refuses it has the claim's own owner token. The claim
    /// wrote this record itself, and only the store's response was lost.
    OwnClaim,
    /// The maximum time between a claim and the start of its work includes 5 s, because the
    /// worker's clock may be ahead of the claim's.
    TolerantStart,
    /// An attempt resumes the progress of an earlier attempt only if both work at the same place
    /// (such as a queue).
    SamePlace,
    /// Messages that an earlier attempt put at another place (such as a queue) count as possible
    /// duplicates.
    CountMoved,
    /// An attempt that works at another place (such as a queue) than the attempt before it records
    /// the new place before it puts a message there.
    NoteMove,
    /// A takeover is refused if the record's progress has changed since the takeover read it.
    SeenProgress,
    /// Messages that an earlier attempt may have put at an unrecorded place (such as a queue) count
    /// as possible duplicates, and not as in doubt at the place of the next attempt.
    DoubtOfNoPlace,
    /// A failed attempt keeps its place (such as a queue) in the record only if messages were put
    /// there, or may have been.
    PlaceOfWork,
    /// A move puts a message on the destination queue before it removes it from the source queue.
    PutFirst,
    /// If an attempt to move messages ends without a report, the message that it was moving counts
    /// as a possible duplicate.
    CountHands,
    /// A message whose put was refused counts as in doubt (perhaps delivered): a copy may be in
    /// another queue.
    DoubtRefusals,
    /// If a queue refuses a message of a move, the attempt records this message before it puts the
    /// next one.
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

/// Returns the record after a write, as [`Transition::apply`] does, but without the rule `broken`.
/// If `broken` is `None`, all rules apply. Returns `None` if the write's condition fails.
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
    if let (Guard::PlaceOfWork, Transition::Fail { place_history, .. }) = (guard, transition) {
        after.place_history = place_history;
    }
    Some(after)
}

/// Decides about a claim that found the record `found`, as [`decide`] does, but without the rule
/// `broken`. If `broken` is `None`, all rules apply.
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
    /// Returns the same decision. If it is a takeover, the time of its write is `time`.
    fn at(mut self, time: Timestamp) -> Self {
        if let Self::TakeOver(Transition::TakeOver { now, .. }) = &mut self {
            *now = time;
        }
        self
    }
}
