use amq_protocol::frame::parsing::parse_frame;
use amq_protocol::frame::{AMQPFrame, gen_frame};
use lapin::protocol::{AMQPClass, basic};
use proptest::prelude::*;

use super::*;

mod sizes;

fn filtered(stream: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut filter = FrameFilter::new(Arc::default());
    let mut out = Vec::new();
    let mut rest = stream;
    for cut in cuts.iter().copied().chain([stream.len()]) {
        let (now, later) = rest.split_at(cut.min(rest.len()));
        rest = later;
        if filter.push(now).is_err() {
            break;
        }
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

fn rebuilt(start: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame::write(&mut frame, start, payload);
    frame
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
    filter.push(start).unwrap();
    assert_eq!(noticed.returns(), 0);
    filter.push(end).unwrap();
    assert_eq!(noticed.returns(), 1);
    filter.push(&frame).unwrap();
    assert_eq!(noticed.returns(), 2);
}

#[test]
fn the_broker_says_why_it_blocks_a_connection_and_that_it_reads_again() {
    let noticed = Arc::new(Noticed::default());
    let mut filter = FrameFilter::new(Arc::clone(&noticed));
    let method = |payload: &[u8]| rebuilt(&[METHOD, 0, 0], payload);
    let blocked = |reason: &[u8]| {
        let length = u8::try_from(reason.len()).unwrap();
        method(&[&[0, 10, 0, 60, length], reason].concat())
    };
    let cases = [
        (blocked(b"low on memory"), Some(Shortage::Memory)),
        (blocked(b"low on disk"), Some(Shortage::Disk)),
        (method(&[0, 10, 0, 61]), None),
        (blocked(b"low on memory & disk"), Some(Shortage::MemoryAndDisk)),
        (blocked(b"\xff"), Some(Shortage::Other)),
        (method(&[0, 10, 0, 61]), None),
    ];
    for (frame, expected) in cases {
        filter.push(&frame).unwrap();
        assert_eq!(noticed.blocked(), expected, "{frame:?}");
        let passed = all_of(&mut filter);
        assert!(parse_frame(passed.as_slice()).is_ok_and(|(rest, _)| rest.is_empty()), "{passed:?}");
    }
    // A text shorter than its announced length, and no argument at all.
    for arguments in [&[9, b'x'][..], &[]] {
        filter.push(&method(&[&[0, 10, 0, 60], arguments].concat())).unwrap();
        assert_eq!(noticed.blocked(), Some(Shortage::Other));
        filter.push(&method(&[0, 10, 0, 61])).unwrap();
    }
    // On another channel, the method does not concern the connection.
    filter.push(&rebuilt(&[METHOD, 0, 1], &[0, 10, 0, 60, 1, b'x'])).unwrap();
    assert_eq!(noticed.blocked(), None);
}

fn method(channel: u16, method: basic::AMQPMethod) -> Vec<u8> {
    let frame = AMQPFrame::Method(channel, AMQPClass::Basic(method));
    gen_frame(&frame)(Vec::new().into()).unwrap().into_inner().0
}

/// Builds the frames of a delivery: its method, content header and body.
fn delivery(tag: u64, body: &[u8]) -> Vec<u8> {
    let deliver = basic::Deliver {
        consumer_tag: "c".into(),
        delivery_tag: tag,
        redelivered: false,
        exchange: "".into(),
        routing_key: "q".into(),
    };
    [method(1, basic::AMQPMethod::Deliver(deliver)), content(body)].concat()
}

fn content(body: &[u8]) -> Vec<u8> {
    let size = u64::try_from(body.len()).unwrap().to_be_bytes();
    let header = [&[0, 60, 0, 0][..], &size, &[0, 0]].concat();
    let bodies = body.chunks(1_000).flat_map(|chunk| frame(BODY, chunk));
    frame(CONTENT_HEADER, &header).into_iter().chain(bodies).collect()
}

fn all_of(filter: &mut FrameFilter) -> Vec<u8> {
    let mut out = vec![0; 1_000_000];
    let length = filter.take(&mut out);
    out.truncate(length);
    out
}

#[test]
fn what_exceeds_the_intake_is_not_let_in() {
    let noticed = Arc::new(Noticed::default());
    let mut filter = FrameFilter::new(Arc::clone(&noticed));
    noticed.intake().bind(100_000);
    let (small, large) = (delivery(1, &[7; 10]), delivery(2, &[7; 60_000]));
    let after = frame(8, &[]);
    for piece in [small.as_slice(), &large, &large, &small, &after].concat().chunks(777) {
        filter.push(piece).unwrap();
    }
    let without_body = delivery(2, &[]);
    assert_eq!(all_of(&mut filter), [small.as_slice(), &without_body, &after].concat());
    assert!(noticed.intake().was_exceeded_by(2) && noticed.intake().is_closed());
    // The next fetch starts with a new limit.
    noticed.intake().bind(200_000);
    assert!(!noticed.intake().was_exceeded_by(2));
    filter.push(&large).unwrap();
    assert_eq!(all_of(&mut filter), large);
    noticed.intake().unbind();
    for _ in 0..10 {
        filter.push(&large).unwrap();
        assert_eq!(all_of(&mut filter), large);
    }
}

#[test]
fn many_small_messages_are_let_in_up_to_the_intake() {
    for budget in [50_000, 100_000, 200_000] {
        let noticed = Arc::new(Noticed::default());
        let mut filter = FrameFilter::new(Arc::clone(&noticed));
        noticed.intake().bind(budget);
        let stream: Vec<u8> = (1..=1_000).flat_map(|tag| delivery(tag, &[7; 10])).collect();
        filter.push(&stream).unwrap();
        let passed = all_of(&mut filter).len() / delivery(1, &[7; 10]).len();
        assert!((budget / 1_300..=budget / 1_024).contains(&passed), "{passed} of {budget} bytes");
    }
}

#[test]
fn a_message_that_comes_back_loses_its_body() {
    let mut filter = FrameFilter::new(Arc::default());
    let returned = basic::Return {
        reply_code: 312,
        reply_text: "NO_ROUTE".into(),
        exchange: "".into(),
        routing_key: "q".into(),
    };
    let returned = method(1, basic::AMQPMethod::Return(returned));
    filter.push(&[returned.clone(), content(&[7; 50_000])].concat()).unwrap();
    assert_eq!(all_of(&mut filter), [returned, content(&[])].concat());
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

#[test]
fn a_routing_key_that_is_not_text_goes_along_with_its_message_and_no_other() {
    let mut filter = FrameFilter::new(Arc::default());
    let plain = delivery(1, b"");
    let mut odd = plain.clone();
    let key = odd.windows(3).position(|bytes| bytes == [1, b'q', 0xCE]).unwrap() + 1;
    odd[key] = 0xff;
    filter.push(&[odd, plain.clone()].concat()).unwrap();
    let out = all_of(&mut filter);
    let (first, second) = out.split_at(out.len() - plain.len());
    assert_eq!(second, plain);
    assert_eq!(first[key], b'?');
    let moved = [&b"routing_keyx"[..], &[0, 0, 0, 1, 0xff]].concat();
    assert!(first.windows(moved.len()).any(|bytes| bytes == moved), "{first:?}");
}
