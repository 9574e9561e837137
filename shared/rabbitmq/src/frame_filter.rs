//! What stands between the broker's bytes and the client library's parser. AMQP lets a short string hold any bytes and
//! a table nest to any depth; the library wants UTF-8 and recurses. A frame that it cannot parse kills the connection
//! without failing the call that waits for it, and the message is the next one's problem: one publisher's binary
//! correlation id would block a queue for good. So such frames are rewritten into what the library can read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::content_header;

const METHOD: u8 = 1;
const CONTENT_HEADER: u8 = 2;
const FRAME_END: u8 = 0xCE;

/// A frame's type, channel and size.
const FRAME_HEADER: usize = 7;

/// Frames to rewrite are not larger than this; what is longer passes as it is.
const MAX_REWRITTEN: usize = 1024 * 1024;

/// The class and the method of `basic.return`.
const BASIC_RETURN: [u8; 4] = [0, 60, 0, 50];

/// What was noticed on the way.
#[derive(Debug, Default)]
pub(crate) struct Noticed {
    greeting: OnceLock<Vec<u8>>,
    returns: AtomicU64,
}

impl Noticed {
    /// The broker's first frame.
    pub(crate) fn greeting(&self) -> Option<&[u8]> {
        self.greeting.get().map(Vec::as_slice)
    }

    /// How many messages the broker has given back as unroutable. It counts before the library learns anything from the
    /// same or a later frame.
    pub(crate) fn returns(&self) -> u64 {
        self.returns.load(Ordering::Acquire)
    }
}

/// Follows the frames of an incoming AMQP stream.
pub(crate) struct FrameFilter {
    noticed: Arc<Noticed>,
    /// The beginning of a frame that has not come in full.
    partial: Vec<u8>,
    /// How many bytes still pass as they are.
    passing: usize,
    ready: Vec<u8>,
    taken: usize,
}

impl FrameFilter {
    pub(crate) fn new(noticed: Arc<Noticed>) -> Self {
        Self { noticed, partial: Vec::new(), passing: 0, ready: Vec::new(), taken: 0 }
    }

    /// Takes bytes that came from the broker.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let passing = self.passing.min(bytes.len());
            let (pass, rest) = bytes.split_at(passing);
            self.ready.extend_from_slice(pass);
            self.passing -= passing;
            bytes = self.gather(rest);
        }
    }

    /// Gathers the next frame, or its header where the rest may pass, and gives back the bytes after it.
    fn gather<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        if self.partial.is_empty()
            && let Some((frame, rest)) = bytes.split_at_checked(wanted(bytes))
        {
            self.finish(frame);
            return rest;
        }
        let missing = wanted(&self.partial).saturating_sub(self.partial.len()).min(bytes.len());
        let (mine, rest) = bytes.split_at(missing);
        self.partial.extend_from_slice(mine);
        if self.partial.len() >= wanted(&self.partial) {
            let mut frame = std::mem::take(&mut self.partial);
            self.finish(&frame);
            frame.clear();
            self.partial = frame;
        }
        rest
    }

    /// Passes a frame on, or its header where the rest of it passes as it is.
    fn finish(&mut self, frame: &[u8]) {
        self.passing = frame_length(frame).unwrap_or_default().saturating_sub(frame.len());
        let start = self.ready.len();
        self.ready.extend_from_slice(frame);
        if self.passing > 0 {
            return;
        }
        let frame = self.ready.get_mut(start..).unwrap_or_default();
        let kind = frame.first().copied();
        if let (Some(METHOD), Some(payload)) = (kind, payload(frame)) {
            if payload.starts_with(&BASIC_RETURN) {
                self.noticed.returns.fetch_add(1, Ordering::Release);
            }
            make_method_readable(payload);
        } else if let (Some(CONTENT_HEADER), Some(payload)) = (kind, payload(frame))
            && let Some(rewritten) = content_header::readable(payload)
        {
            let rebuilt = rebuilt(frame, &rewritten);
            self.ready.truncate(start);
            self.ready.extend_from_slice(&rebuilt);
        }
        if self.noticed.greeting.get().is_none() {
            let greeting = self.ready.get(start..).unwrap_or_default().to_vec();
            self.noticed.greeting.get_or_init(|| greeting);
        }
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

/// How much of the frame that `bytes` begin with is needed before it can be judged.
fn wanted(bytes: &[u8]) -> usize {
    match (bytes.first(), frame_length(bytes)) {
        (Some(&(METHOD | CONTENT_HEADER)), Some(length)) if length <= MAX_REWRITTEN => length,
        _ => FRAME_HEADER,
    }
}

/// The whole length of the frame that `bytes` begin with, its end octet included.
fn frame_length(bytes: &[u8]) -> Option<usize> {
    let [_, _, _, size @ ..] = bytes.first_chunk::<FRAME_HEADER>()?;
    usize::try_from(u32::from_be_bytes(*size)).ok()?.checked_add(FRAME_HEADER + 1)
}

fn payload(frame: &mut [u8]) -> Option<&mut [u8]> {
    let end = frame.len().checked_sub(1)?;
    frame.get_mut(FRAME_HEADER..end)
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
    ShortString,
}

/// Where others' bytes may stand in a method: an exchange or routing key, or a text that the broker cut to length.
fn foreign_fields(method: [u8; 4]) -> &'static [Field] {
    use Field::{ShortString, Skip};
    let [_, class, _, method] = method;
    match (class, method) {
        // connection.close and channel.close
        (10, 50) | (20, 40) => &[Skip(2), ShortString],
        // basic.return
        (60, 50) => &[Skip(2), ShortString, ShortString, ShortString],
        // basic.deliver
        (60, 60) => &[ShortString, Skip(9), ShortString, ShortString],
        // basic.get-ok
        (60, 71) => &[Skip(9), ShortString, ShortString],
        _ => &[],
    }
}

/// Replaces what is not UTF-8 by question marks. Nothing is lost that anyone reads here.
fn make_method_readable(payload: &mut [u8]) {
    let Some((method, mut rest)) = payload.split_first_chunk_mut::<4>() else { return };
    for field in foreign_fields(*method) {
        let length = match field {
            Field::Skip(length) => *length,
            Field::ShortString => {
                let Some((length, tail)) = rest.split_first_mut() else { return };
                rest = tail;
                usize::from(*length)
            }
        };
        let Some((part, tail)) = rest.split_at_mut_checked(length) else { return };
        if matches!(field, Field::ShortString) {
            make_utf8(part);
        }
        rest = tail;
    }
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
mod tests {
    use amq_protocol::frame::parsing::parse_frame;
    use amq_protocol::frame::{AMQPFrame, gen_frame};
    use lapin::protocol::{AMQPClass, basic};
    use proptest::prelude::*;

    use super::*;

    fn filtered(stream: &[u8], cuts: &[usize]) -> Vec<u8> {
        let mut filter = FrameFilter::new(Arc::default());
        let mut out = Vec::new();
        let mut rest = stream;
        for cut in cuts.iter().copied().chain([stream.len()]) {
            let (now, later) = rest.split_at(cut.min(rest.len()));
            rest = later;
            filter.push(now);
            let mut buf = vec![0; 7];
            loop {
                match filter.take(&mut buf) {
                    0 => break,
                    length => out.extend_from_slice(&buf[..length]),
                }
            }
        }
        out
    }

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        rebuilt(&[kind, 0, 1], payload)
    }

    #[test]
    fn messages_that_come_back_are_counted_before_anything_passes() {
        let noticed = Arc::new(Noticed::default());
        let mut filter = FrameFilter::new(Arc::clone(&noticed));
        let returned = basic::Return {
            reply_code: 312,
            reply_text: "NO_ROUTE".into(),
            exchange: "".into(),
            routing_key: "q".into(),
        };
        let frame = AMQPFrame::Method(1, AMQPClass::Basic(basic::AMQPMethod::Return(returned)));
        let frame = gen_frame(&frame)(Vec::new().into()).unwrap().into_inner().0;
        let (start, end) = frame.split_at(9);
        filter.push(start);
        assert_eq!(noticed.returns(), 0);
        filter.push(end);
        assert_eq!(noticed.returns(), 1);
        filter.push(&frame);
        assert_eq!(noticed.returns(), 2);
    }

    proptest! {
        #[test]
        fn frames_that_are_in_order_pass_unchanged_however_they_are_cut(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..8),
            cuts in prop::collection::vec(0_usize..40, 0..40),
        ) {
            let mut stream = Vec::new();
            for body in &bodies {
                let get_ok = AMQPFrame::Method(1, AMQPClass::Basic(basic::AMQPMethod::GetOk(basic::GetOk {
                    delivery_tag: 1,
                    redelivered: false,
                    exchange: "é".into(),
                    routing_key: "q".into(),
                    message_count: 3,
                })));
                stream.extend(gen_frame(&get_ok)(Vec::new().into()).unwrap().into_inner().0);
                stream.extend(frame(3, body));
                stream.extend(frame(8, &[]));
            }
            prop_assert_eq!(filtered(&stream, &cuts), stream);
        }

        #[test]
        fn routing_keys_of_any_bytes_become_readable(key in prop::collection::vec(any::<u8>(), 0..255)) {
            let mut payload = vec![0, 60, 0, 71];
            payload.extend([0; 8]);
            payload.extend([0, 0]);
            payload.push(u8::try_from(key.len()).unwrap());
            payload.extend(&key);
            payload.extend([0, 0, 0, 7]);
            let out = filtered(&frame(METHOD, &payload), &[3, 9]);
            let (rest, parsed) = parse_frame(out.as_slice()).unwrap();
            prop_assert!(rest.is_empty());
            let is_get_ok = matches!(
                parsed,
                AMQPFrame::Method(1, AMQPClass::Basic(basic::AMQPMethod::GetOk(got))) if got.message_count == 7
            );
            prop_assert!(is_get_ok);
        }

        #[test]
        fn no_bytes_make_the_filter_fail(
            stream in prop::collection::vec(any::<u8>(), 0..2_000),
            cuts in prop::collection::vec(0_usize..100, 0..20),
        ) {
            let _ = filtered(&stream, &cuts);
        }
    }
}
