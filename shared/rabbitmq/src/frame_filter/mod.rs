//! What stands between the broker's bytes and the client library's parser. AMQP lets a short string
//! hold any bytes and a table nest to any depth; the library wants UTF-8 and recurses. A frame that
//! it cannot parse kills the connection without failing the call that waits for it, and the message
//! is the next one's problem: one publisher's binary correlation id would block a queue for good.
//! So such frames are rewritten into what the library can read.
//!
//! It also bounds what the library holds: of a message that exceeds the [`Intake`] only the
//! beginning passes, and what comes after it is dropped here. A message that the broker returns
//! loses its body, which nobody reads.

mod noticed;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use crate::content_header::{self, Place};
use crate::intake::Admission;

pub(crate) use noticed::{Noticed, Shortage};

const METHOD: u8 = 1;
const CONTENT_HEADER: u8 = 2;
const BODY: u8 = 3;
const FRAME_END: u8 = 0xCE;

/// A frame's type, channel and size.
const FRAME_HEADER: usize = 7;

/// The largest frame that either side may send, in bytes: RabbitMQ's default. The library keeps
/// room for 64 of them, so a broker may not choose another size.
pub(crate) const FRAME_MAX: u32 = 131_072;

/// The class and the method of what a message's content follows.
const BASIC_RETURN: [u8; 4] = [0, 60, 0, 50];
const BASIC_DELIVER: [u8; 4] = [0, 60, 0, 60];
const BASIC_GET_OK: [u8; 4] = [0, 60, 0, 71];

/// What the content that comes next on a channel belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// A delivery with this tag.
    Delivery(u64),
    Returned,
    /// Its bodies are dropped, because its header said that it has none.
    Hollow,
    /// The library knows nothing of it.
    Dropped,
}

/// How a frame's rest is treated, which is too long to be gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Passes,
    IsDropped,
}

/// Follows the frames of an incoming AMQP stream.
pub(crate) struct FrameFilter {
    noticed: Arc<Noticed>,
    /// The beginning of a frame that has not come in full.
    partial: Vec<u8>,
    /// How many bytes are left of a frame that is not gathered.
    left: usize,
    rest: Rest,
    /// By channel, of which the broker may use 65,535.
    contents: HashMap<u16, Content>,
    /// By channel, of the delivery whose content comes next: exchange and routing key where they
    /// are not text. The content's header takes them along.
    places: HashMap<u16, Place>,
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
            contents: HashMap::new(),
            places: HashMap::new(),
            ready: Vec::new(),
            taken: 0,
        }
    }

    /// Takes bytes that came from the broker.
    ///
    /// # Errors
    /// When a frame is larger than was agreed. Nothing that comes after it can be read.
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

    /// Gathers the next frame, or its header where that decides, and gives back the bytes after it.
    fn gather<'a>(&mut self, bytes: &'a [u8]) -> io::Result<&'a [u8]> {
        if self.partial.is_empty()
            && let Some((frame, rest)) = bytes.split_at_checked(wanted(bytes)?)
        {
            self.finish(frame);
            return Ok(rest);
        }
        let missing = wanted(&self.partial)?.saturating_sub(self.partial.len()).min(bytes.len());
        let (mine, rest) = bytes.split_at(missing);
        self.partial.extend_from_slice(mine);
        if self.partial.len() >= wanted(&self.partial)? {
            let mut frame = std::mem::take(&mut self.partial);
            self.finish(&frame);
            frame.clear();
            self.partial = frame;
        }
        Ok(rest)
    }

    /// Passes a frame on or drops it; of one that is not gathered, this decides for its rest.
    fn finish(&mut self, frame: &[u8]) {
        self.left = frame_length(frame).unwrap_or_default().saturating_sub(frame.len());
        let start = self.ready.len();
        self.rest = match frame.first() {
            Some(&METHOD) => self.finish_method(frame),
            Some(&CONTENT_HEADER) => self.finish_content_header(frame),
            Some(&BODY) if self.content(frame).is_some_and(Content::has_no_bodies) => Rest::IsDropped,
            _ => self.pass(frame),
        };
        self.noticed.greet(|| self.ready.get(start..).unwrap_or_default().to_vec());
    }

    fn finish_method(&mut self, frame: &[u8]) -> Rest {
        let Some(arguments) = payload(frame) else { return self.pass(frame) };
        if channel(frame) == 0 {
            self.noticed.note_connection(arguments);
        }
        let content = if arguments.starts_with(&BASIC_RETURN) {
            self.noticed.note_return();
            Some(Content::Returned)
        } else {
            delivery_tag(arguments).map(|tag| match self.noticed.intake().is_closed() {
                true => Content::Dropped,
                false => Content::Delivery(tag),
            })
        };
        let channel = channel(frame);
        match content {
            Some(content) => self.contents.insert(channel, content),
            None => self.contents.remove(&channel),
        };
        if content == Some(Content::Dropped) {
            return Rest::IsDropped;
        }
        let start = self.ready.len();
        self.ready.extend_from_slice(frame);
        if let Some(arguments) = self.ready.get_mut(start..).and_then(payload_mut) {
            let place = make_method_readable(arguments);
            self.places.remove(&channel);
            if matches!(content, Some(Content::Delivery(_))) && place != Place::default() {
                self.places.insert(channel, place);
            }
        }
        Rest::Passes
    }

    fn finish_content_header(&mut self, frame: &[u8]) -> Rest {
        let content = self.content(frame);
        if content == Some(Content::Dropped) {
            return Rest::IsDropped;
        }
        let Some(header) = payload(frame) else { return self.pass(frame) };
        let place = self.places.remove(&channel(frame));
        let read = content_header::read(header, place.as_ref());
        let rewritten = match content {
            Some(Content::Delivery(tag))
                if self.noticed.intake().admit(tag, read.weight) == Admission::Hollow =>
            {
                self.contents.insert(channel(frame), Content::Hollow);
                Some(content_header::hollow(header, &read))
            }
            Some(Content::Returned) => {
                self.contents.insert(channel(frame), Content::Hollow);
                Some(content_header::without_body(read.rewritten.as_deref().unwrap_or(header)))
            }
            _ => read.rewritten,
        };
        match rewritten {
            None => self.pass(frame),
            Some(rewritten) => self.pass(&rebuilt(frame, &rewritten)),
        }
    }

    fn pass(&mut self, frame: &[u8]) -> Rest {
        self.ready.extend_from_slice(frame);
        Rest::Passes
    }

    fn content(&self, frame: &[u8]) -> Option<Content> {
        self.contents.get(&channel(frame)).copied()
    }

    /// Moves what is ready into `buf` and says how much that was.
    pub(crate) fn take(&mut self, buf: &mut [u8]) -> usize {
        let rest = self.ready.get(self.taken..).unwrap_or_default();
        let length = rest.len().min(buf.len());
        if let (Some(from), Some(to)) = (rest.get(..length), buf.get_mut(..length)) {
            to.copy_from_slice(from);
        }
        self.taken += length;
        if self.taken == self.ready.len() {
            self.ready.clear();
            self.taken = 0;
        }
        length
    }
}

impl Content {
    fn has_no_bodies(self) -> bool {
        matches!(self, Self::Hollow | Self::Dropped)
    }
}

/// How much of the frame that `bytes` begin with is needed before it can be judged. What is no
/// frame at all passes, so that the library says what it is.
fn wanted(bytes: &[u8]) -> io::Result<usize> {
    let (Some(kind), Some(length)) = (bytes.first(), frame_length(bytes)) else { return Ok(FRAME_HEADER) };
    let fits = u32::try_from(length).is_ok_and(|length| length <= FRAME_MAX);
    match *kind {
        METHOD | CONTENT_HEADER if fits => Ok(length),
        METHOD | CONTENT_HEADER | BODY if !fits => {
            let detail = format!("a frame of {length} bytes came, where {FRAME_MAX} were agreed");
            Err(io::Error::new(io::ErrorKind::InvalidData, detail))
        }
        _ => Ok(FRAME_HEADER),
    }
}

/// The whole length of the frame that `bytes` begin with, its end octet included.
fn frame_length(bytes: &[u8]) -> Option<usize> {
    let [_, _, _, size @ ..] = bytes.first_chunk::<FRAME_HEADER>()?;
    usize::try_from(u32::from_be_bytes(*size)).ok()?.checked_add(FRAME_HEADER + 1)
}

fn channel(frame: &[u8]) -> u16 {
    match frame {
        [_, high, low, ..] => u16::from_be_bytes([*high, *low]),
        _ => 0,
    }
}

fn payload(frame: &[u8]) -> Option<&[u8]> {
    frame.get(FRAME_HEADER..frame.len().checked_sub(1)?)
}

fn payload_mut(frame: &mut [u8]) -> Option<&mut [u8]> {
    let end = frame.len().checked_sub(1)?;
    frame.get_mut(FRAME_HEADER..end)
}

/// The tag of the delivery that a method begins, if it begins one.
fn delivery_tag(arguments: &[u8]) -> Option<u64> {
    let (method, rest) = arguments.split_first_chunk::<4>()?;
    let rest = match *method {
        BASIC_GET_OK => rest,
        BASIC_DELIVER => {
            let (consumer, rest) = rest.split_first()?;
            rest.get(usize::from(*consumer)..)?
        }
        _ => return None,
    };
    Some(u64::from_be_bytes(*rest.first_chunk()?))
}

/// `frame` with another payload.
fn rebuilt(frame: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut rebuilt = frame.get(..3).unwrap_or_default().to_vec();
    rebuilt.extend(u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes());
    rebuilt.extend_from_slice(payload);
    rebuilt.push(FRAME_END);
    rebuilt
}

/// A part of a method's arguments.
#[derive(Clone, Copy)]
enum Field {
    Skip(usize),
    Text,
    Exchange,
    RoutingKey,
}

/// Where others' bytes may stand in a method: an exchange or routing key, or a text that the broker
/// cut to length.
fn foreign_fields(method: [u8; 4]) -> &'static [Field] {
    use Field::{Exchange, RoutingKey, Skip, Text};
    let [_, class, _, method] = method;
    match (class, method) {
        // connection.close and channel.close
        (10, 50) | (20, 40) => &[Skip(2), Text],
        // connection.blocked
        (10, 60) => &[Text],
        // basic.return
        (60, 50) => &[Skip(2), Text, Exchange, RoutingKey],
        // basic.deliver
        (60, 60) => &[Text, Skip(9), Exchange, RoutingKey],
        // basic.get-ok
        (60, 71) => &[Skip(9), Exchange, RoutingKey],
        _ => &[],
    }
}

/// Replaces what is not UTF-8 by question marks, and says what exchange and routing key were.
fn make_method_readable(payload: &mut [u8]) -> Place {
    let mut place = Place::default();
    let Some((method, mut rest)) = payload.split_first_chunk_mut::<4>() else { return place };
    for field in foreign_fields(*method) {
        let length = match field {
            Field::Skip(length) => *length,
            Field::Text | Field::Exchange | Field::RoutingKey => {
                let Some((length, tail)) = rest.split_first_mut() else { return place };
                rest = tail;
                usize::from(*length)
            }
        };
        let Some((part, tail)) = rest.split_at_mut_checked(length) else { return place };
        rest = tail;
        if matches!(field, Field::Skip(_)) || std::str::from_utf8(part).is_ok() {
            continue;
        }
        match field {
            Field::Exchange => place.exchange = Some(part.to_vec()),
            Field::RoutingKey => place.routing_key = Some(part.to_vec()),
            Field::Text | Field::Skip(_) => {}
        }
        make_utf8(part);
    }
    place
}

fn make_utf8(text: &mut [u8]) {
    while let Err(error) = std::str::from_utf8(text) {
        match text.get_mut(error.valid_up_to()) {
            Some(byte) => *byte = b'?',
            None => return,
        }
    }
}

#[cfg(test)]
mod tests;
