use jiff::Timestamp;
use uuid::Uuid;

use super::to_microseconds;

/// Part of a version that all items of a batch share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchStamp {
    received_at: Timestamp,
    batch_id: Uuid,
}

impl BatchStamp {
    /// Creates the stamp of a batch; its time is cut to the microseconds that PostgreSQL keeps.
    #[must_use]
    pub fn new(received_at: Timestamp, batch_id: Uuid) -> Self {
        Self { received_at: to_microseconds(received_at).unwrap_or(received_at), batch_id }
    }

    /// Returns the time at which the batch was received.
    #[must_use]
    pub const fn received_at(&self) -> Timestamp {
        self.received_at
    }

    /// Returns the id of the batch that carried the item.
    #[must_use]
    pub const fn batch_id(&self) -> Uuid {
        self.batch_id
    }
}

/// Version of a product that an item carries. Of several items of a product the one with the
/// greatest version is kept, in whatever order they arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    // The order of these members is the order of versions.
    effective_at: Timestamp,
    batch: BatchStamp,
    item_index: u64,
}

impl Version {
    /// Creates the version of a batch's item. The source's date counts up to the time of receipt,
    /// so that a clock that is ahead does not block later updates. Without a date, the time of
    /// receipt counts.
    #[must_use]
    pub fn new(source_updated_at: Option<Timestamp>, batch: BatchStamp, item_index: u64) -> Self {
        let effective_at =
            source_updated_at.map_or(batch.received_at, |updated| updated.min(batch.received_at));
        Self { effective_at, batch, item_index }
    }

    /// Returns the earlier of the source's date and the time of receipt.
    #[must_use]
    pub const fn effective_at(&self) -> Timestamp {
        self.effective_at
    }

    /// Returns the batch that carried the item.
    #[must_use]
    pub const fn batch(&self) -> BatchStamp {
        self.batch
    }

    /// Returns the index of the item in its batch.
    #[must_use]
    pub const fn item_index(&self) -> u64 {
        self.item_index
    }
}
