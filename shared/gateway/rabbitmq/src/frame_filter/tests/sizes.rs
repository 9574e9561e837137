//! Tests that the client library can parse what the frame filter passes on, for frames of every
//! type and of sizes around every limit.

use lapin::message::Delivery;
use lapin::protocol::connection;
use lapin::types::AMQPValue;

use super::*;

/// Frame sizes that brokers propose. The last one exceeds the client's maximum.
const FRAME_MAXES: [u32; 4] = [4_096, 8_192, FRAME_MAX, 1 << 20];

/// Returns frame sizes in bytes around each limit of the filter: the limit, one less and one more.
fn sizes(frame_max: usize) -> Vec<usize> {
    let limits = [frame_max, frame_max + 8, 2 * frame_max, MOST_GATHERED, 2 * MOST_GATHERED];
    limits.iter().flat_map(|limit| limit - 1..=limit + 1).collect()
}

/// Creates a filter for a connection on which the broker has proposed this frame size, and which
/// limits deliveries to `bound` bytes. Returns also the negotiated size.
fn filter(proposed: u32, bound: Option<usize>) -> (FrameFilter, Arc<Noticed>, usize) {
    let noticed = Arc::new(Noticed::default());
    if let Some(bound) = bound {
        noticed.intake().bind(bound);
    }
    let mut filter = FrameFilter::new(Arc::clone(&noticed));
    let tune = connection::Tune { channel_max: 2_047, frame_max: proposed, heartbeat: 60 };
    let tune = AMQPFrame::Method(0, AMQPClass::Connection(connection::AMQPMethod::Tune(tune)));
    filter.push(&gen_frame(&tune)(Vec::new().into()).unwrap().into_inner().0).unwrap();
    all_of(&mut filter);
    (filter, noticed, in_bytes(proposed.min(FRAME_MAX)))
}

/// Passes a stream through the filter in pieces that end within every part of a frame, and returns
/// the bytes for the client library.
fn pass(filter: &mut FrameFilter, stream: &[u8]) -> Vec<u8> {
    let (mut passed, mut buf) = (Vec::new(), vec![0; 4 * MOST_GATHERED]);
    for piece in stream.chunks(9_973) {
        filter.push(piece).unwrap();
        let length = filter.take(&mut buf);
        passed.extend_from_slice(&buf[..length]);
    }
    passed
}

/// Parses the messages of a stream, and checks that no frame exceeds `frame_max`.
fn messages(mut stream: &[u8], frame_max: usize) -> Vec<Delivery> {
    let mut messages: Vec<Delivery> = Vec::new();
    let mut missing = 0;
    let mut expects_header = false;
    while !stream.is_empty() {
        let (rest, frame) = parse_frame(stream).unwrap_or_else(|error| panic!("{error:?}"));
        let size = stream.len() - rest.len();
        assert!(size <= frame_max, "a frame of {size} bytes");
        stream = rest;
        match frame {
            AMQPFrame::Method(1, AMQPClass::Basic(_)) => {
                assert!(missing == 0 && !expects_header, "a message is not complete");
                expects_header = true;
                messages.push(Delivery::mock(1, "".into(), "q".into(), false, Vec::new()));
            }
            AMQPFrame::Header(1, header) => {
                assert!(std::mem::take(&mut expects_header), "a content header of no message");
                assert_eq!(header.class_id, 60);
                missing = usize::try_from(header.body_size).unwrap();
                messages.last_mut().unwrap().properties = header.properties;
            }
            AMQPFrame::Body(1, body) => {
                missing = missing.checked_sub(body.len()).expect("no more than the header says");
                messages.last_mut().unwrap().data.extend(body);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(missing == 0 && !expects_header, "a message is not complete");
    messages
}

/// Builds a header table that makes the frame of its content header `frame` bytes long. If
/// `is_readable` is false, the name of its header is not UTF-8.
fn table(frame: usize, is_readable: bool) -> Vec<u8> {
    // Bytes of frame, class, weight, body size, flags, the table's length and the entry's.
    let overhead = 8 + 14 + 4 + 2 + 1 + 4;
    let value = vec![b'v'; frame - overhead];
    let name = if is_readable { b'k' } else { 0xff };
    [&[1, name, b'S'][..], &u32::try_from(value.len()).unwrap().to_be_bytes(), &value].concat()
}

/// Builds a message: the method, a content header with this table, and the body in frames of this
/// size.
fn message(method: &[u8], table: &[u8], body: &[u8], body_frame: usize) -> Vec<u8> {
    let mut header = vec![0, 60, 0, 0];
    header.extend(u64::try_from(body.len()).unwrap().to_be_bytes());
    header.extend((1_u16 << 13).to_be_bytes());
    header.extend(u32::try_from(table.len()).unwrap().to_be_bytes());
    header.extend(table);
    // Whole frames, because an iterator over so many bytes is slow without optimisation.
    let mut message = method.to_vec();
    frame::write(&mut message, &[CONTENT_HEADER, 0, 1], &header);
    for chunk in body.chunks(body_frame - 8) {
        frame::write(&mut message, &[BODY, 0, 1], chunk);
    }
    message
}

fn deliver() -> Vec<u8> {
    let whole = delivery(1, &[]);
    whole[..frame::length(&whole).unwrap()].to_vec()
}

fn header<'a>(message: &'a Delivery, name: &str) -> Option<&'a [u8]> {
    match message.properties.headers().as_ref()?.inner().get(name)? {
        AMQPValue::LongString(text) => Some(text.as_bytes()),
        AMQPValue::ByteArray(bytes) => Some(bytes.as_slice()),
        _ => None,
    }
}

#[test]
fn a_content_header_of_any_size_belongs_to_its_message_and_leaves_its_neighbours_alone() {
    const UNREADABLE: &str = "\0integrahub:headers";
    let small = delivery(2, b"small");
    for proposed in FRAME_MAXES {
        for (is_fetched, is_readable) in [(true, true), (true, false), (false, true), (false, false)] {
            let bound = is_fetched.then_some(64 * 1024 * 1024);
            let agreed = in_bytes(proposed.min(FRAME_MAX));
            // A moved property also takes more bytes than before.
            for size in sizes(agreed).into_iter().chain(agreed - 40..agreed) {
                let what = format!("{proposed} {is_fetched} {is_readable} {size}");
                let (mut filter, noticed, agreed) = filter(proposed, bound);
                let (table, body) = (table(size, is_readable), vec![7; 10_000]);
                let odd = message(&deliver(), &table, &body, agreed);
                let stream = [small.as_slice(), &odd, &small].concat();
                let mut messages = messages(&pass(&mut filter, &stream), agreed);
                assert_eq!(messages[0].data, b"small", "{what}");
                assert!(filter.partial.capacity() <= in_bytes(FRAME_MAX), "{what}");
                let may_pass = size + if is_readable { 0 } else { 30 } <= agreed;
                if is_fetched && size > MOST_GATHERED {
                    assert!(noticed.intake().was_exceeded_by(1), "{what}");
                    assert_eq!((messages.len(), messages[1].data.len()), (2, 0), "{what}");
                    continue;
                }
                assert_eq!(messages.len(), 3, "{what}");
                assert_eq!(messages[2].data, b"small", "{what}");
                let was_carried = content_header::restore(&mut messages[1]);
                assert_eq!(messages[1].data, body, "{what}");
                if is_fetched {
                    assert!(was_carried || size <= agreed, "{what}");
                    assert!(!(was_carried && may_pass), "{what}");
                } else {
                    assert!(!was_carried, "{what}");
                }
                match (is_fetched || may_pass, is_readable) {
                    (true, true) => assert_eq!(header(&messages[1], "k"), Some(&table[7..]), "{what}"),
                    (true, false) => {
                        assert_eq!(header(&messages[1], UNREADABLE), Some(&table[..]), "{what}");
                    }
                    (false, _) if size > agreed => {
                        assert_eq!(header(&messages[1], UNREADABLE), Some(&[][..]), "{what}");
                    }
                    (false, _) => {}
                }
            }
        }
    }
}

#[test]
fn a_message_over_the_intake_has_a_content_header_that_fits() {
    for proposed in FRAME_MAXES {
        let agreed = in_bytes(proposed.min(FRAME_MAX));
        for size in sizes(agreed) {
            let (mut filter, noticed, agreed) = filter(proposed, Some(10_000));
            let odd = message(&deliver(), &table(size, true), &[7; 10_000], agreed);
            let messages = messages(&pass(&mut filter, &odd), agreed);
            assert!(noticed.intake().was_exceeded_by(1), "{proposed} {size}");
            assert_eq!((messages.len(), messages[0].data.len()), (1, 0), "{proposed} {size}");
            assert!(messages[0].properties.headers().is_some(), "{proposed} {size}");
        }
    }
}

#[test]
fn a_message_that_comes_back_fits_whatever_its_size() {
    let returned = basic::Return {
        reply_code: 312,
        reply_text: "NO_ROUTE".into(),
        exchange: "".into(),
        routing_key: "q".into(),
    };
    let returned = method(1, basic::AMQPMethod::Return(returned));
    for proposed in FRAME_MAXES {
        for size in sizes(in_bytes(proposed.min(FRAME_MAX))) {
            let (mut filter, noticed, agreed) = filter(proposed, None);
            let odd = message(&returned, &table(size, true), &[7; 10_000], agreed);
            let messages = messages(&pass(&mut filter, &[odd, delivery(2, b"small")].concat()), agreed);
            assert_eq!((messages[0].data.as_slice(), messages[1].data.as_slice()), (&[][..], &b"small"[..]));
            assert_eq!(noticed.returns(), 1);
        }
    }
}

#[test]
fn a_body_frame_of_any_size_passes() {
    let pattern: Vec<u8> = (0..=250).collect();
    for proposed in FRAME_MAXES {
        for bound in [None, Some(64 * 1024 * 1024)] {
            let agreed = in_bytes(proposed.min(FRAME_MAX));
            for size in sizes(agreed) {
                let length = size - 8 + 5_000;
                let body = &pattern.repeat(length.div_ceil(pattern.len()))[..length];
                let (mut filter, _, agreed) = filter(proposed, bound);
                let odd = message(&deliver(), &table(100, true), body, size);
                let messages = messages(&pass(&mut filter, &[odd, delivery(2, b"small")].concat()), agreed);
                assert!(messages[0].data == body, "{proposed} {size}");
                assert_eq!(messages[1].data, b"small", "{proposed} {size}");
            }
        }
    }
}

#[test]
fn a_frame_of_no_message_that_is_larger_than_agreed_ends_the_stream() {
    for proposed in FRAME_MAXES {
        for kind in [METHOD, HEARTBEAT] {
            let (mut filter, _, agreed) = filter(proposed, None);
            let size = |frame: usize| u32::try_from(frame - 8).unwrap().to_be_bytes();
            let start = |frame| [&[kind, 0, 1][..], &size(frame)].concat();
            assert!(filter.push(&start(agreed + 1)).is_err(), "{kind}");
            let (mut filter, ..) = self::filter(proposed, None);
            assert!(filter.push(&start(agreed)).is_ok(), "{kind}");
        }
    }
}
