use amq_protocol::frame::AMQPFrame;
use amq_protocol::frame::parsing::parse_frame;
use lapin::message::Delivery;
use lapin::types::AMQPValue;
use mq::HeaderValue;
use proptest::prelude::*;

use super::*;

fn parsed(payload: &[u8]) -> Option<BasicProperties> {
    let mut frame = vec![2, 0, 1];
    frame.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(payload);
    frame.push(0xCE);
    match parse_frame(frame.as_slice()) {
        Ok((_, AMQPFrame::Header(_, header))) => Some(header.properties),
        _ => None,
    }
}

fn rewritten(payload: &[u8]) -> Option<Vec<u8>> {
    examine(payload, &UnreadableRouting::default()).rewritten
}

/// Returns the bytes of the property `moved_name` from the header into which it was moved; `None`
/// if there is no such header.
fn bytes(properties: &BasicProperties, moved_name: &str) -> Option<Vec<u8>> {
    let mut headers = properties.headers().as_ref()?.inner().iter();
    let (_, value) = headers.find(|(name, _)| property_moved_to(name.as_str()) == Some(moved_name))?;
    match value {
        AMQPValue::ByteArray(bytes) => Some(bytes.as_slice().to_vec()),
        _ => None,
    }
}

fn short(bytes: &[u8]) -> Vec<u8> {
    [&[u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

/// Builds a content header with the properties in `flags`: `text` for each short string, and
/// `table`.
fn payload(flags: u16, text: &[u8], table: &[u8]) -> Vec<u8> {
    let mut payload = vec![0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5];
    payload.extend(flags.to_be_bytes());
    for (index, (_, kind)) in PROPERTIES.iter().enumerate() {
        if flags & (1 << (15 - index)) == 0 {
            continue;
        }
        match kind {
            Kind::ShortString => payload.extend(short(text)),
            Kind::Table => {
                payload.extend(u32::try_from(table.len()).unwrap().to_be_bytes());
                payload.extend(table);
            }
            Kind::Octet => payload.push(2),
            Kind::Timestamp => payload.extend(9_u64.to_be_bytes()),
        }
    }
    payload
}

proptest! {
    #[test]
    fn ids_of_any_bytes_arrive_as_they_are(
        flags in any::<u16>(),
        text in prop::collection::vec(any::<u8>(), 0..=255),
    ) {
        let flags = flags & 0xFFFC;
        let table = [&short(b"k")[..], b"t\x01"].concat();
        let original = payload(flags, &text, &table);
        let rewritten = rewritten(&original);
        if std::str::from_utf8(&text).is_ok() {
            prop_assert_eq!(rewritten, None);
            return Ok(());
        }
        let properties = parsed(rewritten.as_ref().unwrap_or(&original)).unwrap();
        for (index, (name, kind)) in PROPERTIES.iter().enumerate() {
            let is_moved = *kind == Kind::ShortString && flags & (1 << (15 - index)) != 0;
            prop_assert_eq!(bytes(&properties, name), is_moved.then(|| text.clone()));
        }
        let has_key = properties.headers().as_ref().is_some_and(|headers| headers.contains_key("k"));
        prop_assert_eq!(has_key, flags & HEADERS_FLAG != 0);
        prop_assert_eq!(*properties.timestamp(), (flags & (1 << 6) != 0).then_some(9));
        prop_assert_eq!(*properties.delivery_mode(), (flags & (1 << 12) != 0).then_some(2));
    }

    #[test]
    fn a_table_is_either_parsed_or_shown_as_bytes(table in prop::collection::vec(any::<u8>(), 0..60)) {
        let original = payload(HEADERS_FLAG, b"", &table);
        let properties = parsed(rewritten(&original).as_ref().unwrap_or(&original)).unwrap();
        let is_readable = table_is_readable(&table, 0, &mut 0);
        prop_assert_eq!(bytes(&properties, HEADERS), (!is_readable).then_some(table));
    }

    #[test]
    fn no_bytes_are_more_than_the_library_can_parse(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        is_basic in any::<bool>(),
        text in prop::collection::vec(any::<u8>(), 0..=255),
        end in prop::collection::vec(any::<u8>(), 0..2),
    ) {
        let flags = bytes.first_chunk().map_or(0, |flags| u16::from_be_bytes(*flags));
        let prelude = if is_basic { payload(flags, &text, &bytes) } else { Vec::new() };
        let bytes = [prelude, end, bytes].concat();
        let routing = UnreadableRouting { exchange: Some(text.clone()), routing_key: Some(text) };
        for routing in [&UnreadableRouting::default(), &routing] {
            let rewritten = examine(&bytes, routing).rewritten;
            prop_assert!(parsed(rewritten.as_ref().unwrap_or(&bytes)).is_some(), "{rewritten:?}");
            let short = without_headers(&bytes, routing);
            prop_assert!(parsed(&short).is_some() && short.len() + 8 <= 4096, "{}", short.len());
        }
    }
}

#[test]
fn properties_that_came_in_a_body_are_given_back() {
    let table = [&short(b"k")[..], b"S", &[0, 0, 0, 2], b"vw"].concat();
    let whole = payload(HEADERS_FLAG | 1 << 7, b"id", &table);
    let carrier = carrier(&whole);
    assert_eq!(body_size(&carrier), body_size(&whole) + u64::try_from(whole.len()).unwrap());
    let mut delivery = Delivery::mock(1, "".into(), "q".into(), false, [&whole, &b"12345"[..]].concat());
    delivery.properties = parsed(&carrier).unwrap();
    assert!(restore(&mut delivery));
    assert_eq!(
        (delivery.data.as_slice(), Some(&delivery.properties)),
        (&b"12345"[..], parsed(&whole).as_ref())
    );
    // Nothing is left to restore.
    assert!(!restore(&mut delivery));
    // The length is greater than the body.
    delivery.properties = parsed(&carrier).unwrap();
    assert!(!restore(&mut delivery));
    assert_eq!(delivery.data, b"12345");
}

fn header(name: &[u8]) -> Vec<u8> {
    [&short(name)[..], b"x", &[0, 0, 0, 6], b"forged"].concat()
}

#[test]
fn a_publisher_s_header_of_any_name_says_nothing_of_a_property() {
    let own = PROPERTIES.iter().map(|(name, _)| *name).chain([EXCHANGE, ROUTING_KEY, "length", "", "é"]);
    for (name, nuls) in own.flat_map(|name| (0..4).map(move |nuls| (name, nuls))) {
        let name = format!("{}integrahub:{name}", "\0".repeat(nuls));
        let table = [header(b"before"), header(name.as_bytes()), header(b"after")].concat();
        let original = payload(HEADERS_FLAG, b"", &table);
        let properties = parsed(rewritten(&original).as_ref().unwrap_or(&original)).unwrap();
        let names: Vec<_> = properties.headers().as_ref().unwrap().inner().keys().collect();
        assert!(names.iter().all(|name| property_moved_to(name.as_str()).is_none()), "{names:?}");
        let mut delivery = Delivery::mock(1, "".into(), "q".into(), false, vec![b'b'; 10]);
        delivery.properties = properties.clone();
        assert!(!restore(&mut delivery), "{name:?}");
        let published = names.iter().map(|name| as_published(name.as_str()).unwrap_or(name.as_str()));
        let published: HashSet<_> = published.collect();
        assert_eq!(published, HashSet::from(["before", name.as_str(), "after"]));
        // A property that is moved next to it gets another name.
        let routing = UnreadableRouting { exchange: Some(vec![0xff]), routing_key: None };
        let properties = parsed(&examine(&original, &routing).rewritten.unwrap()).unwrap();
        assert_eq!(bytes(&properties, EXCHANGE), Some(vec![0xff]), "{name:?}");
        assert_eq!(properties.headers().as_ref().unwrap().inner().len(), 4, "{name:?}");
    }
}

#[test]
fn headers_are_shown_as_bytes_if_a_reserved_name_is_too_long_for_another_one() {
    for (length, is_too_long) in [(254, false), (255, true)] {
        let name = format!("{:a<length$}", "\0integrahub:");
        let table = header(name.as_bytes());
        let properties = parsed(&rewritten(&payload(HEADERS_FLAG, b"", &table)).unwrap()).unwrap();
        assert_eq!(bytes(&properties, HEADERS), is_too_long.then_some(table), "{length}");
    }
}

#[test]
fn a_message_weighs_its_body_and_every_value_of_its_table() {
    let weight = |size: u64, table: &[u8]| {
        let mut payload = payload(HEADERS_FLAG, b"", table);
        payload[BODY_SIZE..PRELUDE].copy_from_slice(&size.to_be_bytes());
        examine(&payload, &UnreadableRouting::default()).weight
    };
    assert!(weight(0, &[]) < 100);
    assert_eq!(weight(1_000_000, &[]) - weight(0, &[]), 2_000_000);
    assert_eq!(weight(u64::MAX, &[]), usize::MAX);
    // Each value takes one byte on the wire.
    let mut voids = short(b"k");
    voids.push(b'A');
    voids.extend(1_000_u32.to_be_bytes());
    voids.extend([b'V'; 1_000]);
    let held = size_of::<AMQPValue>().max(size_of::<HeaderValue>());
    assert!(2 * held <= VALUE, "{held}");
    assert!(weight(0, &voids) >= 1_000 * VALUE);
}

#[test]
fn tables_nest_to_a_limit() {
    let mut table = Vec::new();
    for depth in 0..=MAX_DEPTH {
        assert!(table_is_readable(&table, 0, &mut 0), "{depth}");
        let mut outer = short(b"t");
        outer.push(b'F');
        outer.extend(u32::try_from(table.len()).unwrap().to_be_bytes());
        outer.extend(&table);
        table = outer;
    }
    assert!(!table_is_readable(&table, 0, &mut 0));
}
