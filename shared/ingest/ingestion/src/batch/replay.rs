use serde::{Deserialize, Serialize};

use super::{BatchStatus, ChunkCounts, Deactivation};
use crate::words::words;

/// Replay that a client requests: processing a batch again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// Part of the batch to process again.
    pub scope: ReplayScope,
    /// True if the replay may deactivate products even if they are so many that the guard against
    /// mass deactivation would hold the load.
    #[serde(default)]
    pub confirm_deactivation: bool,
}

words! {
    /// Part of a batch that a client asks to process again.
    ReplayScope {
        /// The replay processes only the failed chunks again, or the failed payload.
        Failed = "failed",
        /// The replay processes every chunk again.
        All = "all",
    }
}

/// Work that a replay of a batch has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayWork {
    /// The payload is cut again, because it was never read to its end.
    Cut,
    /// The failed chunks or all chunks, by the scope, are written again.
    Chunks(ReplayScope),
    /// No chunk is written again, and only the deactivation that was held is carried out.
    Deactivation,
}

/// State of a batch that decides whether and how it can be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayedBatch {
    /// Present status of the batch.
    pub status: BatchStatus,
    /// True if the payload was read to the end, so that the chunks are known.
    pub is_sealed: bool,
    /// Numbers of the batch's chunks by state, in its latest generation (round of processing).
    pub chunks: ChunkCounts,
    /// State of the batch's deactivation in its latest generation (round of processing).
    pub deactivation: Deactivation,
    /// True if the batch was received before the start of the history of loads (the period for
    /// which batches are retained), so that its items cannot be compared with later loads any more.
    pub is_too_old: bool,
}

/// Reason why a batch cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum ReplayRefusal {
    #[error("the batch is still under way: it is {0}; wait until its status is final")]
    UnderWay(BatchStatus),
    #[error("nothing was uploaded yet")]
    NotUploaded,
    #[error("nothing was ever uploaded")]
    Expired,
    #[error("no chunk of the batch failed; items in error are mended by sending them again in a new batch")]
    NothingFailed,
    /// No chunk failed, and the batch's deactivation is held, which only a confirmation can change.
    #[error(
        "no chunk of the batch failed; its deactivation is held, and confirm_deactivation carries it out"
    )]
    OnlyHeld,
    #[error("the batch has no chunk")]
    NoChunks,
    #[error("the batch is older than the history of loads that is kept; send its products in a new batch")]
    TooOld,
    /// The batch's S3 objects have expired, which are kept for a limited time after its end.
    #[error("the batch's payload, or one of its chunks, is not kept any more")]
    ObjectsGone,
}

impl Replay {
    /// Returns the work that this replay has to do for a batch.
    ///
    /// # Errors
    /// If the batch is not final, is too old, or has nothing that the replay could do.
    pub const fn work(self, batch: &ReplayedBatch) -> Result<ReplayWork, ReplayRefusal> {
        match batch.status {
            BatchStatus::Completed | BatchStatus::PartialFail | BatchStatus::Failed => {}
            BatchStatus::AwaitingUpload => return Err(ReplayRefusal::NotUploaded),
            BatchStatus::Expired => return Err(ReplayRefusal::Expired),
            status @ (BatchStatus::Received | BatchStatus::Chunking | BatchStatus::Processing) => {
                return Err(ReplayRefusal::UnderWay(status));
            }
        }
        if batch.is_too_old {
            return Err(ReplayRefusal::TooOld);
        }
        if !batch.is_sealed {
            return Ok(ReplayWork::Cut);
        }
        if batch.chunks.total() == 0 {
            return Err(ReplayRefusal::NoChunks);
        }
        let is_held = matches!(batch.deactivation, Deactivation::Held { .. });
        match self.scope {
            ReplayScope::All => Ok(ReplayWork::Chunks(ReplayScope::All)),
            ReplayScope::Failed if batch.chunks.failed > 0 => Ok(ReplayWork::Chunks(ReplayScope::Failed)),
            ReplayScope::Failed if is_held && self.confirm_deactivation => Ok(ReplayWork::Deactivation),
            ReplayScope::Failed if is_held => Err(ReplayRefusal::OnlyHeld),
            ReplayScope::Failed => Err(ReplayRefusal::NothingFailed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn replay(scope: ReplayScope, confirm_deactivation: bool) -> Replay {
        Replay { scope, confirm_deactivation }
    }

    const fn batch(status: BatchStatus, done: u64, failed: u64, deactivation: Deactivation) -> ReplayedBatch {
        let chunks = ChunkCounts { pending: 0, done, failed };
        ReplayedBatch { status, is_sealed: true, chunks, deactivation, is_too_old: false }
    }

    #[test]
    fn what_is_not_at_its_end_is_not_replayed() {
        use BatchStatus::*;
        for status in BatchStatus::ALL {
            let batch = batch(status, 1, 1, Deactivation::NotApplicable);
            let expected = match status {
                AwaitingUpload => Some(ReplayRefusal::NotUploaded),
                Expired => Some(ReplayRefusal::Expired),
                Received | Chunking | Processing => Some(ReplayRefusal::UnderWay(status)),
                Completed | PartialFail | Failed => None,
            };
            assert_eq!(replay(ReplayScope::All, true).work(&batch).err(), expected, "{status}");
            assert_eq!(replay(ReplayScope::Failed, false).work(&batch).err(), expected, "{status}");
        }
    }

    #[test]
    fn each_scope_has_its_work_or_says_why_not() {
        use ReplayRefusal::*;
        use ReplayScope::{All, Failed};
        let held = Deactivation::Held { would_deactivate: 9, deactivated: 0 };
        let done = Deactivation::Done { deactivated: 1, left_out: None };
        for (batch, asked, expected) in [
            (batch(BatchStatus::Completed, 3, 0, done), replay(All, false), Ok(ReplayWork::Chunks(All))),
            (batch(BatchStatus::Completed, 3, 0, done), replay(Failed, true), Err(NothingFailed)),
            (
                batch(BatchStatus::PartialFail, 3, 1, done),
                replay(Failed, false),
                Ok(ReplayWork::Chunks(Failed)),
            ),
            (batch(BatchStatus::Failed, 0, 1, held), replay(Failed, true), Ok(ReplayWork::Chunks(Failed))),
            (batch(BatchStatus::Completed, 3, 0, held), replay(Failed, true), Ok(ReplayWork::Deactivation)),
            (batch(BatchStatus::Completed, 3, 0, held), replay(Failed, false), Err(OnlyHeld)),
            (batch(BatchStatus::Completed, 3, 0, held), replay(All, true), Ok(ReplayWork::Chunks(All))),
            (batch(BatchStatus::Completed, 0, 0, done), replay(All, false), Err(NoChunks)),
        ] {
            assert_eq!(asked.work(&batch), expected, "{asked:?} of {batch:?}");
        }
    }

    #[test]
    fn a_payload_that_failed_is_cut_again_whatever_the_scope() {
        for scope in [ReplayScope::Failed, ReplayScope::All] {
            let failed =
                ReplayedBatch { is_sealed: false, ..batch(BatchStatus::Failed, 0, 0, Deactivation::Pending) };
            assert_eq!(replay(scope, false).work(&failed), Ok(ReplayWork::Cut));
        }
    }

    #[test]
    fn what_is_older_than_the_history_is_not_replayed() {
        let held = Deactivation::Held { would_deactivate: 9, deactivated: 0 };
        for (is_sealed, scope) in
            [(true, ReplayScope::All), (true, ReplayScope::Failed), (false, ReplayScope::Failed)]
        {
            let batch =
                ReplayedBatch { is_sealed, is_too_old: true, ..batch(BatchStatus::PartialFail, 1, 1, held) };
            assert_eq!(replay(scope, true).work(&batch), Err(ReplayRefusal::TooOld));
        }
    }

    #[test]
    fn a_wish_is_read_strictly() {
        let read = |text: &str| serde_json::from_str::<Replay>(text).ok();
        assert_eq!(read(r#"{"scope":"failed"}"#), Some(replay(ReplayScope::Failed, false)));
        assert_eq!(
            read(r#"{"scope":"all","confirm_deactivation":true}"#),
            Some(replay(ReplayScope::All, true))
        );
        for wrong in [r#"{}"#, r#"{"scope":"some"}"#, r#"{"scope":"all","force":true}"#] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        for scope in [ReplayScope::Failed, ReplayScope::All] {
            assert_eq!(serde_json::to_value(scope).unwrap(), scope.as_str());
        }
    }
}
