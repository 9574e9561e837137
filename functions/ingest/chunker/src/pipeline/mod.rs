//! One pass over a payload: it reads bytes and yields chunks, errors and their report, within
//! bounded memory.

use std::error::Error;
use std::io;

use bytes::Bytes;
use catalog::{Seal, SealedChunk};
use futures_util::future::{BoxFuture, try_join3};
use ingestion::Cnpj;
use ingestion::chunk::{Chunk, encode};
use ingestion::product::ItemError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{JoinSet, spawn_blocking};

use crate::content::{Content, ContentDigest};
use crate::cutter::{CutSpec, Cutter, End};
use crate::report::Report;
use crate::unusable::PayloadFault;

/// Maximum number of chunks that are stored at once, and of bytes of all of them together. One
/// chunk alone may be larger.
const MAX_STORING: usize = 4;
const MAX_STORING_BYTES: usize = 8 * 1024 * 1024;

/// Capacities of the channels between threads: frames of the payload, windows of its content, and
/// chunks or pages of errors.
const FRAMES: usize = 8;
const WINDOWS: usize = 8;
const FOUND: usize = 2;
/// Parts of the report, of 5 MiB each, that may wait to be stored.
const PARTS: usize = 1;
/// Bytes of content that are sent at once, so that threads are not woken for each frame.
const WINDOW: usize = 64 * 1024;
/// Bytes of a window's memory: a nearly full window also takes the bytes that gzip's decoder
/// appends at once.
const WINDOW_MEMORY: usize = WINDOW + 32 * 1024;

/// Number of items in error that are recorded at once.
const ERROR_PAGE: usize = 1000;

/// A failure of the source or the output, not of the payload: the run has to be repeated.
pub type RunError = Box<dyn Error + Send + Sync>;

/// Origin of a payload's bytes.
pub trait Source {
    /// Returns the next stored bytes of the payload; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, RunError>> + Send;
}

/// Destination of a payload's chunks and errors. A repeated run stores and records the same again.
pub trait Output {
    /// Type of the file of all items in error.
    type Report: ReportFile + Send;

    /// Creates the report, which replaces that of an earlier run.
    fn report(&self) -> Self::Report;

    /// Returns the URI at which a chunk is stored.
    fn uri(&self, index: u32) -> String;

    /// Stores the file of the chunk with this index.
    fn store(&self, index: u32, file: Vec<u8>) -> BoxFuture<'static, Result<(), RunError>>;

    /// Records the items in error of the batch.
    fn record(&self, errors: &[ItemError]) -> impl Future<Output = Result<(), RunError>> + Send;
}

/// A file that exists only once it is finished, and then as a whole.
pub trait ReportFile {
    /// Uploads a part after the earlier parts.
    fn add(&mut self, part: Vec<u8>) -> impl Future<Output = Result<(), RunError>> + Send;

    /// Uploads the last part, and completes the file.
    fn finish(self, last: Vec<u8>) -> impl Future<Output = Result<(), RunError>> + Send;

    /// Discards the parts of the file that were uploaded.
    fn abandon(self) -> impl Future<Output = ()> + Send;
}

/// Outcome of a run that chunks one payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The payload is cut: all chunks are stored and all errors recorded. There is a report if any
    /// item is in error; its URI is not set yet.
    Cut(Seal),
    /// The payload is unusable. `stored` chunks were already uploaded and can be discarded. Of the
    /// items in error until then, the database does not list `errors_omitted`.
    Unusable { why: PayloadFault, errors_omitted: u64, stored: u32 },
}

/// Reads a payload to its end. Unpacking, cutting and compressing have a thread each, so that they
/// run in parallel if there is more than one processor. The result does not depend on their number.
///
/// # Errors
/// If the source or the output fail. The next run stores everything again.
pub async fn run(spec: CutSpec, source: &mut impl Source, output: &impl Output) -> Result<Outcome, RunError> {
    let (frames_in, frames) = channel(FRAMES);
    let (steps_in, steps) = channel(WINDOWS);
    let (emptied_in, emptied) = channel(WINDOWS);
    let (found_in, found) = channel(FOUND);
    let (made_in, made) = channel(FOUND);
    let (parts_in, parts) = channel(PARTS);
    let max_bytes = spec.max_bytes;
    let unpacking = spawn_blocking(move || unpack(max_bytes, frames, &steps_in, emptied));
    let cutting = spawn_blocking(move || cut(spec, steps, &emptied_in, &found_in, &parts_in));
    let packing = spawn_blocking(move || pack(found, &made_in));
    let gathered = try_join3(feed(source, frames_in), gather(made, output), deliver(parts, output.report()));
    let ((), chunks, file) = gathered.await?;
    unpacking.await?;
    packing.await??;
    match cutting.await?.ok_or("the payload was not read to its end")? {
        Ok((cut, report)) => {
            if let Some(last) = report.finish()? {
                file.finish(last).await?;
            }
            Ok(Outcome::Cut(Seal { chunks, ..cut }))
        }
        Err((why, errors_omitted)) => {
            file.abandon().await;
            Ok(Outcome::Unusable { why, errors_omitted, stored: u32::try_from(chunks.len())? })
        }
    }
}

/// Sends the payload's bytes until they end or the receiver is gone.
async fn feed(source: &mut impl Source, frames: Sender<Bytes>) -> Result<(), RunError> {
    while let Some(bytes) = source.next().await? {
        if frames.send(bytes).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// Writes the report's parts to the file, until there are no more.
async fn deliver<F: ReportFile>(mut parts: Receiver<Vec<u8>>, mut file: F) -> Result<F, RunError> {
    while let Some(part) = parts.recv().await {
        file.add(part).await?;
    }
    Ok(file)
}

/// Messages from the unpacking thread to the cutting thread.
enum Step {
    /// The next bytes of the payload's content.
    Window(Vec<u8>),
    End(Result<ContentDigest, PayloadFault>),
}

/// Unpacks frames until they end or the receiver is gone. `emptied` are windows whose content was
/// cut; they are filled again, since on Lambda memory of their size would come from the system each
/// time, page by page (`MALLOC_MMAP_THRESHOLD_` in the template).
fn unpack(max_bytes: u64, mut frames: Receiver<Bytes>, steps: &Sender<Step>, mut emptied: Receiver<Vec<u8>>) {
    let mut content = Content::new(max_bytes);
    let mut window = Vec::with_capacity(WINDOW_MEMORY);
    let mut fault = None;
    while let (None, Some(frame)) = (&fault, frames.blocking_recv()) {
        let mut rest = frame.as_ref();
        while !rest.is_empty() && fault.is_none() {
            match content.take(rest, &mut window) {
                Ok(taken) => rest = rest.get(taken..).unwrap_or_default(),
                Err(unusable) => fault = Some(unusable),
            }
            if window.len() >= WINDOW {
                let next = emptied.try_recv().unwrap_or_else(|_| Vec::with_capacity(WINDOW_MEMORY));
                let full = std::mem::replace(&mut window, next);
                if steps.blocking_send(Step::Window(full)).is_err() {
                    return;
                }
            }
        }
    }
    let end = fault.map_or_else(|| content.finish(&mut window), Err);
    // If the last window was received, its receiver also waits for the end.
    if steps.blocking_send(Step::Window(window)).is_ok() {
        drop(steps.blocking_send(Step::End(end)));
    }
}

/// Messages from the cutting thread to the compressing thread.
enum Found {
    Chunk(Chunk),
    Errors(Vec<ItemError>),
}

/// Cuts windows of content; `None` if they break off, or a receiver is gone. Beside the reason why
/// a payload is unusable, it returns the number of its errors that are not listed.
fn cut(
    spec: CutSpec,
    mut steps: Receiver<Step>,
    emptied: &Sender<Vec<u8>>,
    found: &Sender<Found>,
    parts: &Sender<Vec<u8>>,
) -> Option<Result<(Seal, Report), (PayloadFault, u64)>> {
    let mut cutter = Cutter::new(spec);
    loop {
        let ended = match steps.blocking_recv()? {
            Step::Window(mut window) => {
                let taken = cutter.take(&window);
                window.clear();
                // It is freed if nobody fills it any more.
                drop(emptied.try_send(window));
                taken.map(|()| None)
            }
            Step::End(whole) => whole.and_then(|whole| cutter.end(&whole).map(|()| Some(whole))),
        };
        match ended {
            Ok(None) => {
                forward(cutter.chunks(), pages(cutter.errors()), found)?;
                if let Some(part) = cutter.report_part() {
                    parts.blocking_send(part).ok()?;
                }
            }
            Ok(Some(whole)) => {
                let End { chunks, errors, report, cut } = cutter.finish(whole);
                forward(chunks, errors.chunks(ERROR_PAGE).map(<[_]>::to_vec), found)?;
                return Some(Ok((cut, report)));
            }
            Err(why) => {
                let errors = std::mem::take(cutter.errors());
                forward(cutter.chunks(), errors.chunks(ERROR_PAGE).map(<[_]>::to_vec), found)?;
                return Some(Err((why, cutter.errors_omitted())));
            }
        }
    }
}

fn forward(
    chunks: Vec<Chunk>,
    errors: impl Iterator<Item = Vec<ItemError>>,
    found: &Sender<Found>,
) -> Option<()> {
    let all = chunks.into_iter().map(Found::Chunk).chain(errors.map(Found::Errors));
    for one in all {
        found.blocking_send(one).ok()?;
    }
    Some(())
}

/// Removes whole pages from the list of items in error, and returns them.
fn pages(errors: &mut Vec<ItemError>) -> impl Iterator<Item = Vec<ItemError>> {
    std::iter::from_fn(|| (errors.len() >= ERROR_PAGE).then(|| errors.drain(..ERROR_PAGE).collect()))
}

/// Results of the compressing thread, to be stored or recorded.
enum Made {
    File { index: u32, items: u32, cnpjs: Vec<Cnpj>, file: Vec<u8> },
    Errors(Vec<ItemError>),
}

/// Encodes chunks as files until they end or the receiver is gone.
fn pack(mut found: Receiver<Found>, made: &Sender<Made>) -> io::Result<()> {
    while let Some(one) = found.blocking_recv() {
        let one = match one {
            Found::Chunk(chunk) => {
                let file = encode(&chunk)?;
                Made::File { index: chunk.index, items: chunk.items, cnpjs: chunk.cnpjs(), file }
            }
            Found::Errors(errors) => Made::Errors(errors),
        };
        if made.blocking_send(one).is_err() {
            break;
        }
    }
    Ok(())
}

/// Stores chunks and records errors, and returns the chunks when all are stored.
async fn gather(mut made: Receiver<Made>, output: &impl Output) -> Result<Vec<SealedChunk>, RunError> {
    let mut storing = Storing::default();
    while let Some(one) = made.recv().await {
        match one {
            Made::File { index, items, cnpjs, file } => {
                let first_cnpj = *cnpjs.first().ok_or("a chunk has no product")?;
                let uri = output.uri(index);
                storing.add(SealedChunk { index, uri, items, first_cnpj, cnpjs }, file, output).await?;
            }
            Made::Errors(errors) => output.record(&errors).await?,
        }
    }
    storing.finish().await
}

/// Chunks that are being stored, and the chunks that are stored already.
#[derive(Default)]
struct Storing {
    tasks: JoinSet<Result<usize, RunError>>,
    bytes: usize,
    chunks: Vec<SealedChunk>,
}

impl Storing {
    /// Begins to store a chunk as soon as there is room for it.
    async fn add(&mut self, chunk: SealedChunk, file: Vec<u8>, output: &impl Output) -> Result<(), RunError> {
        let (index, size) = (chunk.index, file.len());
        self.chunks.push(chunk);
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

    /// Waits until a chunk is stored; false if none is being stored.
    async fn one_is_stored(&mut self) -> Result<bool, RunError> {
        let Some(stored) = self.tasks.join_next().await else { return Ok(false) };
        self.bytes = self.bytes.saturating_sub(stored??);
        Ok(true)
    }

    async fn finish(mut self) -> Result<Vec<SealedChunk>, RunError> {
        while self.one_is_stored().await? {}
        Ok(self.chunks)
    }
}

#[cfg(test)]
mod tests;
