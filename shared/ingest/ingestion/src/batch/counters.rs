use serde::{Deserialize, Serialize};

/// Numbers of the items of a chunk or a batch that the database accepted, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Number of items that inserted a new product row.
    pub inserted: u64,
    /// Number of items that updated a product row, or made a product active again.
    pub updated: u64,
    /// Number of items whose row already had the same content.
    pub unchanged: u64,
    /// Number of items whose product already had a later version. Duplicates within a chunk are
    /// included.
    pub stale: u64,
}

impl Changes {
    /// Returns the number of all accepted items, whatever their outcome.
    #[must_use]
    pub const fn processed(self) -> u64 {
        self.inserted.saturating_add(self.updated).saturating_add(self.unchanged).saturating_add(self.stale)
    }
}

/// Result of writing one chunk or several: the numbers of items by outcome, in which each item
/// counts once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkResult {
    changes: Changes,
    rejected: u64,
}

/// Error for counts that do not add up to all items, because an item was lost or counted twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{accounted} items are accounted for, and there are {items}")]
pub struct Unbalanced {
    /// Number of all items of the chunk or the batch.
    pub items: u64,
    /// Number of items that the counts of outcomes add up to.
    pub accounted: u64,
}

impl ChunkResult {
    /// Creates the result of a chunk of `items` items.
    ///
    /// # Errors
    /// If accepted and rejected items do not add up to `items`. The transaction must then not be
    /// committed.
    pub const fn new(items: u64, changes: Changes, rejected: u64) -> Result<Self, Unbalanced> {
        let accounted = changes.processed().saturating_add(rejected);
        if accounted == items { Ok(Self { changes, rejected }) } else { Err(Unbalanced { items, accounted }) }
    }

    /// Returns the numbers of the accepted items by outcome.
    #[must_use]
    pub const fn changes(self) -> Changes {
        self.changes
    }

    /// Returns the number of items that were refused when the chunk was written.
    #[must_use]
    pub const fn rejected(self) -> u64 {
        self.rejected
    }
}

/// Counters of a batch's items. They are always derived from its chunks, never incremented, so they
/// cannot drift.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of all items of the payload, items in error included.
    pub parsed: u64,
    /// Number of items that were in error, were refused when their chunk was written, or belong to
    /// a failed chunk.
    pub failed: u64,
    /// Numbers of the accepted items by outcome.
    pub changes: Changes,
}

impl Counters {
    /// Derives the counters of a batch whose payload is cut, from its number of items, the number
    /// in error, the result of its written chunks, and the number of items in chunks that were
    /// given up.
    #[must_use]
    pub fn derive(parsed: u64, in_error: u64, done: Option<ChunkResult>, given_up: u64) -> Self {
        let (changes, rejected) = done.map_or_else(Default::default, |done| (done.changes, done.rejected));
        Self { parsed, failed: in_error.saturating_add(rejected).saturating_add(given_up), changes }
    }

    /// Checks that every item is accounted for, which must be so once no chunk is pending.
    ///
    /// # Errors
    /// If the counters do not add up to the number of items.
    pub const fn balanced(self) -> Result<(), Unbalanced> {
        let accounted = self.changes.processed().saturating_add(self.failed);
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
            (items, done) in result(), given_up in 0_u64..500, in_error in 0_u64..100,
        ) {
            let parsed = in_error + items + given_up;
            prop_assert_eq!(Counters::derive(parsed, in_error, Some(done), given_up).balanced(), Ok(()));
            let pending = Counters::derive(parsed, in_error, None, given_up);
            prop_assert_eq!(pending.balanced().is_ok(), items == 0);
        }

        #[test]
        fn a_chunk_that_loses_an_item_is_refused((items, result) in result(), by in 1_u64..5) {
            let unbalanced = ChunkResult::new(items + by, result.changes(), result.rejected());
            prop_assert_eq!(unbalanced, Err(Unbalanced { items: items + by, accounted: items }));
        }
    }
}
