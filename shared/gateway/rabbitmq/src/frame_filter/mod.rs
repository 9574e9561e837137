//! Filter between the broker's bytes and the client library's parser. AMQP lets a short string hold
//! any bytes and a table nest to any depth; the library expects UTF-8 and recurses. A frame that it
//! cannot parse kills the connection without failing the call that waits for it, and the message is
//! delivered again to the next request: one publisher's binary correlation id would block a queue
//! for good. So such frames are rewritten into what the library can read.
//!
//! A frame may also be larger than was agreed: AMQP cannot split a content header, which grows each
//! time the broker dead-letters the message, and other clients may agree on larger frames. Such a
//! content header is passed in the message's body, from which [`content_header::restore`] takes it,
//! and such a body in several frames. A program that reads a channel itself has no code that would
//! restore the headers. It gets the message without them, and with one header that names them as
//! missing.
//!
//! A patch of the library's parser cannot take the filter's place. Short strings are `String`s in
//! all of its types, so a patched parser would lose the bytes that responses show, and a move could
//! not tell that it cannot put the message again unchanged. Also, the memory limit needs the number
//! of a table's values before the library allocates them, so tables are read here in any case.
//!
//! The filter limits the memory of the library: of a message that exceeds the
//! [`Intake`](crate::intake::Intake) only the beginning passes, and everything after it is dropped
//! here. A message that the broker returns loses its body, which no code reads.

mod frame;
mod method;
mod noticed;
mod passed;

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::content_header::{self, ExaminedHeader, UnreadableRouting};
use crate::intake::Admission;

pub use noticed::Pulse;
pub(crate) use noticed::{Noticed, Shortage};
pub use passed::{Passed, passed};

const METHOD: u8 = 1;
const CONTENT_HEADER: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;

/// Maximum size in bytes of a frame in either direction: RabbitMQ's default. The client library
/// keeps buffers for 64 frames, so the broker may not choose a larger size.
pub(crate) const FRAME_MAX: u32 = 131_072;

/// Range of frame sizes that the broker may choose. AMQP prescribes the minimum.
const FRAME_MAX_RANGE: RangeInclusive<u32> = 4096..=FRAME_MAX;

/// Maximum size in bytes of a content header that is buffered. The size in memory of a message with
/// a larger one is unknown, so it counts as exceeding the connection's limit on deliveries (its
/// intake).
const MOST_GATHERED: usize = 1024 * 1024;

/// Kind of the content (header and body) that comes next on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// Content of the delivery with this tag.
    Delivery(u64),
    Returned,
    /// Content of a message that is passed on without its body: body frames are dropped, and the
    /// rewritten header announces a size of 0.
    WithoutBody,
    /// Content of a delivery of which no frame is passed on.
    Dropped,
}

/// Treatment of the unbuffered rest of a long frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Passes,
    IsDropped,
}

/// Body frame that is larger than the negotiated maximum, and is passed on in smaller frames.
struct Oversized {
    /// Type and channel of the frame: its first three bytes.
    start: Vec<u8>,
    /// Number of bytes of the payload that are still to be passed on.
    left: usize,
}

/// Filter of the frames that arrive on one AMQP connection.
pub(crate) struct FrameFilter {
    noticed: Arc<Noticed>,
    /// Start of a frame that has not arrived completely.
    partial: Vec<u8>,
    /// Number of bytes still to arrive of a frame that is not buffered.
    left: usize,
    rest: Rest,
    /// Body frame that is being passed on in smaller frames; `None` if there is no such frame.
    oversized: Option<Oversized>,
    /// Maximum size in bytes of a frame that the client library accepts.
    frame_max: usize,
    /// Kind of the content that is expected next, by channel. The broker may use 65,535 channels.
    contents: HashMap<u16, Content>,
    /// Exchange and routing key of the current delivery on each channel, if they are not valid
    /// UTF-8. The filter moves both into the delivery's content header.
    routings: HashMap<u16, UnreadableRouting>,
    ready: Vec<u8>,
    taken: usize,
}

impl FrameFilter {
    pub(crate) fn new(noticed: Arc<Noticed>) -> Self {
        Self {
            noticed,
            partial: Vec::new(),
            left: 0,
            rest: Rest::Passes,
            oversized: None,
            frame_max: in_bytes(FRAME_MAX),
            contents: HashMap::new(),
            routings: HashMap::new(),
            ready: Vec::new(),
            taken: 0,
        }
    }

    /// Filters bytes that the broker sent, and adds the result to the bytes for the client library.
    ///
    /// # Errors
    /// If a frame exceeds the negotiated maximum. The bytes after it cannot be read.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (mine, rest) = bytes.split_at(self.left.min(bytes.len()));
            if self.rest == Rest::Passes {
                self.ready.extend_from_slice(mine);
            }
            self.left -= mine.len();
            bytes = self.gather(rest)?;
        }
        Ok(())
    }

    /// Collects the next frame, or the part of it that is needed, and returns the bytes after it.
    fn gather<'a>(&mut self, bytes: &'a [u8]) -> io::Result<&'a [u8]> {
        if self.partial.is_empty()
            && let Some((frame, rest)) = bytes.split_at_checked(self.wanted(bytes)?)
        {
            self.finish(frame);
            return Ok(rest);
        }
        let missing = self.wanted(&self.partial)?.saturating_sub(self.partial.len()).min(bytes.len());
        let (mine, rest) = bytes.split_at(missing);
        self.partial.extend_from_slice(mine);
        if self.partial.len() >= self.wanted(&self.partial)? {
            let mut frame = std::mem::take(&mut self.partial);
            self.finish(&frame);
            frame.clear();
            frame.shrink_to(in_bytes(FRAME_MAX));
            self.partial = frame;
        }
        Ok(rest)
    }

    /// Returns how many bytes of the frame at the start of `bytes` are needed to decide about it.
    /// Bytes that are not a frame are passed on, so that the client library reports them.
    fn wanted(&self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(body) = &self.oversized {
            return Ok(body.left.min(self.most_payload()));
        }
        let (Some(kind), Some(length)) = (bytes.first(), frame::length(bytes)) else {
            return Ok(frame::HEADER);
        };
        match *kind {
            METHOD if length <= self.frame_max => Ok(length),
            CONTENT_HEADER if length <= MOST_GATHERED => Ok(length),
            CONTENT_HEADER => Ok(frame::HEADER + content_header::PRELUDE),
            // Messages have no such frames, so it cannot be split.
            METHOD | HEARTBEAT if length > self.frame_max => {
                let detail =
                    format!("received a frame of {length} bytes; the agreed maximum is {}", self.frame_max);
                Err(io::Error::new(io::ErrorKind::InvalidData, detail))
            }
            _ => Ok(frame::HEADER),
        }
    }

    /// Returns the maximum size in bytes of the payload of a frame that the client library accepts.
    fn most_payload(&self) -> usize {
        self.frame_max.saturating_sub(frame::HEADER + 1)
    }

    /// Passes a frame on, rewrites it or drops it. If only the start of the frame was buffered,
    /// also decides about the rest.
    fn finish(&mut self, frame: &[u8]) {
        if let Some(body) = self.oversized.take() {
            return self.finish_piece(body, frame);
        }
        self.left = frame::length(frame).unwrap_or_default().saturating_sub(frame.len());
        let start = self.ready.len();
        self.rest = match frame.first() {
            Some(&METHOD) => self.finish_method(frame),
            Some(&CONTENT_HEADER) => self.finish_content_header(frame),
            Some(&BODY) => self.finish_body(frame),
            _ => self.pass(frame),
        };
        self.noticed.greet(|| self.ready.get(start..).unwrap_or_default().to_vec());
    }

    fn finish_method(&mut self, frame: &[u8]) -> Rest {
        let Some(arguments) = frame::payload(frame) else { return self.pass(frame) };
        let channel = frame::channel(frame);
        if channel == 0 {
            self.noticed.note_connection(arguments);
            self.frame_max = method::proposed_frame_max(arguments).map_or(self.frame_max, agreed);
        }
        let content = if arguments.starts_with(&method::BASIC_RETURN) {
            self.noticed.note_return();
            Some(Content::Returned)
        } else {
            method::delivery_tag(arguments).map(|tag| match self.noticed.intake().is_closed() {
                true => Content::Dropped,
                false => Content::Delivery(tag),
            })
        };
        match content {
            Some(content) => self.contents.insert(channel, content),
            None => self.contents.remove(&channel),
        };
        if content == Some(Content::Dropped) {
            return Rest::IsDropped;
        }
        let start = self.ready.len();
        self.ready.extend_from_slice(frame);
        if let Some(arguments) = self.ready.get_mut(start..).and_then(frame::payload_mut) {
            let routing = method::make_readable(arguments);
            self.routings.remove(&channel);
            if matches!(content, Some(Content::Delivery(_))) && routing != UnreadableRouting::default() {
                self.routings.insert(channel, routing);
            }
        }
        Rest::Passes
    }

    fn finish_content_header(&mut self, frame: &[u8]) -> Rest {
        let content = self.content(frame);
        if content == Some(Content::Dropped) {
            return Rest::IsDropped;
        }
        let routing = self.routings.remove(&frame::channel(frame)).unwrap_or_default();
        let is_gathered = self.left == 0;
        let header = if is_gathered { frame::payload(frame) } else { frame.get(frame::HEADER..) };
        let header = header.unwrap_or_default();
        let examined = match is_gathered {
            true => content_header::examine(header, &routing),
            false => content_header::too_long(header, &routing),
        };
        let whole: Cow<'_, [u8]> = Cow::Borrowed(examined.rewritten.as_deref().unwrap_or(header));
        let fits = whole.len() <= self.most_payload();
        let is_carried = !fits && is_gathered && self.noticed.intake().is_bound();
        let short = || content_header::without_headers(header, &routing);
        match content {
            Some(Content::Delivery(tag))
                if !self.admits(tag, &examined, is_carried.then_some(whole.len())) =>
            {
                self.contents.insert(frame::channel(frame), Content::WithoutBody);
                let shown = if fits && content_header::is_light(&examined) { whole } else { short().into() };
                self.pass_payload(frame, &content_header::without_body(&shown));
            }
            Some(Content::Delivery(_)) if is_carried => {
                self.pass_payload(frame, &content_header::carrier(&whole));
                let body = [&[BODY][..], frame.get(1..3).unwrap_or_default()].concat();
                for piece in whole.chunks(self.most_payload()) {
                    self.pass_payload(&body, piece);
                }
            }
            Some(Content::Returned) => {
                self.contents.insert(frame::channel(frame), Content::WithoutBody);
                let shown = if fits { whole } else { short().into() };
                self.pass_payload(frame, &content_header::without_body(&shown));
            }
            _ if fits && examined.rewritten.is_none() => return self.pass(frame),
            _ if fits => self.pass_payload(frame, &whole),
            _ => self.pass_payload(frame, &short()),
        }
        Rest::IsDropped
    }

    /// True if the connection's limit on deliveries (its intake) admits the delivery with this tag.
    /// `carried` is the size in bytes of its content header, if the body carries that.
    fn admits(&self, tag: u64, examined: &ExaminedHeader, carried: Option<usize>) -> bool {
        let carried = carried.unwrap_or_default().saturating_mul(2);
        self.noticed.intake().admit(tag, examined.weight.saturating_add(carried)) == Admission::Whole
    }

    fn finish_body(&mut self, frame: &[u8]) -> Rest {
        if self.content(frame).is_some_and(Content::has_no_bodies) {
            return Rest::IsDropped;
        }
        if self.left <= self.most_payload() + 1 {
            return self.pass(frame);
        }
        let start = frame.get(..3).unwrap_or_default().to_vec();
        // Without the frame's end octet.
        self.oversized = Some(Oversized { start, left: self.left.saturating_sub(1) });
        self.left = 0;
        Rest::IsDropped
    }

    fn finish_piece(&mut self, mut body: Oversized, payload: &[u8]) {
        self.pass_payload(&body.start, payload);
        body.left = body.left.saturating_sub(payload.len());
        match body.left {
            0 => (self.left, self.rest) = (1, Rest::IsDropped),
            _ => self.oversized = Some(body),
        }
    }

    fn pass_payload(&mut self, frame: &[u8], payload: &[u8]) {
        frame::write(&mut self.ready, frame, payload);
    }

    fn pass(&mut self, frame: &[u8]) -> Rest {
        self.ready.extend_from_slice(frame);
        Rest::Passes
    }

    fn content(&self, frame: &[u8]) -> Option<Content> {
        self.contents.get(&frame::channel(frame)).copied()
    }

    /// Moves filtered bytes into `buf`, and returns their number.
    pub(crate) fn take(&mut self, buf: &mut [u8]) -> usize {
        let rest = self.ready.get(self.taken..).unwrap_or_default();
        let length = rest.len().min(buf.len());
        if let (Some(from), Some(to)) = (rest.get(..length), buf.get_mut(..length)) {
            to.copy_from_slice(from);
        }
        self.taken += length;
        if self.taken == self.ready.len() {
            self.ready.clear();
            self.ready.shrink_to(2 * in_bytes(FRAME_MAX));
            self.taken = 0;
        }
        length
    }
}

impl Content {
    fn has_no_bodies(self) -> bool {
        matches!(self, Self::WithoutBody | Self::Dropped)
    }
}

/// Returns the maximum frame size in bytes that is negotiated if the broker proposes `proposed`
/// bytes (0 means no limit), by the rule of the client library.
fn agreed(proposed: u32) -> usize {
    match proposed {
        0 => in_bytes(FRAME_MAX),
        _ => in_bytes(proposed.clamp(*FRAME_MAX_RANGE.start(), *FRAME_MAX_RANGE.end())),
    }
}

fn in_bytes(size: u32) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
