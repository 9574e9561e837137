use bytes::BytesMut;

use super::{ChunkId, Generation, Plan};
use crate::Cnpj;
use crate::product::bytes::Writer;
use crate::product::{
    BatchStamp, EncodedAttributes, KeyHash, Product, ProductKey, RowHash, RowHasher, Version,
};

/// Bytes of encoded attributes after which planner 1 cuts, so that items near their limit cannot
/// make a chunk that is too large to handle.
const CHUNK_BYTES: usize = 8 * 1024 * 1024;

/// Bytes of memory that several rows share; a larger row has its own.
const ALLOCATED_AT_ONCE: usize = 64 * 1024;

/// Memory in which rows are made, kept from one to the next.
#[derive(Debug)]
struct Memory {
    attributes: Writer,
    hasher: RowHasher,
}

/// Product of a chunk, with the values that decide whether its row is written at all. Its
/// attributes are decoded only if it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Primary key of the row.
    pub key: ProductKey,
    /// Hash of the key, which identifies it in the history of loads.
    pub key_hash: KeyHash,
    /// Hash of the content, by which a change is recognized.
    pub row_hash: RowHash,
    /// Version, which decides which of two items wins.
    pub version: Version,
    /// Attributes of the product: the other columns, encoded.
    pub attributes: EncodedAttributes,
}

impl Row {
    fn new(product: Product<'_>, batch: BatchStamp, item_index: u64, memory: &mut Memory) -> Self {
        Self {
            key_hash: KeyHash::of(&product.key),
            row_hash: memory.hasher.hash(&product.attributes),
            version: Version::new(product.attributes.source_updated_at, batch, item_index),
            attributes: product.attributes.encode_in(&mut memory.attributes),
            key: product.key,
        }
    }
}

/// Rows that one transaction writes, in the order of their keys, each key once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub(super) batch: BatchStamp,
    pub(super) generation: Generation,
    pub(super) index: u32,
    pub(super) items: u32,
    pub(super) rows: Vec<Row>,
}

impl Chunk {
    /// Returns the chunk's id.
    #[must_use]
    pub fn id(&self) -> ChunkId {
        ChunkId::of(self.batch.batch_id(), self.generation, self.index)
    }

    /// Returns the batch of the chunk.
    #[must_use]
    pub const fn batch(&self) -> BatchStamp {
        self.batch
    }

    /// Returns the generation in which the chunk is written.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// Returns the chunk's index in the batch.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Returns the number of valid items that the chunk was made of.
    #[must_use]
    pub const fn items(&self) -> u32 {
        self.items
    }

    /// Counts the items that were superseded by a later version in the chunk; they count as stale.
    #[must_use]
    pub fn duplicates(&self) -> u32 {
        self.items.saturating_sub(u32::try_from(self.rows.len()).unwrap_or(u32::MAX))
    }

    /// Returns the rows, ordered by key.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Moves the chunk to a later generation, which writes it again.
    #[must_use]
    pub fn of_generation(self, generation: Generation) -> Self {
        Self { generation, ..self }
    }

    /// Moves the chunk to another place of its batch, so that tests can have many small ones.
    #[cfg(any(test, feature = "generate"))]
    #[must_use]
    pub fn numbered(self, index: u32) -> Self {
        Self { index, ..self }
    }

    /// Returns the chunk's establishments in their order, each once. The transaction locks them.
    #[must_use]
    pub fn cnpjs(&self) -> Vec<Cnpj> {
        let mut cnpjs: Vec<Cnpj> = self.rows.iter().map(|row| row.key.cnpj).collect();
        cnpjs.dedup();
        cnpjs
    }
}

/// Gathers a batch's products, in the order of its items, into chunks.
#[derive(Debug)]
pub struct Planner {
    plan: Plan,
    batch: BatchStamp,
    generation: Generation,
    index: u32,
    rows: Vec<Row>,
    bytes: usize,
    memory: Memory,
}

impl Planner {
    /// Creates a planner for one run over a batch's payload.
    #[must_use]
    pub fn new(plan: Plan, batch: BatchStamp, generation: Generation) -> Self {
        let attributes = Writer(BytesMut::with_capacity(ALLOCATED_AT_ONCE));
        let memory = Memory { attributes, hasher: RowHasher::default() };
        Self { plan, batch, generation, index: 0, rows: Vec::new(), bytes: 0, memory }
    }

    /// Takes the next product, and returns the chunk that it completes.
    pub fn push(&mut self, product: Product<'_>, item_index: u64) -> Option<Chunk> {
        let row = Row::new(product, self.batch, item_index, &mut self.memory);
        self.bytes = self.bytes.saturating_add(row.attributes.size());
        self.rows.push(row);
        let full = self.rows.len() >= usize::from(u16::from(self.plan.items)) || self.bytes >= CHUNK_BYTES;
        full.then(|| self.cut())
    }

    /// Ends the payload, and returns the last chunk unless it would be empty.
    #[must_use]
    pub fn finish(mut self) -> Option<Chunk> {
        (!self.rows.is_empty()).then(|| self.cut())
    }

    fn cut(&mut self) -> Chunk {
        let mut rows = std::mem::take(&mut self.rows);
        let items = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        rows.sort_unstable_by(|left, right| {
            left.key.cmp(&right.key).then_with(|| right.version.cmp(&left.version))
        });
        // Of each key only the first row stays, which is its latest version.
        rows.dedup_by(|later, first| later.key == first.key);
        let chunk = Chunk { batch: self.batch, generation: self.generation, index: self.index, items, rows };
        self.index = self.index.saturating_add(1);
        self.bytes = 0;
        chunk
    }
}
