//! The contenders in Rust: the chunker's pipeline, and what no pipeline can do without, each part
//! alone. Each is a process that goes over the same payload twice, and tells what the second time
//! took.

use std::hint::black_box;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use chunker::pipeline::{self, Outcome, Output, ReportFile, RunError, Source};
use chunker::{Cut, CutSpec};
use clap::ValueEnum;
use flate2::write::MultiGzDecoder;
use futures_util::future::{BoxFuture, ready};
use ingestion::chunk::{Chunk, Generation, Plan, decode, frame};
use ingestion::product::{
    Attributes, BatchStamp, EncodingError, ItemError, ItemPlace, KeyHash, ProductKey, RowHasher,
};
use ingestion::split::{Format, ITEM_LIMIT, Piece, Splitter};
use jiff::Timestamp;
use nix::time::ClockId;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::catalogue::rules;
use super::unexpected;
use crate::error::Error;
use crate::function::cpu;

/// Bytes of the payload that come at once, as storage hands them on, and bytes of content or chunk
/// that are worked on at once.
const FRAME: usize = 16 * 1024;
const WINDOW: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// `chunker::pipeline::run`, with the payload in memory and chunks dropped
    Pipeline,
    /// The payload inflated
    Inflate,
    /// Content split and every item read into a product
    Parse,
    /// Content of the chunks' files compressed
    Compress,
    /// SHA-256 of the content, of every key and of every row
    Hash,
}

/// Once over the payload.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Pass {
    /// Bytes of decoded content that was gone over, or that what was gone over came from.
    pub(super) bytes: u32,
    /// Number of items, if the contender looks at items.
    pub(super) items: Option<u32>,
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
}

impl Part {
    pub(super) const ALL: [Self; 5] =
        [Self::Pipeline, Self::Inflate, Self::Parse, Self::Compress, Self::Hash];

    /// Returns the part's name on the command line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Pipeline => "pipeline",
            Self::Inflate => "inflate",
            Self::Parse => "parse",
            Self::Compress => "compress",
            Self::Hash => "hash",
        }
    }
}

/// The contender's process.
pub(crate) async fn run(part: Part, payload: &Path) -> Result<(), Error> {
    let payload = Bytes::from(std::fs::read(payload)?);
    let content = inflated(&payload)?;
    let pass = match part {
        Part::Pipeline => {
            cut(payload.clone(), &Nowhere).await?;
            let clock = Clock::start()?;
            let cut = cut(payload, &Nowhere).await?;
            clock.stop(&content, Some(cut.items_parsed))?
        }
        Part::Inflate => twice(&content, || inflate(&payload, drop_window))?,
        Part::Parse => {
            parse(&content)?;
            let clock = Clock::start()?;
            let items = parse(&content)?;
            clock.stop(&content, Some(items))?
        }
        Part::Compress => {
            let files =
                files(payload).await?.iter().map(|file| frame::content(file)).collect::<Result<Vec<_>, _>>();
            let files = files.map_err(|error| unexpected(&error))?;
            twice(&content, || files.iter().try_for_each(|file| compress(file)))?
        }
        Part::Hash => {
            let chunks = files(payload).await?.iter().map(|file| decode(file)).collect::<Result<Vec<_>, _>>();
            let chunks = chunks.map_err(|error| unexpected(&error))?;
            let rows = chunks.iter().flat_map(Chunk::rows);
            let rows =
                rows.map(|row| Ok((&row.key, row.attributes.decode()?))).collect::<Result<Vec<_>, _>>();
            let rows = rows.map_err(|error: EncodingError| unexpected(&error))?;
            twice(&content, || {
                hash(&content, &rows);
                Ok(())
            })?
        }
    };
    let line = serde_json::to_string(&pass)?;
    #[expect(clippy::print_stdout, reason = "what the comparison reads")]
    {
        println!("{line}");
    }
    Ok(())
}

fn twice(content: &[u8], pass: impl Fn() -> Result<(), Error>) -> Result<Pass, Error> {
    pass()?;
    let clock = Clock::start()?;
    pass()?;
    clock.stop(content, None)
}

/// Measures from its making on.
struct Clock {
    cpu: Duration,
    started: Instant,
}

impl Clock {
    fn start() -> Result<Self, Error> {
        Ok(Self { cpu: cpu(ClockId::CLOCK_PROCESS_CPUTIME_ID)?, started: Instant::now() })
    }

    fn stop(self, content: &[u8], items: Option<u64>) -> Result<Pass, Error> {
        let seconds = self.started.elapsed().as_secs_f64();
        let cpu_seconds = cpu(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.saturating_sub(self.cpu).as_secs_f64();
        let bytes = u32::try_from(content.len()).map_err(|error| unexpected(&error))?;
        let items = items.map(u32::try_from).transpose().map_err(|error| unexpected(&error))?;
        Ok(Pass { bytes, items, seconds, cpu_seconds })
    }
}

/// The payload, as if it came from storage.
struct Stored(Bytes);

impl Source for Stored {
    async fn next(&mut self) -> Result<Option<Bytes>, RunError> {
        let frame = self.0.split_to(self.0.len().min(FRAME));
        Ok((!frame.is_empty()).then_some(frame))
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

/// Drops everything.
struct Nowhere;

impl Output for Nowhere {
    type Report = NoReport;

    fn report(&self) -> NoReport {
        NoReport
    }

    fn store(&self, _: u32, file: Vec<u8>) -> BoxFuture<'static, Result<(), RunError>> {
        drop(file);
        Box::pin(ready(Ok(())))
    }

    async fn record(&self, _: &[ItemError]) -> Result<(), RunError> {
        Ok(())
    }
}

/// Keeps the chunks' files.
#[derive(Default)]
struct Kept(Mutex<Vec<Vec<u8>>>);

impl Output for Kept {
    type Report = NoReport;

    fn report(&self) -> NoReport {
        NoReport
    }

    fn store(&self, _: u32, file: Vec<u8>) -> BoxFuture<'static, Result<(), RunError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(file);
        Box::pin(ready(Ok(())))
    }

    async fn record(&self, _: &[ItemError]) -> Result<(), RunError> {
        Ok(())
    }
}

async fn files(payload: Bytes) -> Result<Vec<Vec<u8>>, Error> {
    let kept = Kept::default();
    cut(payload, &kept).await?;
    Ok(std::mem::take(&mut kept.0.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// The real pipeline.
async fn cut(payload: Bytes, output: &impl Output) -> Result<Cut, Error> {
    let job = CutSpec {
        format: Format::Array,
        rules: rules()?,
        plan: Plan::default(),
        batch: BatchStamp::new(Timestamp::UNIX_EPOCH, uuid::Uuid::nil()),
        generation: Generation::FIRST,
        max_bytes: u64::MAX,
        bounds: chunker::Bounds::default(),
        checksum: None,
    };
    match pipeline::run(job, &mut Stored(payload), output).await {
        Ok(Outcome::Cut(cut)) if cut.items_in_error == 0 => Ok(cut),
        other => Err(Error::Unexpected(format!("the catalogue was not cut: {other:?}"))),
    }
}

fn inflated(gzip: &[u8]) -> Result<Vec<u8>, Error> {
    let mut content = Vec::new();
    inflate(gzip, |window| content.extend_from_slice(window))?;
    Ok(content)
}

fn inflate(payload: &[u8], mut sink: impl FnMut(&[u8])) -> Result<(), Error> {
    let mut gzip = MultiGzDecoder::new(Vec::new());
    for frame in payload.chunks(FRAME) {
        let mut rest = frame;
        while !rest.is_empty() {
            gzip.get_mut().clear();
            let taken = gzip.write(rest)?;
            sink(gzip.get_ref());
            rest = rest.get(taken..).unwrap_or_default();
        }
    }
    gzip.get_mut().clear();
    sink(&gzip.finish()?);
    Ok(())
}

fn drop_window(window: &[u8]) {
    black_box(window);
}

/// Says how many items there were.
fn parse(content: &[u8]) -> Result<u64, Error> {
    let rules = rules()?;
    let mut splitter = Splitter::new(Format::Array, ITEM_LIMIT);
    let mut items = 0;
    let mut take = |piece: Piece<'_>| {
        if let Piece::Item { index, offset, bytes } = piece
            && let Ok(product) = rules.parse(ItemPlace { index, offset }, bytes)
        {
            drop(black_box(product));
            items += 1;
        }
        Ok(())
    };
    for window in content.chunks(WINDOW) {
        splitter.feed(window, &mut take).map_err(|error| unexpected(&error))?;
    }
    splitter.finish(&mut take).map_err(|error| unexpected(&error))?;
    Ok(items)
}

fn compress(content: &[u8]) -> Result<(), Error> {
    let mut file = frame::encoder();
    for window in content.chunks(WINDOW) {
        file.write_all(window)?;
    }
    drop(black_box(file.finish().map_err(|error| unexpected(&error))?));
    Ok(())
}

fn hash(content: &[u8], rows: &[(&ProductKey, Attributes<'_>)]) {
    let mut hash = Sha256::new();
    for window in content.chunks(WINDOW) {
        hash.update(window);
    }
    black_box(hash.finalize());
    let mut hasher = RowHasher::default();
    for (key, attributes) in rows {
        black_box((KeyHash::of(key), hasher.hash(attributes)));
    }
}
