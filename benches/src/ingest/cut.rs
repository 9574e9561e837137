//! Contenders in Rust for cutting a payload: the chunker's pipeline, and each indispensable part of
//! it alone. Each is a process that goes over a payload twice, and reports the cost of the second
//! time.

use std::hint::black_box;
use std::io::Write as _;

use bytes::Bytes;
use clap::ValueEnum;
use flate2::write::MultiGzDecoder;
use ingestion::chunk::frame;
use ingestion::product::{BatchStamp, ItemPlace};
use ingestion::split::{Format, ITEM_LIMIT, Piece, Splitter};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::catalogue::rules;
use super::chunks::{FRAME, Files, Stored, cut};
use crate::contender::serve;
use crate::cpu::{Stopwatch, Took};
use crate::error::Error;

/// Number of bytes that are parsed or compressed at a time.
const WINDOW: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Whole pipeline of the chunker, with the payload and the files of the chunks in memory
    Pipeline,
    /// Decompression of the payload
    Inflate,
    /// Splitting of the content, and parsing of every item into a product
    Parse,
    /// Compression of the content of the chunk files
    Compress,
}

/// Result of going over a payload once: its size, its items and the cost.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Pass {
    /// Size of the payload's decompressed content in bytes, whatever part of the work is measured.
    pub(super) bytes: u32,
    /// Number of items; `None` if the measured part does not look at items.
    pub(super) items: Option<u32>,
    #[serde(flatten)]
    pub(super) took: Took,
}

/// Runs the process that measures `part`. It reads the paths of payloads from its standard input.
pub(crate) async fn contend(part: Part) -> Result<(), Error> {
    serve(async |path: &str| {
        let payload = Bytes::from(std::fs::read(path)?);
        go_over(part, &payload, &inflated(&payload)?).await
    })
    .await
}

async fn go_over(part: Part, payload: &Bytes, content: &[u8]) -> Result<Pass, Error> {
    let stamp = BatchStamp::new(Timestamp::UNIX_EPOCH, Uuid::nil());
    let cut = async |files: &Files| cut(stamp, &mut Stored(payload.clone()), files).await;
    let (items, took) = match part {
        Part::Pipeline => {
            cut(&Files::default()).await?;
            let stopwatch = Stopwatch::start()?;
            let cut = cut(&Files::default()).await?;
            (Some(cut.items_parsed), stopwatch.stop()?)
        }
        Part::Inflate => (None, twice(|| inflate(payload, drop_window))?.1),
        Part::Parse => {
            let (items, took) = twice(|| parse(content))?;
            (Some(items), took)
        }
        Part::Compress => {
            let files = Files::default();
            let mut contents = Vec::new();
            for chunk in cut(&files).await?.chunks {
                contents.push(frame::content(&files.take(chunk.index)?)?);
            }
            (None, twice(|| contents.iter().try_for_each(|content| compress(content)))?.1)
        }
    };
    let bytes = u32::try_from(content.len())?;
    Ok(Pass { bytes, items: items.map(u32::try_from).transpose()?, took })
}

/// Runs `pass` twice, and returns the result and the cost of the second run.
fn twice<T>(pass: impl Fn() -> Result<T, Error>) -> Result<(T, Took), Error> {
    pass()?;
    let stopwatch = Stopwatch::start()?;
    Ok((pass()?, stopwatch.stop()?))
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

/// Parses every item, and returns the number of valid ones.
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
        splitter.feed(window, &mut take)?;
    }
    splitter.finish(&mut take)?;
    Ok(items)
}

fn compress(content: &[u8]) -> Result<(), Error> {
    let mut file = frame::encoder();
    for window in content.chunks(WINDOW) {
        file.write_all(window)?;
    }
    drop(black_box(file.finish()?));
    Ok(())
}
