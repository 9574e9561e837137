//! The chunker's pipeline as the function runs it, with its chunks' files in memory.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use catalog::{Database, Seal, WriteOutcome};
use chunker::pipeline::{self, Outcome, Output, ReportFile, RunError, Source};
use chunker::{Bounds, CutSpec};
use futures_util::future::BoxFuture;
use ingestion::batch::Changes;
use ingestion::chunk::{Chunk, Generation, Plan};
use ingestion::product::{BatchStamp, ItemError};
use ingestion::split::Format;

use super::catalogue::rules;
use crate::error::Error;

/// Number of bytes of the payload that are read at a time, like a read from S3.
pub(super) const FRAME: usize = 16 * 1024;

/// Payload in memory, read in parts like an object in S3.
pub(super) struct Stored(pub(super) Bytes);

impl Source for Stored {
    async fn next(&mut self) -> Result<Option<Bytes>, RunError> {
        let frame = self.0.split_to(self.0.len().min(FRAME));
        Ok((!frame.is_empty()).then_some(frame))
    }
}

/// Chunk files by the index of their chunk, in memory.
#[derive(Clone, Default)]
pub(crate) struct Files(Arc<Mutex<BTreeMap<u32, Vec<u8>>>>);

impl Files {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the file of a chunk and returns it.
    pub(crate) fn take(&self, index: u32) -> Result<Vec<u8>, Error> {
        self.lock().remove(&index).ok_or_else(|| format!("the chunk {index} is missing").into())
    }
}

impl Output for Files {
    type Report = NoReport;

    fn report(&self) -> NoReport {
        NoReport
    }

    fn uri(&self, index: u32) -> String {
        format!("s3://bench/{index}")
    }

    fn store(&self, index: u32, file: Vec<u8>) -> BoxFuture<'static, Result<(), RunError>> {
        self.lock().insert(index, file);
        Box::pin(ready(Ok(())))
    }

    async fn record(&self, _: &[ItemError]) -> Result<(), RunError> {
        Ok(())
    }
}

/// Error report that discards its content.
pub(crate) struct NoReport;

impl ReportFile for NoReport {
    async fn add(&mut self, _: Vec<u8>) -> Result<(), RunError> {
        Ok(())
    }

    async fn finish(self, _: Vec<u8>) -> Result<(), RunError> {
        Ok(())
    }

    async fn abandon(self) {}
}

/// Splits a payload, a JSON array without invalid items, into chunks.
pub(crate) async fn cut(batch: BatchStamp, source: &mut impl Source, files: &Files) -> Result<Seal, Error> {
    let spec = CutSpec {
        format: Format::Array,
        rules: rules()?,
        plan: Plan::default(),
        batch,
        generation: Generation::FIRST,
        max_bytes: u64::MAX,
        bounds: Bounds::default(),
        checksum: None,
    };
    match pipeline::run(spec, source, files).await {
        Ok(Outcome::Cut(cut)) if cut.items_in_error == 0 => Ok(cut),
        other => Err(format!("the catalogue was not cut: {other:?}").into()),
    }
}

/// Writes a chunk to the database. A chunk that was written before is an error.
pub(crate) async fn write(database: &Database, chunk: &Chunk) -> Result<Changes, Error> {
    match database.write_chunk(chunk).await? {
        WriteOutcome::Done { result, .. } => Ok(result.changes()),
        other => Err(format!("a chunk was not written: {other:?}").into()),
    }
}
