//! One pass over a payload: bytes in, chunks and errors out, as fast as both sides allow and within bounded memory.

use std::error::Error;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use ingestion::chunk::{Chunk, encode};
use ingestion::product::ItemError;
use tokio::task::{JoinSet, yield_now};

use crate::cutter::{Cut, CutChunk, Cutter, Job};
use crate::unusable::Unusable;

/// Chunks that are being stored at once, at most, and their bytes together. One chunk alone may be larger.
const MAX_STORING: usize = 4;
const MAX_STORING_BYTES: usize = 8 * 1024 * 1024;

/// Errors that are recorded at once.
const ERROR_PAGE: usize = 1000;

/// A fault of what is around a run, not of its payload: the run is to be repeated.
pub type Trouble = Box<dyn Error + Send + Sync>;

/// Where a payload's bytes come from.
pub trait Source {
    /// The next bytes as they lie in storage, or nothing at their end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, Trouble>> + Send;
}

/// Where a payload's chunks and errors go. Both are repeated harmlessly: another run brings the same.
pub trait Output {
    /// Stores a chunk's file.
    fn store(&self, index: u32, file: Vec<u8>) -> BoxFuture<'static, Result<(), Trouble>>;

    /// Records items in error.
    fn record(&self, errors: &[ItemError]) -> impl Future<Output = Result<(), Trouble>> + Send;
}

/// What came of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All of its chunks are stored and all of its errors recorded.
    Cut(Cut),
    /// It comes to nothing. So many chunks were stored before that showed, and nobody will need them.
    Unusable { why: Unusable, stored: u32 },
}

/// Reads a payload to its end.
///
/// # Errors
/// Where its source or its output fail. What was stored until then is stored again by the next run.
pub async fn run(job: Job, source: &mut impl Source, output: &impl Output) -> Result<Outcome, Trouble> {
    let mut storing = Storing::default();
    let read = read(Cutter::new(job), source, output, &mut storing).await?;
    let chunks = storing.finish().await?;
    Ok(match read {
        Ok(cut) => Outcome::Cut(Cut { chunks, ..cut }),
        Err(why) => Outcome::Unusable { why, stored: u32::try_from(chunks.len())? },
    })
}

async fn read(
    mut cutter: Cutter,
    source: &mut impl Source,
    output: &impl Output,
    storing: &mut Storing,
) -> Result<Result<Cut, Unusable>, Trouble> {
    while let Some(bytes) = source.next().await? {
        let mut rest = bytes.as_ref();
        while !rest.is_empty() {
            let taken = match cutter.take(rest) {
                Ok(taken) => taken,
                Err(unusable) => return Ok(Err(unusable)),
            };
            rest = rest.get(taken..).unwrap_or_default();
            for chunk in cutter.chunks() {
                storing.add(chunk, output).await?;
            }
            record_pages(cutter.errors(), output).await?;
            // What is being stored gets its turn.
            yield_now().await;
        }
    }
    let end = match cutter.finish() {
        Ok(end) => end,
        Err(unusable) => return Ok(Err(unusable)),
    };
    for chunk in end.chunks {
        storing.add(chunk, output).await?;
    }
    for page in end.errors.chunks(ERROR_PAGE) {
        output.record(page).await?;
    }
    Ok(Ok(end.cut))
}

async fn record_pages(errors: &mut Vec<ItemError>, output: &impl Output) -> Result<(), Trouble> {
    while errors.len() >= ERROR_PAGE {
        let page: Vec<ItemError> = errors.drain(..ERROR_PAGE).collect();
        output.record(&page).await?;
    }
    Ok(())
}

/// The chunks that are on their way to storage, and those that were before them.
#[derive(Default)]
struct Storing {
    tasks: JoinSet<Result<usize, Trouble>>,
    bytes: usize,
    chunks: Vec<CutChunk>,
}

impl Storing {
    /// Sends a chunk on its way, as soon as there is room for it.
    async fn add(&mut self, chunk: Chunk, output: &impl Output) -> Result<(), Trouble> {
        let file = encode(&chunk)?;
        let index = chunk.index();
        self.chunks.push(CutChunk { index, items: chunk.items(), cnpjs: chunk.cnpjs() });
        drop(chunk);
        let size = file.len();
        while self.tasks.len() >= MAX_STORING || self.bytes.saturating_add(size) > MAX_STORING_BYTES {
            if !self.one_is_stored().await? {
                break;
            }
        }
        self.bytes = self.bytes.saturating_add(size);
        let stored = output.store(index, file);
        self.tasks.spawn(async move { stored.await.map(|()| size) });
        Ok(())
    }

    /// Waits until a chunk is stored; false where none is on its way.
    async fn one_is_stored(&mut self) -> Result<bool, Trouble> {
        let Some(stored) = self.tasks.join_next().await else { return Ok(false) };
        self.bytes = self.bytes.saturating_sub(stored??);
        Ok(true)
    }

    async fn finish(mut self) -> Result<Vec<CutChunk>, Trouble> {
        while self.one_is_stored().await? {}
        Ok(self.chunks)
    }
}

#[cfg(test)]
mod tests;
