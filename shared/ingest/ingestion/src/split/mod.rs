//! Splitter that cuts a payload into the raw bytes of its items, in one pass. It is fed the payload
//! in *windows*: parts of any size, one after the other.
//!
//! The splitter finds items by their brackets and quotation marks, or by line feeds, and passes
//! them to the caller's *sink*. The sink parses each item, and refuses those that are not JSON:
//! such an item may hold others, because a stray quotation mark hides where it ends. The splitter
//! separates the items in its text as far as it can (`apart.rs`), and passes them to the sink one
//! by one. So a mistake costs the items next to it only if the places where they begin are unknown.
//! Then the sink gets them as one broken piece. The payload fails only if no boundary can be
//! trusted any more, and the error has the byte where that shows.
//!
//! An item within a window is passed on from there. Only an item that crosses windows is copied, up
//! to the size limit. So the limit bounds the memory, whatever the payload holds.
//!
//! ```
//! use ingestion::split::{Format, ITEM_LIMIT, InvalidJson, Piece, Splitter};
//!
//! let mut splitter = Splitter::new(Format::Array, ITEM_LIMIT);
//! let mut items = Vec::new();
//! let mut collect = |piece: Piece<'_>| {
//!     if let Piece::Item { bytes, .. } = piece {
//!         let item: serde_json::Value = serde_json::from_slice(bytes).map_err(|_| InvalidJson)?;
//!         items.push(item["PRODUCTID"].to_string());
//!     }
//!     Ok(())
//! };
//! splitter.feed(br#"[{"PRODUCTID": 1}, {"PRODU"#, &mut collect)?;
//! splitter.feed(br#"CTID": 2}]"#, &mut collect)?;
//! splitter.finish(&mut collect)?;
//! assert_eq!(items, ["1", "2"]);
//! # Ok::<(), ingestion::split::PayloadError>(())
//! ```

mod apart;
mod array;
mod block;
mod lines;
mod open_item;
mod value;

use array::ArraySplitter;
use lines::LineSplitter;
use open_item::OpenItem;

pub(crate) use apart::error_place;
pub(crate) use value::ValueScan;

/// Default maximum number of bytes of an item: 256 KiB, many times the size of a usual product.
pub const ITEM_LIMIT: usize = 256 * 1024;

const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Format of a payload, by the media type of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `application/json`: the payload is one array of items.
    Array,
    /// `application/x-ndjson`: each line has an item, and a broken line does not affect others.
    /// Lines may also end with a carriage return alone, and several objects may be on one line.
    Lines,
}

/// Piece of a payload that a [`Splitter`] finds: an item, or a text in place of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text within the size limit that should be an item.
    Item {
        /// Index of the item from 0, in the payload's order; blank lines do not count.
        index: u64,
        /// Offset of the item's first byte in the decoded payload.
        offset: u64,
        /// Bytes of the item, without surrounding white space.
        bytes: &'a [u8],
    },
    /// Text that is not JSON. It may contain several items that could not be separated.
    #[expect(missing_docs, reason = "the same as of an item")]
    Broken { index: u64, offset: u64, bytes: &'a [u8] },
    /// Item that exceeds the size limit, of which only the beginning was kept.
    #[expect(missing_docs, reason = "the same as of an item, its length, and its first bytes")]
    TooLarge { index: u64, offset: u64, length: u64, beginning: &'a [u8] },
}

/// Function that receives the pieces of a payload. It must return an error for a [`Piece::Item`]
/// that is not JSON. The splitter then passes the items that it can separate in that text, and the
/// rest of the text as [`Piece::Broken`]. The result for any other piece is ignored.
pub trait Sink: FnMut(Piece<'_>) -> Result<(), InvalidJson> {}

impl<F: FnMut(Piece<'_>) -> Result<(), InvalidJson>> Sink for F {}

/// True if a text begins as a JSON object does: with a brace, and then a member or the closing
/// brace.
#[must_use]
pub fn begins_an_object(text: &[u8]) -> bool {
    let mut significant = text.iter().filter(|byte| !is_white(**byte));
    significant.next() == Some(&b'{') && matches!(significant.next(), Some(b'"' | b'}'))
}

/// Error by which a [`Sink`] refuses an item that is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidJson;

/// Reason why a payload cannot be split any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault} at byte {offset}")]
pub struct PayloadError {
    /// Fault of the payload.
    pub fault: PayloadFault,
    /// Offset of the fault in the decoded payload, from 0; the payload's length if it ends too
    /// early.
    pub offset: u64,
}

/// Fault that prevents a payload from being split any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum PayloadFault {
    #[error("the payload is empty")]
    Empty,
    #[error("the payload is not an array of items")]
    NotAnArray,
    #[error("a comma or the array's end was expected")]
    Unexpected,
    #[error("an item was expected before this comma")]
    MissingItem,
    #[error("the last comma has no item after it")]
    TrailingComma,
    #[error("the payload breaks off")]
    Truncated,
    #[error("there is more after the array's end")]
    TrailingContent,
}

/// Splitter that finds the items of one payload, which it is fed in parts of any size.
#[derive(Debug)]
pub struct Splitter {
    inner: Inner,
    mark: Mark,
    /// Number of payload bytes fed so far.
    consumed: u64,
    failed: Option<PayloadError>,
}

#[derive(Debug)]
enum Inner {
    Array(ArraySplitter),
    Lines(LineSplitter),
}

/// Progress in recognizing a byte order mark at the payload's start.
#[derive(Clone, Copy, Debug)]
enum Mark {
    /// Number of bytes of the byte order mark seen so far, which are held back until it is
    /// complete.
    Seen(usize),
    Past,
}

impl Splitter {
    /// Creates a splitter for one payload whose items have at most `item_limit` bytes each.
    #[must_use]
    pub fn new(format: Format, item_limit: usize) -> Self {
        let open = OpenItem::new(format, item_limit);
        let inner = match format {
            Format::Array => Inner::Array(ArraySplitter::new(open)),
            Format::Lines => Inner::Lines(LineSplitter::new(open)),
        };
        Self { inner, mark: Mark::Seen(0), consumed: 0, failed: None }
    }

    /// Splits the next bytes of the payload, and passes each item that ends in them to `sink`.
    ///
    /// # Errors
    /// If the payload cannot be split any further. Every later call returns the same error. Items
    /// that were passed before are valid, but the payload as a whole is not.
    pub fn feed(&mut self, window: &[u8], sink: &mut impl Sink) -> Result<(), PayloadError> {
        self.check()?;
        let rest = self.after_mark(window, sink)?;
        self.feed_inner(rest, sink)
    }

    /// Ends the payload, and passes what is left of it to `sink`.
    ///
    /// # Errors
    /// If the payload ends too early, or is empty.
    pub fn finish(mut self, sink: &mut impl Sink) -> Result<(), PayloadError> {
        self.check()?;
        if let Mark::Seen(seen) = self.mark
            && seen < BYTE_ORDER_MARK.len()
        {
            self.mark = Mark::Past;
            let held = BYTE_ORDER_MARK.get(..seen).unwrap_or_default();
            self.feed_inner(held, sink)?;
        }
        let at = self.consumed;
        match self.inner {
            Inner::Array(array) => array.finish(at, sink),
            Inner::Lines(lines) => lines.finish(at, sink),
        }
    }

    fn check(&self) -> Result<(), PayloadError> {
        self.failed.map_or(Ok(()), Err)
    }

    /// Returns `window`, the next bytes of the payload, without the byte order mark that a payload
    /// may begin with. Splits bytes that were held back as a possible mark, and turn out to be
    /// content.
    fn after_mark<'w>(&mut self, window: &'w [u8], sink: &mut impl Sink) -> Result<&'w [u8], PayloadError> {
        let Mark::Seen(seen) = self.mark else { return Ok(window) };
        let expected = BYTE_ORDER_MARK.get(seen..).unwrap_or_default();
        let same = expected.iter().zip(window).take_while(|(mark, byte)| mark == byte).count();
        if same == expected.len() {
            self.mark = Mark::Past;
            self.consumed = u64::try_from(BYTE_ORDER_MARK.len()).unwrap_or(u64::MAX);
            return Ok(window.get(same..).unwrap_or_default());
        }
        if same == window.len() {
            self.mark = Mark::Seen(seen + same);
            return Ok(&[]);
        }
        // The bytes that were held back are not a mark, but content.
        self.mark = Mark::Past;
        self.feed_inner(BYTE_ORDER_MARK.get(..seen).unwrap_or_default(), sink)?;
        Ok(window)
    }

    fn feed_inner(&mut self, window: &[u8], sink: &mut impl Sink) -> Result<(), PayloadError> {
        let start = self.consumed;
        let result = match &mut self.inner {
            Inner::Array(array) => array.feed(start, window, sink),
            Inner::Lines(lines) => {
                lines.feed(start, window, sink);
                Ok(())
            }
        };
        self.consumed = start.saturating_add(length(window));
        self.failed = result.err();
        result
    }
}

/// Returns the length of a slice as a `u64`, the type of offsets.
fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// True if the byte is white space in JSON.
const fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[cfg(test)]
mod tests;
