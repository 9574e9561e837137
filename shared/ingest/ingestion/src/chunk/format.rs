//! A chunk's file: one LZ4 frame over a head and the rows.
//!
//! Numbers are little-endian, times microseconds since 1970. The head is `IHCK`, the format's
//! version (two bytes), the batch's id and `received_at`, the chunk's generation, index and number
//! of items, the number of its CNPJs, these CNPJs, and the number of rows. Each row is the index of
//! its CNPJ among these, shop id, product id, effective time, item index, key hash, row hash, and
//! the attributes, which stay encoded (`product/encoding.rs`): most rows of most loads are
//! unchanged, and their attributes are never decoded.
//!
//! This is version 2. Version 1 was the same in gzip, and is no longer read.

use std::io::{self, Write as _};

use bytes::Bytes;
use jiff::Timestamp;
use uuid::Uuid;

use super::frame::{self, FrameError};
use super::{Chunk, Generation, Row};
use crate::Cnpj;
use crate::product::bytes::{Malformed, Reader, Writer};
use crate::product::{BatchStamp, EncodedAttributes, KeyHash, ProductKey, RowHash, Version};

const MAGIC: [u8; 4] = *b"IHCK";
const VERSION: u16 = 2;

/// Reason why a file cannot be read as a chunk.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum ChunkFileError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("the file is not a chunk")]
    NotAChunk,
    #[error("the chunk has format {0}, which this version does not know")]
    Version(u16),
    #[error("the chunk's content is damaged")]
    Damaged,
}

impl From<Malformed> for ChunkFileError {
    fn from(_: Malformed) -> Self {
        Self::Damaged
    }
}

/// Encodes a chunk as a compressed file. Equal chunks give equal files.
///
/// # Errors
/// If compression itself fails.
pub fn encode(chunk: &Chunk) -> io::Result<Vec<u8>> {
    let cnpjs = chunk.cnpjs();
    let mut file = frame::encoder();
    let mut out = Writer::default();
    out.raw(&MAGIC);
    out.raw(&VERSION.to_le_bytes());
    out.raw(chunk.batch.batch_id().as_bytes());
    out.raw(&chunk.batch.received_at().as_microsecond().to_le_bytes());
    for number in [chunk.generation.number(), chunk.index, chunk.items, count(cnpjs.len())] {
        out.raw(&number.to_le_bytes());
    }
    for cnpj in &cnpjs {
        out.raw(cnpj.as_bytes());
    }
    out.raw(&count(chunk.rows.len()).to_le_bytes());
    let mut place = 0;
    for row in &chunk.rows {
        // Rows are in the order of the CNPJs.
        while cnpjs.get(place).is_some_and(|cnpj| *cnpj != row.key.cnpj) {
            place += 1;
        }
        // Row by row, so that the whole chunk is never in memory beside its rows and its file.
        write_head(&mut out, count(place), row);
        file.write_all(&out.0)?;
        file.write_all(&row.attributes.0)?;
        out.0.clear();
    }
    file.write_all(&out.0)?;
    Ok(file.finish()?)
}

/// Writes the part of a row that precedes its encoded attributes, including their length. `cnpj` is
/// the index of the row's CNPJ in the chunk's list.
fn write_head(out: &mut Writer, cnpj: u32, row: &Row) {
    out.raw(&cnpj.to_le_bytes());
    out.raw(&row.key.shop_id.to_le_bytes());
    out.sized(row.key.product_id.as_bytes());
    out.raw(&row.version.effective_at().as_microsecond().to_le_bytes());
    out.raw(&row.version.item_index().to_le_bytes());
    out.raw(&row.key_hash.0);
    out.raw(&row.row_hash.0);
    out.length(row.attributes.size());
}

/// Parses the file of a chunk.
///
/// # Errors
/// If the file is not a complete chunk of a known version. No row of it may then be written.
pub fn decode(file: &[u8]) -> Result<Chunk, ChunkFileError> {
    let content = Bytes::from(frame::content(file)?);
    let mut reader = Reader(&content);
    if reader.array() != Ok(MAGIC) {
        return Err(ChunkFileError::NotAChunk);
    }
    match reader.array().map(u16::from_le_bytes)? {
        VERSION => Ok(read(&content, reader)?),
        version => Err(ChunkFileError::Version(version)),
    }
}

/// Reads a chunk from the decompressed content, after its version. The rows share the content's
/// memory.
fn read(content: &Bytes, mut reader: Reader<'_>) -> Result<Chunk, Malformed> {
    let batch_id = Uuid::from_bytes(reader.array()?);
    let batch = BatchStamp::new(time(reader.i64()?)?, batch_id);
    let generation = Generation::try_from(reader.u32()?).map_err(|_| Malformed)?;
    let (index, items) = (reader.u32()?, reader.u32()?);
    // Neither list is allocated by the number in front of it, which may be wrong.
    let mut cnpjs = Vec::new();
    for _ in 0..reader.u32()? {
        let text: [u8; 14] = reader.array()?;
        let text = std::str::from_utf8(&text).map_err(|_| Malformed)?;
        cnpjs.push(text.parse().map_err(|_| Malformed)?);
    }
    let mut rows: Vec<Row> = Vec::new();
    for _ in 0..reader.u32()? {
        rows.push(read_row(content, &mut reader, &cnpjs, batch)?);
    }
    reader.end()?;
    let sorted = rows.windows(2).all(|pair| matches!(pair, [first, second] if first.key < second.key));
    if !sorted || count(rows.len()) > items {
        return Err(Malformed);
    }
    Ok(Chunk { batch, generation, index, items, rows })
}

fn read_row(
    content: &Bytes,
    reader: &mut Reader<'_>,
    cnpjs: &[Cnpj],
    batch: BatchStamp,
) -> Result<Row, Malformed> {
    let place = usize::try_from(reader.u32()?).map_err(|_| Malformed)?;
    let cnpj = *cnpjs.get(place).ok_or(Malformed)?;
    let key = ProductKey { cnpj, shop_id: reader.i32()?, product_id: reader.text()?.to_owned() };
    let effective_at = time(reader.i64()?)?;
    let item_index = reader.u64()?;
    Ok(Row {
        key,
        version: Version::new(Some(effective_at), batch, item_index),
        key_hash: KeyHash(reader.array()?),
        row_hash: RowHash(reader.array()?),
        attributes: EncodedAttributes(content.slice_ref(reader.sized()?)),
    })
}

fn time(microseconds: i64) -> Result<Timestamp, Malformed> {
    Timestamp::from_microsecond(microseconds).map_err(|_| Malformed)
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
