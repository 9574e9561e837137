//! Oracle for the filter between RabbitMQ's bytes and the AMQP client library. The library must be
//! able to read every message that leaves the filter, whatever other programs wrote into it. The
//! messages before and after it must pass unchanged.

use amq_protocol::frame::parsing::{parse_content_header, parse_frame};
use amq_protocol::frame::{AMQPContentHeader, AMQPFrame, gen_frame};
use amq_protocol::protocol::{AMQPClass, basic, connection};
use amq_protocol::types::AMQPValue;
use rabbitmq::parts::{Passed, passed};

use crate::windows;

/// Values of `frame_max` that a broker proposes, in bytes. 0 leaves the choice to the client, which
/// takes `LARGEST`.
const FRAME_MAXES: [u32; 5] = [4_096, 8_192, 0, 131_072, 1 << 20];
const SMALLEST: u32 = 4_096;
const LARGEST: u32 = 131_072;

/// Limits for the bytes of all messages that one fetch may receive; `None` for no limit. Each limit
/// admits at least a plain message.
const INTAKES: [Option<usize>; 4] = [None, Some(10_000), Some(200_000), Some(64 * 1024 * 1024)];

/// Maximum number of bytes of a content header that the filter reassembles from several frames.
const MOST_GATHERED: usize = 1024 * 1024;

const METHOD: u8 = 1;
const CONTENT_HEADER: u8 = 2;
const BODY: u8 = 3;
/// Number of bytes of an AMQP frame besides its payload: type, channel, size and end.
const AROUND: usize = 8;
/// Number of bytes of an AMQP content header before its properties: class, weight and body size.
const PRELUDE: usize = 12;
const HEADERS_FLAG: u16 = 1 << 13;

/// Name of the message header with the number of bytes of properties that the filter has moved to
/// the body.
const LENGTH: &str = "\0integrahub:length";

/// Checks the filter with a fuzz input. If its first byte is even, the input is a message that is
/// put between two plain ones, otherwise a stream of any bytes. The second byte chooses
/// `frame_max`, the third the fetch limit. Six more are the sizes of the blocks in which the filter
/// gets the stream. The rest is the message or the stream.
pub(crate) fn check(input: &[u8]) {
    let Some((&[kind, frame_max, intake, ref sizes @ ..], rest)) = input.split_first_chunk::<9>() else {
        return;
    };
    let frame_max = FRAME_MAXES[usize::from(frame_max) % FRAME_MAXES.len()];
    let intake = INTAKES[usize::from(intake) % INTAKES.len()];
    if kind % 2 == 0 {
        check_message(&Message::of(&mut Input(rest), agreed(frame_max)), frame_max, intake, sizes);
    } else {
        check_windows(&[tune(frame_max).as_slice(), rest].concat(), intake, sizes);
    }
}

/// Returns the frame size in bytes that client and broker agree on if the broker proposes
/// `frame_max`.
fn agreed(frame_max: u32) -> usize {
    let agreed = if frame_max == 0 { LARGEST } else { frame_max.clamp(SMALLEST, LARGEST) };
    usize::try_from(agreed).expect("a size of memory")
}

/// Checks that the filter's result does not depend on the blocks (windows) in which it gets the
/// stream. Blocks are larger for longer streams, so that the check does not take long. Returns the
/// result.
fn check_windows(stream: &[u8], intake: Option<usize>, sizes: &[u8]) -> Passed {
    let outcome = passed([stream], intake);
    let sizes: Vec<usize> =
        sizes.iter().map(|size| usize::from(*size) * (1 + stream.len() / 4_096)).collect();
    let again = passed(windows(stream, &sizes), intake);
    assert!(again.bytes == outcome.bytes, "windows change what passes");
    assert_eq!(again.is_exceeded, outcome.is_exceeded);
    assert_eq!(again.result.is_ok(), outcome.result.is_ok());
    outcome
}

fn check_message(message: &Message, frame_max: u32, intake: Option<usize>, sizes: &[u8]) {
    let tune = tune(frame_max);
    let (before, after) = (plain(1), plain(3));
    let stream = [&tune, &before, &message.frames, &after].map(Vec::as_slice).concat();
    let Passed { bytes, is_exceeded, result } = check_windows(&stream, intake, sizes);
    result.expect("all frames are of a message");
    let rest = bytes.strip_prefix(tune.as_slice()).expect("the proposal passes unchanged");
    let rest = rest.strip_prefix(before.as_slice()).expect("the message before passes unchanged");
    let largest = agreed(frame_max);
    if !is_exceeded {
        let rest = rest.strip_suffix(after.as_slice()).expect("the message after passes unchanged");
        let [arrived] = &arrived(rest, largest)[..] else { panic!("one message becomes several") };
        return message.is(arrived);
    }
    assert!(intake.is_some(), "an intake without a bound is exceeded");
    let mut arrived = arrived(rest, largest);
    let hollow = arrived.pop().expect("the fetch learns of what exceeded the intake");
    assert!(hollow.body.is_empty(), "{} bytes exceed the intake", hollow.body.len());
    match &arrived[..] {
        [] => assert!(!message.is_returned, "what came back counts towards no intake"),
        [arrived] => message.is(arrived),
        _ => panic!("something passes behind what exceeded the intake"),
    }
}

/// Reader of the unread rest of a fuzz input. After the end it returns zeros.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or_default()
    }

    fn short_string(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        self.0.split_off(..length).unwrap_or_default()
    }

    /// Reads a length: a small one, or one that differs from a limit by at most 128 bytes.
    fn length(&mut self, limits: &[usize]) -> usize {
        let choice = usize::from(self.byte());
        match choice.checked_sub(128) {
            None => choice,
            Some(limit) => limits[limit % limits.len()] - 128 + usize::from(self.byte()),
        }
    }
}

/// AMQP message in frames, with the variety that other programs may produce, made from a fuzz
/// input.
struct Message {
    frames: Vec<u8>,
    body: Vec<u8>,
    is_returned: bool,
}

impl Message {
    fn of(input: &mut Input<'_>, agreed: usize) -> Self {
        let method = input.byte() % 3;
        let channel = 1 + input.byte() % 2;
        let is_basic = input.byte() < 240;
        let method_frame = frame(METHOD, channel, &method_arguments(method, input));
        let body_length = input.length(&[agreed - AROUND, agreed, 2 * agreed]);
        let part = input.length(&[agreed - AROUND, agreed, 2 * agreed]).max(1 + body_length / 64);
        let body: Vec<u8> = (0..=250).cycle().take(body_length).collect();

        let mut header = vec![0, if is_basic { 60 } else { 10 }, 0, 0];
        header.extend(u64::try_from(body.len()).expect("64 bits").to_be_bytes());
        header.extend(properties(input, agreed));
        let header = frame(CONTENT_HEADER, channel, &header);
        let bodies = body.chunks(part).flat_map(|part| frame(BODY, channel, part));
        let frames = method_frame.into_iter().chain(header).chain(bodies).collect();
        Self { frames, body, is_returned: method == 2 }
    }

    /// Checks that the client library received this message with its body unchanged. Properties
    /// that were too large for a frame precede the body.
    fn is(&self, arrived: &Arrived) {
        if self.is_returned {
            return assert!(arrived.body.is_empty(), "what came back has a body");
        }
        let carried = arrived.carried();
        let (properties, body) = arrived.body.split_at_checked(carried).expect("as long as it says");
        assert!(body == self.body, "another body arrives");
        if carried > 0 {
            let read = parse_content_header(properties).map(|(rest, _)| rest.len());
            assert_eq!(read.ok(), Some(0), "the properties in the body cannot be read");
        }
    }
}

/// Returns the arguments of a message's method frame, in bytes. `method` is 0 for `basic.deliver`,
/// 1 for `basic.get-ok` and otherwise stands for `basic.return`.
fn method_arguments(method: u8, input: &mut Input<'_>) -> Vec<u8> {
    const TAG_AND_REDELIVERED: [u8; 9] = [0, 0, 0, 0, 0, 0, 0, 2, 0];
    let mut arguments = vec![0, 60, 0];
    let append = |arguments: &mut Vec<u8>, text: &[u8]| {
        arguments.push(u8::try_from(text.len()).expect("a short string"));
        arguments.extend_from_slice(text);
    };
    match method {
        0 => {
            arguments.push(60);
            append(&mut arguments, b"c");
            arguments.extend(TAG_AND_REDELIVERED);
        }
        1 => {
            arguments.push(71);
            arguments.extend(TAG_AND_REDELIVERED);
        }
        _ => {
            arguments.extend([50, 1, 56]);
            append(&mut arguments, input.short_string());
        }
    }
    append(&mut arguments, input.short_string());
    append(&mut arguments, input.short_string());
    if method == 1 {
        arguments.extend([0, 0, 0, 7]);
    }
    arguments
}

/// Returns message properties made from the rest of the input: any bytes, headers of any bytes, or
/// headers before a long one. The input chooses the size of the frame that they fill.
fn properties(input: &mut Input<'_>, agreed: usize) -> Vec<u8> {
    let form = input.byte() % 3;
    let size = input.length(&[agreed, 2 * agreed, agreed, MOST_GATHERED]);
    let filler = input.byte();
    let given = std::mem::take(&mut input.0);
    let long = |length| vec![filler; length];
    // Room behind the flags.
    let room = size.saturating_sub(AROUND + PRELUDE + 2 + given.len());
    if form == 0 {
        return [given, &long(room)].concat();
    }
    let room = room.saturating_sub(4);
    let table = if form == 1 {
        [given, &long(room)].concat()
    } else {
        let value = long(room.saturating_sub(7));
        [given, b"\x01kS", &length(&value), &value].concat()
    };
    [&HEADERS_FLAG.to_be_bytes()[..], &length(&table), &table].concat()
}

fn length(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).expect("32 bits").to_be_bytes()
}

fn frame(kind: u8, channel: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind, 0, channel][..], &length(payload), payload, &[0xCE]].concat()
}

fn written(frame: &AMQPFrame) -> Vec<u8> {
    gen_frame(frame)(Vec::new().into()).expect("the frame can be written").into_inner().0
}

fn tune(frame_max: u32) -> Vec<u8> {
    let tune = connection::Tune { channel_max: 2_047, frame_max, heartbeat: 60 };
    written(&AMQPFrame::Method(0, AMQPClass::Connection(connection::AMQPMethod::Tune(tune))))
}

/// Returns the frames of a delivered message that is small and valid, which the filter must pass on
/// unchanged.
fn plain(delivery_tag: u64) -> Vec<u8> {
    let deliver = basic::Deliver {
        consumer_tag: "c".into(),
        delivery_tag,
        redelivered: false,
        exchange: "".into(),
        routing_key: "q".into(),
    };
    let header = AMQPContentHeader {
        class_id: 60,
        body_size: 5,
        properties: basic::AMQPProperties::default().with_message_id("plain".into()),
    };
    [
        AMQPFrame::Method(1, AMQPClass::Basic(basic::AMQPMethod::Deliver(deliver))),
        AMQPFrame::Header(1, header),
        AMQPFrame::Body(1, b"plain".to_vec()),
    ]
    .iter()
    .flat_map(written)
    .collect()
}

/// Message that left the filter, as the AMQP client library assembles it from frames.
struct Arrived {
    header: AMQPContentHeader,
    body: Vec<u8>,
}

impl Arrived {
    /// Returns the number of bytes of properties that the filter put before the message's body.
    fn carried(&self) -> usize {
        let headers = self.header.properties.headers().as_ref();
        match headers.and_then(|headers| headers.inner().get(LENGTH)) {
            Some(AMQPValue::LongLongInt(length)) => usize::try_from(*length).expect("a length"),
            _ => 0,
        }
    }
}

/// Parses the filter's output as the AMQP client library does, and returns its messages. No frame
/// may be larger than `largest` bytes.
fn arrived(mut stream: &[u8], largest: usize) -> Vec<Arrived> {
    let mut next = || {
        let (rest, frame) = parse_frame(stream).ok()?;
        let size = stream.len() - rest.len();
        assert!(size <= largest, "a frame of {size} bytes");
        stream = rest;
        Some(frame)
    };
    let mut messages = Vec::new();
    while let Some(method) = next() {
        let AMQPFrame::Method(channel, AMQPClass::Basic(_)) = method else { panic!("{method:?}") };
        let Some(AMQPFrame::Header(of, header)) = next() else { panic!("a content header is missing") };
        assert_eq!((of, header.class_id), (channel, 60));
        let size = usize::try_from(header.body_size).expect("a size of memory");
        let mut body = Vec::new();
        while body.len() < size {
            let Some(AMQPFrame::Body(of, part)) = next() else { panic!("a body is not complete") };
            assert_eq!(of, channel);
            body.extend(part);
        }
        assert_eq!(body.len(), size);
        messages.push(Arrived { header, body });
    }
    assert!(stream.is_empty(), "the library cannot read {} bytes", stream.len());
    messages
}
