use bytes::BytesMut;

use super::{ChunkId, Generation, Plan};
use crate::Cnpj;
use crate::product::bytes::Writer;
use crate::product::{
    BatchStamp, EncodedAttributes, KeyHash, Product, ProductKey, RowHash, RowHasher, Version,
};

/// Bytes of encoded attributes at which a chunk ends, whatever its number of products, so that
/// large items do not make a chunk too large to handle.
const CHUNK_BYTES: usize = 8 * 1024 * 1024;

/// Bytes of rows that are gathered and sorted together if products do not arrive in key order: some
/// 55,000 products of usual size.
const WINDOW_BYTES: usize = 40 * 1024 * 1024;
/// Bytes that each row counts towards [`WINDOW_BYTES`] in addition to its encoded attributes.
const ROW_BYTES: usize = 256;

/// Number of bytes that are allocated at once for the encoded attributes of several rows. Larger
/// attributes get memory of their own.
const ALLOCATED_AT_ONCE: usize = 64 * 1024;

/// Buffers of a [`Planner`] for encoding and hashing attributes, reused from one row to the next.
#[derive(Debug)]
struct Memory {
    attributes: Writer,
    hasher: RowHasher,
}

/// Row of a chunk: a product, with the hashes and the version that decide whether it is written to
/// the table. The attributes are decoded only for a row that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Primary key of the product's row.
    pub key: ProductKey,
    /// Hash of the key. A part of it is stored with the chunk, and later shows that the chunk
    /// contained the product.
    pub key_hash: KeyHash,
    /// Hash of the product's content, which shows whether it differs from the table's.
    pub row_hash: RowHash,
    /// Version of the product. Of two items of a product, the one with the greater version is kept.
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

/// Chunk of a batch: the rows that one transaction writes, in key order and each key once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Id and time of receipt of the batch that the chunk belongs to.
    pub batch: BatchStamp,
    /// Generation (round of processing) of the batch in which the chunk is written.
    pub generation: Generation,
    /// Index of the chunk in its batch, from 0.
    pub index: u32,
    /// Number of valid items of which the chunk was made: its rows, and the items that a later item
    /// of the same product in the chunk replaced.
    pub items: u32,
    pub(super) rows: Vec<Row>,
}

impl Chunk {
    /// Returns the id of the chunk in its generation (round of processing).
    #[must_use]
    pub fn id(&self) -> ChunkId {
        ChunkId::of(self.batch.batch_id(), self.generation, self.index)
    }

    /// Returns the number of items that a later item of the same product in the chunk replaced.
    /// They count as stale.
    #[must_use]
    pub fn duplicates(&self) -> u32 {
        self.items.saturating_sub(u32::try_from(self.rows.len()).unwrap_or(u32::MAX))
    }

    /// Returns the rows of the chunk, ordered by key.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the chunk as one of a later generation (round of processing), in which it is written
    /// again.
    #[must_use]
    pub fn of_generation(self, generation: Generation) -> Self {
        Self { generation, ..self }
    }

    /// Returns the chunk with another index, so that tests can have many small chunks.
    #[cfg(any(test, feature = "generate"))]
    #[must_use]
    pub fn numbered(self, index: u32) -> Self {
        Self { index, ..self }
    }

    /// Returns the chunk's establishments, in order and without repetition.
    #[must_use]
    pub fn cnpjs(&self) -> Vec<Cnpj> {
        let mut cnpjs: Vec<Cnpj> = self.rows.iter().map(|row| row.key.cnpj).collect();
        cnpjs.dedup();
        cnpjs
    }
}

/// Planner that gathers a batch's products into chunks, each with rows whose keys are neighbours.
///
/// Products that arrive in key order fill one chunk after the other. Products in any other order
/// are gathered, as many as fit into 40 MiB, and sorted by key before they are cut into chunks.
/// Without the sort, the keys of each chunk would be spread over the whole table, and each
/// establishment over all chunks.
#[derive(Debug)]
pub struct Planner {
    plan: Plan,
    batch: BatchStamp,
    generation: Generation,
    index: u32,
    rows: Vec<Row>,
    /// Bytes of the encoded attributes of the rows gathered so far.
    bytes: usize,
    /// True if the rows gathered so far are in key order, each key once.
    ascending: bool,
    memory: Memory,
}

impl Planner {
    /// Creates a planner that cuts a batch's payload from its start. `generation` counts how often
    /// the batch was started, replays included.
    #[must_use]
    pub fn new(plan: Plan, batch: BatchStamp, generation: Generation) -> Self {
        let attributes = Writer(BytesMut::with_capacity(ALLOCATED_AT_ONCE));
        let memory = Memory { attributes, hasher: RowHasher::default() };
        Self { plan, batch, generation, index: 0, rows: Vec::new(), bytes: 0, ascending: true, memory }
    }

    /// Adds the next product of the payload, which the item with this index describes, and returns
    /// the chunks that the product completes.
    pub fn push(&mut self, product: Product<'_>, item_index: u64) -> Vec<Chunk> {
        let row = Row::new(product, self.batch, item_index, &mut self.memory);
        self.ascending = self.ascending && self.rows.last().is_none_or(|last| last.key < row.key);
        self.bytes = self.bytes.saturating_add(row.attributes.size());
        self.rows.push(row);
        let is_full = if self.ascending {
            self.is_chunk(self.rows.len(), self.bytes)
        } else {
            self.bytes.saturating_add(self.rows.len().saturating_mul(ROW_BYTES)) >= WINDOW_BYTES
        };
        if is_full { self.cut() } else { Vec::new() }
    }

    /// Ends the payload, and returns the chunks of the products that are left.
    #[must_use]
    pub fn finish(mut self) -> Vec<Chunk> {
        self.cut()
    }

    /// True if this many rows, with this many bytes of attributes, are enough for a chunk.
    fn is_chunk(&self, rows: usize, bytes: usize) -> bool {
        rows >= usize::from(u16::from(self.plan.items)) || bytes >= CHUNK_BYTES
    }

    /// Cuts all rows gathered so far into chunks.
    fn cut(&mut self) -> Vec<Chunk> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        if !std::mem::replace(&mut self.ascending, true) {
            return self.cut_sorted(rows);
        }
        let items = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        if rows.is_empty() { Vec::new() } else { vec![self.chunk(rows, items)] }
    }

    /// Sorts the rows, and cuts them into chunks.
    fn cut_sorted(&mut self, mut rows: Vec<Row>) -> Vec<Chunk> {
        rows.sort_unstable_by(|left, right| {
            left.key.cmp(&right.key).then_with(|| right.version.cmp(&left.version))
        });
        let mut chunks = Vec::new();
        let (mut chunk, mut items, mut bytes): (Vec<Row>, u32, usize) = (Vec::new(), 0, 0);
        for row in rows {
            // Of each key only the first row stays, which is its latest version.
            if chunk.last().is_none_or(|last| last.key != row.key) {
                if self.is_chunk(chunk.len(), bytes) {
                    chunks.push(self.chunk(std::mem::take(&mut chunk), items));
                    (items, bytes) = (0, 0);
                }
                bytes = bytes.saturating_add(row.attributes.size());
                chunk.push(row);
            }
            items = items.saturating_add(1);
        }
        if !chunk.is_empty() {
            chunks.push(self.chunk(chunk, items));
        }
        chunks
    }

    fn chunk(&mut self, rows: Vec<Row>, items: u32) -> Chunk {
        let chunk = Chunk { batch: self.batch, generation: self.generation, index: self.index, items, rows };
        self.index = self.index.saturating_add(1);
        chunk
    }
}
