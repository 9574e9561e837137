use serde::{Deserialize, Serialize};

use super::ChunkStatus;

/// Outcomes of the items that the database took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Items that made a new row.
    pub inserted: u64,
    /// Items that changed a row.
    pub updated: u64,
    /// Items whose row already had the same content.
    pub unchanged: u64,
    /// Items whose product has a later version, duplicates within a chunk included.
    pub stale: u64,
}

impl Changes {
    /// Number of the items processed.
    #[must_use]
    pub const fn processed(self) -> u64 {
        self.inserted.saturating_add(self.updated).saturating_add(self.unchanged).saturating_add(self.stale)
    }

    const fn plus(self, other: Self) -> Self {
        Self {
            inserted: self.inserted.saturating_add(other.inserted),
            updated: self.updated.saturating_add(other.updated),
            unchanged: self.unchanged.saturating_add(other.unchanged),
            stale: self.stale.saturating_add(other.stale),
        }
    }
}

/// Result of writing a chunk: each of its items counts once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkResult {
    changes: Changes,
    rejected: u64,
}

/// Error of parts that do not add up: an item was lost or counted twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{accounted} items are accounted for, and there are {items}")]
pub struct Unbalanced {
    /// Number of items.
    pub items: u64,
    /// Number of items that were counted.
    pub accounted: u64,
}

impl ChunkResult {
    /// Makes the result of a chunk of `items` items.
    ///
    /// # Errors
    /// If processed and rejected items are not all of its items. Such a transaction must not
    /// commit.
    pub const fn new(items: u64, changes: Changes, rejected: u64) -> Result<Self, Unbalanced> {
        let accounted = changes.processed().saturating_add(rejected);
        if accounted == items { Ok(Self { changes, rejected }) } else { Err(Unbalanced { items, accounted }) }
    }

    /// Returns the outcomes of the items that the database took.
    #[must_use]
    pub const fn changes(self) -> Changes {
        self.changes
    }

    /// Number of items that were refused when the chunk was written.
    #[must_use]
    pub const fn rejected(self) -> u64 {
        self.rejected
    }
}

/// State of a chunk for the batch's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkTally {
    /// A chunk that is not written yet.
    Pending,
    /// A chunk that is written.
    Done(ChunkResult),
    /// A chunk that was given up, with the number of its items.
    Failed(u64),
}

impl ChunkTally {
    /// Returns the state of the chunk.
    #[must_use]
    pub const fn status(self) -> ChunkStatus {
        match self {
            Self::Pending => ChunkStatus::Pending,
            Self::Done(_) => ChunkStatus::Done,
            Self::Failed(_) => ChunkStatus::Failed,
        }
    }
}

/// Counters of a batch. They are derived from its chunks and never counted up, so they cannot
/// drift.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of all items of the payload, those in error included.
    pub parsed: u64,
    /// Number of items in error, refused when their chunk was written, or in a chunk that failed.
    pub failed: u64,
    /// Outcomes of the items that the database took.
    pub changes: Changes,
}

impl Counters {
    /// Derives the counters of a sealed batch: the items of its payload, those in error among them,
    /// and its chunks.
    #[must_use]
    pub fn derive(parsed: u64, in_error: u64, chunks: impl IntoIterator<Item = ChunkTally>) -> Self {
        let start = Self { parsed, failed: in_error, changes: Changes::default() };
        chunks.into_iter().fold(start, |counters, chunk| match chunk {
            ChunkTally::Pending => counters,
            ChunkTally::Done(result) => Self {
                failed: counters.failed.saturating_add(result.rejected),
                changes: counters.changes.plus(result.changes),
                ..counters
            },
            ChunkTally::Failed(items) => Self { failed: counters.failed.saturating_add(items), ..counters },
        })
    }

    /// Number of items processed so far.
    #[must_use]
    pub const fn processed(self) -> u64 {
        self.changes.processed()
    }

    /// Checks that every item is accounted for, as it must be once no chunk is pending.
    ///
    /// # Errors
    /// If an item is missing or counted twice.
    pub const fn balanced(self) -> Result<(), Unbalanced> {
        let accounted = self.processed().saturating_add(self.failed);
        if accounted == self.parsed { Ok(()) } else { Err(Unbalanced { items: self.parsed, accounted }) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn result() -> impl Strategy<Value = (u64, ChunkResult)> {
        [0_u64..500, 0..500, 0..500, 0..500, 0..9].prop_map(
            |[inserted, updated, unchanged, stale, rejected]| {
                let changes = Changes { inserted, updated, unchanged, stale };
                let items = inserted + updated + unchanged + stale + rejected;
                (items, ChunkResult::new(items, changes, rejected).unwrap())
            },
        )
    }

    proptest! {
        #[test]
        fn a_final_batch_accounts_for_every_item(
            chunks in prop::collection::vec((result(), any::<bool>()), 0..20),
            in_error in 0_u64..100,
        ) {
            let parsed = in_error + chunks.iter().map(|((items, _), _)| items).sum::<u64>();
            let tallies: Vec<_> = chunks
                .iter()
                .map(|((items, result), done)| if *done { ChunkTally::Done(*result) } else { ChunkTally::Failed(*items) })
                .collect();
            let counters = Counters::derive(parsed, in_error, tallies.clone());
            prop_assert_eq!(counters.balanced(), Ok(()));
            // While one is pending, only its items are missing.
            if let Some(((items, _), _)) = chunks.first() {
                let rest = tallies.iter().skip(1).copied().chain([ChunkTally::Pending]);
                let counters = Counters::derive(parsed, in_error, rest);
                prop_assert_eq!(counters.processed() + counters.failed, parsed - items);
                prop_assert_eq!(counters.balanced().is_ok(), *items == 0);
            }
        }

        #[test]
        fn a_chunk_that_loses_an_item_is_refused((items, result) in result(), by in 1_u64..5) {
            let unbalanced = ChunkResult::new(items + by, result.changes(), result.rejected());
            prop_assert_eq!(unbalanced, Err(Unbalanced { items: items + by, accounted: items }));
        }
    }
}
