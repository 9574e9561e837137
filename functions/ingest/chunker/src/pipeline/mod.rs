//! Pipeline that cuts one payload: it reads the payload's bytes once, and yields chunks, items in
//! error and their report, within bounded memory.

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

/// Maximum number of chunk files that are stored concurrently. `MAX_STORING_BYTES` limits their
/// total size, but a single chunk is always allowed.
const MAX_STORING: usize = 4;
const MAX_STORING_BYTES: usize = 8 * 1024 * 1024;

/// Maximum number of frames (pieces of the payload as S3 delivers them) that wait for the unpacking
/// thread. `WINDOWS` is the limit for pieces of decoded content that wait for the cutting thread.
/// `CHUNKS` is the limit for chunks and pages of errors that wait to be compressed or stored.
const FRAMES: usize = 8;
const WINDOWS: usize = 8;
const CHUNKS: usize = 2;
/// Maximum number of parts of the error report, each of 5 MiB, that may wait to be stored.
const PARTS: usize = 1;
/// Number of bytes of decoded content that are sent to the cutting thread together, so that it is
/// not woken for each piece that S3 delivers.
const WINDOW: usize = 64 * 1024;
/// Capacity in bytes of a buffer for decoded content. A buffer that almost has [`WINDOW`] bytes
/// must also hold what gzip's decoder appends in one step.
const WINDOW_MEMORY: usize = WINDOW + 32 * 1024;

/// Number of items in error that are recorded in the database together.
const ERROR_PAGE: usize = 1000;

/// Failure to read a payload or to store its chunks, which is no fault of the payload: it must be
/// cut again.
pub type RunError = Box<dyn Error + Send + Sync>;

/// Reader of a payload's stored bytes.
pub trait Source {
    /// Reads the next stored bytes of the payload; `None` at its end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, RunError>> + Send;
}

/// Destination of a payload's chunks, errors and error report. If the payload is cut again, the
/// same are stored and recorded again.
pub trait Output {
    /// File to which the report of all items in error is written.
    type Report: ReportFile + Send;

    /// Starts the file of the error report, which replaces the file of an earlier run once it is
    /// finished.
    fn report(&self) -> Self::Report;

    /// Returns the URI of the chunk with this index.
    fn uri(&self, index: u32) -> String;

    /// Stores the encoded file of the chunk with this index.
    fn store(&self, index: u32, file: Vec<u8>) -> BoxFuture<'static, Result<(), RunError>>;

    /// Records items in error of the batch, so that clients can list them.
    fn record(&self, errors: &[ItemError]) -> impl Future<Output = Result<(), RunError>> + Send;
}

/// File of the error report, uploaded in parts. It becomes visible only when it is finished, and
/// then as a whole.
pub trait ReportFile {
    /// Appends a part to the file.
    fn add(&mut self, part: Vec<u8>) -> impl Future<Output = Result<(), RunError>> + Send;

    /// Appends the last part and completes the file.
    fn finish(self, last: Vec<u8>) -> impl Future<Output = Result<(), RunError>> + Send;

    /// Discards the uploaded parts; no file is created.
    fn abandon(self) -> impl Future<Output = ()> + Send;
}

/// Outcome of cutting one payload into chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Success: all chunks are stored and all errors recorded. If any item is in error, there is a
    /// report, whose URI the caller adds to the seal.
    Cut(Seal),
    /// Failure because the payload is unusable. `stored` is the number of chunks already uploaded,
    /// which can be discarded; `errors_omitted` is the number of items in error found that the
    /// database does not list.
    Unusable { why: PayloadFault, errors_omitted: u64, stored: u32 },
}

/// Cuts a whole payload into chunks. Unpacking, cutting and compressing have one thread each, and
/// run in parallel if there are several processors. The result is the same either way.
///
/// # Errors
/// If the source or the output fails. The next run stores everything again.
pub async fn run(spec: CutSpec, source: &mut impl Source, output: &impl Output) -> Result<Outcome, RunError> {
    let (frames_in, frames) = channel(FRAMES);
    let (to_cut_in, to_cut) = channel(WINDOWS);
    let (emptied_in, emptied) = channel(WINDOWS);
    let (to_compress_in, to_compress) = channel(CHUNKS);
    let (to_store_in, to_store) = channel(CHUNKS);
    let (parts_in, parts) = channel(PARTS);
    let max_bytes = spec.max_bytes;
    let unpacking = spawn_blocking(move || unpack(max_bytes, frames, &to_cut_in, emptied));
    let cutting = spawn_blocking(move || cut(spec, to_cut, &emptied_in, &to_compress_in, &parts_in));
    let packing = spawn_blocking(move || pack(to_compress, &to_store_in));
    let gathered =
        try_join3(feed(source, frames_in), gather(to_store, output), deliver(parts, output.report()));
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

/// Reads the payload as S3 delivers it, and sends it to the unpacking thread, until the payload
/// ends or the thread is gone.
async fn feed(source: &mut impl Source, frames: Sender<Bytes>) -> Result<(), RunError> {
    while let Some(bytes) = source.next().await? {
        if frames.send(bytes).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// Appends the parts of the error report to its file, until there are no more.
async fn deliver<F: ReportFile>(mut parts: Receiver<Vec<u8>>, mut file: F) -> Result<F, RunError> {
    while let Some(part) = parts.recv().await {
        file.add(part).await?;
    }
    Ok(file)
}

/// Message from the unpacking thread to the cutting thread.
enum ToCut {
    /// Next bytes of the payload's decoded content.
    Window(Vec<u8>),
    End(Result<ContentDigest, PayloadFault>),
}

/// Unpacks the frames of a payload (bytes as S3 delivers them) to windows (parts of its content),
/// until the frames end or the receiver is gone. Windows from `emptied`, which the cutter has
/// finished with, are reused: on Lambda, new memory of their size would come from the system page
/// by page each time (`MALLOC_MMAP_THRESHOLD_` in the template).
fn unpack(
    max_bytes: u64,
    mut frames: Receiver<Bytes>,
    to_cut: &Sender<ToCut>,
    mut emptied: Receiver<Vec<u8>>,
) {
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
                if to_cut.blocking_send(ToCut::Window(full)).is_err() {
                    return;
                }
            }
        }
    }
    let end = fault.map_or_else(|| content.finish(&mut window), Err);
    // If the last window was received, its receiver also waits for the end.
    if to_cut.blocking_send(ToCut::Window(window)).is_ok() {
        drop(to_cut.blocking_send(ToCut::End(end)));
    }
}

/// Message from the cutting thread to the compressing thread.
enum ToCompress {
    Chunk(Chunk),
    Errors(Vec<ItemError>),
}

/// Cuts the decoded content, which arrives piece by piece, into chunks and items in error. Returns
/// `None` if the pieces stop before the content's end, or if a receiver is gone. For an unusable
/// payload, returns the reason and the number of items in error that the database does not list.
fn cut(
    spec: CutSpec,
    mut to_cut: Receiver<ToCut>,
    emptied: &Sender<Vec<u8>>,
    to_compress: &Sender<ToCompress>,
    parts: &Sender<Vec<u8>>,
) -> Option<Result<(Seal, Report), (PayloadFault, u64)>> {
    let mut cutter = Cutter::new(spec);
    loop {
        let ended = match to_cut.blocking_recv()? {
            ToCut::Window(mut window) => {
                let taken = cutter.take(&window);
                window.clear();
                // It is freed if nobody fills it any more.
                drop(emptied.try_send(window));
                taken.map(|()| None)
            }
            ToCut::End(whole) => whole.and_then(|whole| cutter.end(&whole).map(|()| Some(whole))),
        };
        match ended {
            Ok(None) => {
                forward(cutter.chunks(), pages(cutter.errors()), to_compress)?;
                if let Some(part) = cutter.report_part() {
                    parts.blocking_send(part).ok()?;
                }
            }
            Ok(Some(whole)) => {
                let End { chunks, errors, report, cut } = cutter.finish(whole);
                forward(chunks, errors.chunks(ERROR_PAGE).map(<[_]>::to_vec), to_compress)?;
                return Some(Ok((cut, report)));
            }
            Err(why) => {
                let errors = std::mem::take(cutter.errors());
                forward(cutter.chunks(), errors.chunks(ERROR_PAGE).map(<[_]>::to_vec), to_compress)?;
                return Some(Err((why, cutter.errors_omitted())));
            }
        }
    }
}

fn forward(
    chunks: Vec<Chunk>,
    errors: impl Iterator<Item = Vec<ItemError>>,
    to_compress: &Sender<ToCompress>,
) -> Option<()> {
    let all = chunks.into_iter().map(ToCompress::Chunk).chain(errors.map(ToCompress::Errors));
    for one in all {
        to_compress.blocking_send(one).ok()?;
    }
    Some(())
}

/// Removes full pages of `ERROR_PAGE` items from the front of the error list, and returns them.
fn pages(errors: &mut Vec<ItemError>) -> impl Iterator<Item = Vec<ItemError>> {
    std::iter::from_fn(|| (errors.len() >= ERROR_PAGE).then(|| errors.drain(..ERROR_PAGE).collect()))
}

/// Message from the compressing thread: a chunk's file to store, or errors to record.
enum ToStore {
    File { index: u32, items: u32, cnpjs: Vec<Cnpj>, file: Vec<u8> },
    Errors(Vec<ItemError>),
}

/// Encodes chunks as files and passes errors on, until the messages end or the receiver is gone.
fn pack(mut to_compress: Receiver<ToCompress>, to_store: &Sender<ToStore>) -> io::Result<()> {
    while let Some(one) = to_compress.blocking_recv() {
        let one = match one {
            ToCompress::Chunk(chunk) => {
                let file = encode(&chunk)?;
                ToStore::File { index: chunk.index, items: chunk.items, cnpjs: chunk.cnpjs(), file }
            }
            ToCompress::Errors(errors) => ToStore::Errors(errors),
        };
        if to_store.blocking_send(one).is_err() {
            break;
        }
    }
    Ok(())
}

/// Stores chunk files and records errors as they come, and returns the list of chunks when all are
/// stored.
async fn gather(mut to_store: Receiver<ToStore>, output: &impl Output) -> Result<Vec<SealedChunk>, RunError> {
    let mut storing = Storing::default();
    while let Some(one) = to_store.recv().await {
        match one {
            ToStore::File { index, items, cnpjs, file } => {
                let first_cnpj = *cnpjs.first().ok_or("a chunk has no product")?;
                let uri = output.uri(index);
                storing.add(SealedChunk { index, uri, items, first_cnpj, cnpjs }, file, output).await?;
            }
            ToStore::Errors(errors) => output.record(&errors).await?,
        }
    }
    storing.finish().await
}

/// Uploads of a payload's chunk files in progress, and the list of all its chunks so far.
#[derive(Default)]
struct Storing {
    tasks: JoinSet<Result<usize, RunError>>,
    bytes: usize,
    chunks: Vec<SealedChunk>,
}

impl Storing {
    /// Begins to store a chunk's file, after waiting until the limits of concurrent uploads allow
    /// it.
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

    /// Waits until one of the uploads is complete; returns false if there is none.
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
