use jiff::Timestamp;
use uuid::Uuid;

use super::to_microseconds;

/// Time of receipt and id of a batch: the part of a version that all its items share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchStamp {
    received_at: Timestamp,
    batch_id: Uuid,
}

impl BatchStamp {
    /// Creates the stamp of a batch. The time is cut to the microseconds that PostgreSQL keeps.
    #[must_use]
    pub fn new(received_at: Timestamp, batch_id: Uuid) -> Self {
        Self { received_at: to_microseconds(received_at).unwrap_or(received_at), batch_id }
    }

    /// Returns the time at which the batch was received.
    #[must_use]
    pub const fn received_at(&self) -> Timestamp {
        self.received_at
    }

    /// Returns the id of the batch.
    #[must_use]
    pub const fn batch_id(&self) -> Uuid {
        self.batch_id
    }
}

/// Version of a product that an item carries. Of several items of a product, the one with the
/// greatest version is kept, whatever the order in which they arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    // The order of these members is the order of versions.
    effective_at: Timestamp,
    batch: BatchStamp,
    item_index: u64,
}

impl Version {
    /// Creates the version of an item. It takes effect at the source's date or at the batch's
    /// receipt, whichever is earlier, so that a source's clock that is ahead does not block later
    /// updates. Without a date, it takes effect at the receipt.
    #[must_use]
    pub fn new(source_updated_at: Option<Timestamp>, batch: BatchStamp, item_index: u64) -> Self {
        let effective_at =
            source_updated_at.map_or(batch.received_at, |updated| updated.min(batch.received_at));
        Self { effective_at, batch, item_index }
    }

    /// Returns the time at which the version takes effect: the source's date or the batch's
    /// receipt, whichever is earlier.
    #[must_use]
    pub const fn effective_at(&self) -> Timestamp {
        self.effective_at
    }

    /// Returns the stamp of the batch that contained the item.
    #[must_use]
    pub const fn batch(&self) -> BatchStamp {
        self.batch
    }

    /// Returns the index of the item in its batch, from 0.
    #[must_use]
    pub const fn item_index(&self) -> u64 {
        self.item_index
    }
}
