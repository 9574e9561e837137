use std::fmt;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// Plan by which a batch's payload is cut into chunks. It is fixed for the batch before the chunker
/// first cuts the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Version of the rules that decide where a chunk ends.
    pub planner: PlannerVersion,
    /// Maximum number of products in a chunk.
    pub items: ChunkItems,
}

/// Error for a chunking plan with a planner version that this program does not know, or with a
/// number out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum InvalidPlan {
    #[error("planner {0} is not known to this version")]
    Planner(u16),
    #[error("a chunk has 500 to 2000 items, not {0}")]
    Items(u16),
}

/// Version of the way in which payloads are cut into chunks. Any change of which items a payload
/// has, of where a chunk ends, or of a chunk's bytes needs a new version. A batch that an older
/// version began to cut starts again in a new generation. So its chunks have other names, and a
/// chunker of the older version that is still at work has no effect.
///
/// A chunk ends with the number of products in the plan, or with the product that brings its
/// encoded attributes to 8 MiB. Since version 2, the items within a text that is not JSON are
/// separated, and dates that stand for "no date" are refused. Since version 3, products that do not
/// arrive in key order are sorted across chunks. Since version 4, a date without a time but with a
/// time zone is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct PlannerVersion(u16);

/// Maximum number of products in a chunk: 500 to 2000, by default 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct ChunkItems(u16);

impl PlannerVersion {
    const CURRENT: Self = Self(4);

    /// True if this build of the program cuts with this planner version.
    #[must_use]
    pub const fn is_current(self) -> bool {
        self.0 == Self::CURRENT.0
    }
}

impl Default for PlannerVersion {
    fn default() -> Self {
        Self::CURRENT
    }
}

impl TryFrom<u16> for PlannerVersion {
    type Error = InvalidPlan;

    fn try_from(version: u16) -> Result<Self, InvalidPlan> {
        let is_known = (1..=Self::CURRENT.0).contains(&version);
        if is_known { Ok(Self(version)) } else { Err(InvalidPlan::Planner(version)) }
    }
}

impl From<PlannerVersion> for u16 {
    fn from(version: PlannerVersion) -> Self {
        version.0
    }
}

impl Default for ChunkItems {
    fn default() -> Self {
        Self(1000)
    }
}

impl TryFrom<u16> for ChunkItems {
    type Error = InvalidPlan;

    fn try_from(items: u16) -> Result<Self, InvalidPlan> {
        if (500..=2000).contains(&items) { Ok(Self(items)) } else { Err(InvalidPlan::Items(items)) }
    }
}

impl From<ChunkItems> for u16 {
    fn from(items: ChunkItems) -> Self {
        items.0
    }
}

/// Generation of a batch: 1 when it is first processed, and one more each time it starts again, as
/// with a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(NonZeroU32);

impl Generation {
    /// Generation in which a batch is first processed.
    pub const FIRST: Self = Self(NonZeroU32::MIN);

    /// Returns the generation after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Returns the number of the generation, counted from 1.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0.get()
    }
}

impl TryFrom<u32> for Generation {
    type Error = std::num::TryFromIntError;

    fn try_from(number: u32) -> Result<Self, Self::Error> {
        NonZeroU32::try_from(number).map(Self)
    }
}

/// Id of a chunk in one generation of its batch, by which repeated work on the chunk is recognized.
///
/// A UUID of version 8 (RFC 9562): its 122 free bits are those of the first 16 bytes of the SHA-256
/// of `integrahub.chunk`, the batch's id, the generation and the index. Generation and index are
/// four bytes each, big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChunkId(Uuid);

impl ChunkId {
    /// Returns the id of the chunk with this index, in this generation of a batch.
    #[must_use]
    pub fn of(batch_id: Uuid, generation: Generation, index: u32) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"integrahub.chunk");
        hash.update(batch_id.as_bytes());
        hash.update(generation.number().to_be_bytes());
        hash.update(index.to_be_bytes());
        let hash: [u8; 32] = hash.finalize().into();
        let bytes = hash.first_chunk().copied().unwrap_or_default();
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }

    /// Returns the chunk's id as a UUID.
    #[must_use]
    pub const fn uuid(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for ChunkId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
