use bytes::BytesMut;

use super::{ChunkId, Generation, Plan};
use crate::Cnpj;
use crate::product::bytes::Writer;
use crate::product::{
    BatchStamp, EncodedAttributes, KeyHash, Product, ProductKey, RowHash, RowHasher, Version,
};

/// Bytes of encoded attributes after which a chunk ends, so that items near their limit cannot make
/// a chunk that is too large to handle.
const CHUNK_BYTES: usize = 8 * 1024 * 1024;

/// Bytes of rows that are sorted together if they do not come in the order of their keys: some
/// 55,000 usual products.
const WINDOW_BYTES: usize = 40 * 1024 * 1024;
/// Bytes of a row that count towards [`WINDOW_BYTES`], besides its encoded attributes.
const ROW_BYTES: usize = 256;

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
    /// Primary key of the product's row.
    pub key: ProductKey,
    /// Hash of the key, which identifies it in the history of loads.
    pub key_hash: KeyHash,
    /// Hash of the content, by which a change is recognized.
    pub row_hash: RowHash,
    /// Version of the product; of two items, the one with the greater version is kept.
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
    /// Batch that the chunk belongs to.
    pub batch: BatchStamp,
    /// The generation in which the chunk is written.
    pub generation: Generation,
    /// Index of the chunk in the batch.
    pub index: u32,
    /// Number of valid items that the chunk was made of: its rows, and the items that one of them
    /// superseded.
    pub items: u32,
    pub(super) rows: Vec<Row>,
}

impl Chunk {
    /// Returns the id of the chunk.
    #[must_use]
    pub fn id(&self) -> ChunkId {
        ChunkId::of(self.batch.batch_id(), self.generation, self.index)
    }

    /// Counts the items that were superseded by a later version in the chunk; they count as stale.
    #[must_use]
    pub fn duplicates(&self) -> u32 {
        self.items.saturating_sub(u32::try_from(self.rows.len()).unwrap_or(u32::MAX))
    }

    /// Returns the rows of the chunk, ordered by key.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Moves the chunk to a later generation, in which it is written again.
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

    /// Returns the chunk's establishments in order, each once. The transaction locks them.
    #[must_use]
    pub fn cnpjs(&self) -> Vec<Cnpj> {
        let mut cnpjs: Vec<Cnpj> = self.rows.iter().map(|row| row.key.cnpj).collect();
        cnpjs.dedup();
        cnpjs
    }
}

/// Gathers a batch's products into chunks whose rows are neighbours in the order of keys.
///
/// Products that come in this order go into one chunk after the other. All others are gathered and
/// sorted, as many as a window holds: otherwise the keys of each chunk would be spread over the
/// whole table, and its establishments over all chunks.
#[derive(Debug)]
pub struct Planner {
    plan: Plan,
    batch: BatchStamp,
    generation: Generation,
    index: u32,
    rows: Vec<Row>,
    /// Encoded attributes of the rows, in bytes.
    bytes: usize,
    /// True if the rows are in the order of their keys, each key once.
    ascending: bool,
    memory: Memory,
}

impl Planner {
    /// Creates a planner for one run over a batch's payload.
    #[must_use]
    pub fn new(plan: Plan, batch: BatchStamp, generation: Generation) -> Self {
        let attributes = Writer(BytesMut::with_capacity(ALLOCATED_AT_ONCE));
        let memory = Memory { attributes, hasher: RowHasher::default() };
        Self { plan, batch, generation, index: 0, rows: Vec::new(), bytes: 0, ascending: true, memory }
    }

    /// Adds the next product, and returns the chunks that it completes.
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

    /// Ends the payload, and returns the last chunks.
    #[must_use]
    pub fn finish(mut self) -> Vec<Chunk> {
        self.cut()
    }

    /// True if this many rows, with this many bytes of attributes, are enough for a chunk.
    fn is_chunk(&self, rows: usize, bytes: usize) -> bool {
        rows >= usize::from(u16::from(self.plan.items)) || bytes >= CHUNK_BYTES
    }

    /// Cuts all rows so far into chunks.
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
