//! The chunker's pipeline as the function runs it, with its chunks' files in memory.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use catalog::Seal;
use chunker::pipeline::{self, Outcome, Output, ReportFile, RunError, Source};
use chunker::{Bounds, CutSpec};
use futures_util::future::BoxFuture;
use ingestion::chunk::{Generation, Plan};
use ingestion::product::{BatchStamp, ItemError};
use ingestion::split::Format;

use super::catalogue::rules;
use crate::error::Error;

/// Bytes of the payload that come at once, as storage hands them on.
pub(super) const FRAME: usize = 16 * 1024;

/// The payload, as if it came from storage.
pub(super) struct Stored(pub(super) Bytes);

impl Source for Stored {
    async fn next(&mut self) -> Result<Option<Bytes>, RunError> {
        let frame = self.0.split_to(self.0.len().min(FRAME));
        Ok((!frame.is_empty()).then_some(frame))
    }
}

/// Files of chunks by their index.
type Files = Vec<(u32, Vec<u8>)>;

/// Place of chunks' files.
#[derive(Clone)]
pub(crate) enum Place {
    Nowhere,
    /// The memory of this process.
    Memory(Arc<Mutex<Files>>),
}

impl Place {
    pub(crate) fn memory() -> Self {
        Self::Memory(Arc::default())
    }

    /// Takes a file away.
    pub(crate) fn take(&self, index: u32) -> Result<Vec<u8>, Error> {
        let file = match self {
            Self::Nowhere => None,
            Self::Memory(files) => {
                let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
                let place = files.iter().position(|(number, _)| *number == index);
                place.map(|place| files.swap_remove(place).1)
            }
        };
        file.ok_or_else(|| format!("the chunk {index} is missing").into())
    }
}

impl Output for Place {
    type Report = NoReport;

    fn report(&self) -> NoReport {
        NoReport
    }

    fn uri(&self, index: u32) -> String {
        format!("s3://bench/{index}")
    }

    fn store(&self, index: u32, file: Vec<u8>) -> BoxFuture<'static, Result<(), RunError>> {
        let place = self.clone();
        Box::pin(async move {
            if let Self::Memory(files) = place {
                files.lock().unwrap_or_else(PoisonError::into_inner).push((index, file));
            }
            Ok(())
        })
    }

    async fn record(&self, _: &[ItemError]) -> Result<(), RunError> {
        Ok(())
    }
}

/// Drops a report.
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

/// Cuts a payload that is an array without faults.
pub(crate) async fn cut(batch: BatchStamp, source: &mut impl Source, place: &Place) -> Result<Seal, Error> {
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
    match pipeline::run(spec, source, place).await {
        Ok(Outcome::Cut(cut)) if cut.items_in_error == 0 => Ok(cut),
        other => Err(format!("the catalogue was not cut: {other:?}").into()),
    }
}
