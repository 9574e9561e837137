use crate::words::words;

words! {
    /// State of a batch, in the order in which a batch passes through the states.
    BatchStatus {
        /// An upload URL was issued, and the payload was not uploaded yet.
        AwaitingUpload = "AWAITING_UPLOAD",
        /// The payload is stored, and the chunker has not begun to read it.
        Received = "RECEIVED",
        /// The chunker reads the payload, or died while it read it.
        Chunking = "CHUNKING",
        /// The batch's chunks are stored, and some are not written yet.
        Processing = "PROCESSING",
        /// Every chunk is written. The batch may still have items in error, which its report lists.
        Completed = "COMPLETED",
        /// Some chunks of the batch failed, and the others are written.
        PartialFail = "PARTIAL_FAIL",
        /// The payload could not be processed, or every chunk of the batch failed.
        Failed = "FAILED",
        /// The upload URL expired before the payload was uploaded.
        Expired = "EXPIRED",
    }
}

/// Event that changes the state of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchEvent {
    /// The payload of the batch was stored.
    PayloadArrived,
    /// The chunker began to cut the payload, for the first time or again.
    ChunkingBegan,
    /// The payload cannot be read at all, or not to its end.
    PayloadFailed,
    /// All chunks are stored, or the state of one has changed. The value has the numbers of chunks
    /// by state.
    ChunksCounted(ChunkCounts),
    /// A replay began a new generation (round of processing) with these numbers of chunks by state:
    /// no chunks if the payload has to be cut again, and no pending ones if only a deactivation has
    /// to be carried out.
    Replayed(ChunkCounts),
}

/// Numbers of a batch's chunks by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "one number for each `ChunkStatus`")]
pub struct ChunkCounts {
    pub pending: u64,
    pub done: u64,
    pub failed: u64,
}

/// Error for an event that cannot happen in the batch's state. The caller's view of the batch is
/// wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{event:?} cannot happen to a batch that is {status}")]
pub struct IllegalTransition {
    /// State of the batch when the event came.
    pub status: BatchStatus,
    /// Event that cannot happen in that state.
    pub event: BatchEvent,
}

impl BatchStatus {
    /// Returns the batch's state after an event. A repeated event leaves the state unchanged.
    ///
    /// # Errors
    /// If the event cannot happen in this state.
    pub const fn after(self, event: BatchEvent) -> Result<Self, IllegalTransition> {
        use BatchEvent as On;
        Ok(match (self, event) {
            // The payload was uploaded in time and only the notification came late. A payload that
            // storage took is not lost.
            (Self::AwaitingUpload | Self::Expired, On::PayloadArrived) => Self::Received,
            // Storage notifies of an object at least once, also long after.
            (status, On::PayloadArrived) => status,
            (Self::Received | Self::Chunking, On::ChunkingBegan) => Self::Chunking,
            (Self::Received | Self::Chunking, On::PayloadFailed) => Self::Failed,
            (Self::Chunking | Self::Processing, On::ChunksCounted(chunks)) => chunks.batch(),
            // A chunk that was given up may still succeed, so these states can change; but only a
            // replay makes chunks pending again.
            (Self::PartialFail | Self::Failed, On::ChunksCounted(chunks))
                if chunks.pending == 0 && chunks.total() > 0 =>
            {
                chunks.batch()
            }
            (Self::Completed, On::ChunksCounted(chunks)) if chunks.pending == 0 && chunks.failed == 0 => {
                Self::Completed
            }
            (Self::Completed | Self::PartialFail | Self::Failed, On::Replayed(chunks)) => {
                if chunks.total() == 0 { Self::Chunking } else { Self::Processing }
            }
            (status, event) => return Err(IllegalTransition { status, event }),
        })
    }

    /// True for a final state: only a replay reads the batch's payload and chunks again, so they
    /// may expire.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::PartialFail | Self::Failed | Self::Expired)
    }
}

impl ChunkCounts {
    /// Returns the number of all chunks.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.pending.saturating_add(self.done).saturating_add(self.failed)
    }

    /// Returns the batch's state that follows from its chunks. A batch without chunks, as for an
    /// empty array, is complete.
    const fn batch(self) -> BatchStatus {
        match self {
            Self { pending: 1.., .. } => BatchStatus::Processing,
            Self { failed: 0, .. } => BatchStatus::Completed,
            Self { done: 0, .. } => BatchStatus::Failed,
            _ => BatchStatus::PartialFail,
        }
    }
}

words! {
    /// State of a chunk in the present generation (round of processing) of its batch.
    ChunkStatus {
        /// The chunk is stored and waits to be written to the database.
        Pending = "PENDING",
        /// The transaction that writes the chunk is committed.
        Done = "DONE",
        /// The chunk was given up: it could not be written, or its batch became too old.
        Failed = "FAILED",
    }
}

impl ChunkStatus {
    /// Returns the chunk's state after it is given up because its message was received too often. A
    /// written chunk stays done. A failed chunk may still be written later, if an attempt was only
    /// slow.
    #[must_use]
    pub const fn given_up(self) -> Self {
        match self {
            Self::Pending | Self::Failed => Self::Failed,
            Self::Done => Self::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn chunks(pending: u64, done: u64, failed: u64) -> ChunkCounts {
        ChunkCounts { pending, done, failed }
    }

    #[test]
    fn a_batch_goes_its_way() {
        use BatchEvent as On;
        use BatchStatus::*;
        let way = [
            (On::PayloadArrived, Received),
            (On::PayloadArrived, Received),
            (On::ChunkingBegan, Chunking),
            (On::ChunkingBegan, Chunking),
            (On::ChunksCounted(chunks(3, 0, 0)), Processing),
            (On::PayloadArrived, Processing),
            (On::ChunksCounted(chunks(1, 1, 1)), Processing),
            (On::ChunksCounted(chunks(0, 2, 1)), PartialFail),
            (On::ChunksCounted(chunks(0, 3, 0)), Completed),
            (On::Replayed(chunks(3, 0, 0)), Processing),
            (On::ChunksCounted(chunks(0, 0, 3)), Failed),
            (On::ChunksCounted(chunks(0, 1, 2)), PartialFail),
            (On::Replayed(chunks(2, 1, 0)), Processing),
            (On::ChunksCounted(chunks(0, 3, 0)), Completed),
            (On::Replayed(chunks(0, 3, 0)), Processing),
        ];
        let mut status = AwaitingUpload;
        for (event, expected) in way {
            status = status.after(event).unwrap();
            assert_eq!(status, expected, "{event:?}");
        }
    }

    #[test]
    fn each_state_takes_only_what_can_happen_to_it() {
        use BatchEvent as On;
        use BatchStatus::*;
        for (event, allowed) in [
            (On::PayloadArrived, &BatchStatus::ALL[..]),
            (On::ChunkingBegan, &[Received, Chunking]),
            (On::PayloadFailed, &[Received, Chunking]),
            (On::ChunksCounted(chunks(1, 0, 0)), &[Chunking, Processing]),
            (On::ChunksCounted(chunks(0, 0, 0)), &[Chunking, Processing, Completed]),
            (On::ChunksCounted(chunks(0, 1, 0)), &[Chunking, Processing, Completed, PartialFail, Failed]),
            (On::ChunksCounted(chunks(0, 1, 1)), &[Chunking, Processing, PartialFail, Failed]),
            (On::Replayed(chunks(1, 0, 0)), &[Completed, PartialFail, Failed]),
        ] {
            for status in BatchStatus::ALL {
                assert_eq!(status.after(event).is_ok(), allowed.contains(&status), "{event:?} in {status}");
            }
        }
    }

    #[test]
    fn a_payload_that_failed_is_cut_again_by_a_replay() {
        let failed = BatchStatus::Chunking.after(BatchEvent::PayloadFailed).unwrap();
        assert_eq!(failed.after(BatchEvent::Replayed(chunks(0, 0, 0))), Ok(BatchStatus::Chunking));
    }

    #[test]
    fn the_names_are_the_contract_s() {
        for status in BatchStatus::ALL {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
        for status in [ChunkStatus::Pending, ChunkStatus::Done, ChunkStatus::Failed] {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
    }
}
