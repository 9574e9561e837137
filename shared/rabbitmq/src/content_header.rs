//! The properties of a message as bytes. What the client library cannot parse moves into a header
//! of its own, as the bytes it is, under a name that [`moved`] knows.

use std::collections::HashSet;

/// How deep tables and arrays may nest. Deeper ones are shown as bytes.
pub(crate) const MAX_DEPTH: usize = 24;

/// Class, weight and body size.
const PRELUDE: usize = 12;
/// Class and weight.
const BODY_SIZE: usize = 4;

/// What a value of a table takes in memory at most, as the library's and as the gateway's, beside
/// its bytes.
const VALUE: usize = 160;
/// How often a header's bytes are held at most: as they came, moved, parsed, and as text of an
/// answer.
const COPIES: usize = 4;

/// What the properties of a message may take that is not let in.
const MOST_OF_A_HOLLOW: usize = 256 * 1024;

/// Begins the names of headers that hold moved properties; other publishers' names have no reason
/// to.
const MOVED: &str = "\0integrahub:";

pub(crate) const CONTENT_TYPE: &str = "content_type";
const HEADERS: &str = "headers";
pub(crate) const CORRELATION_ID: &str = "correlation_id";
pub(crate) const MESSAGE_ID: &str = "message_id";
pub(crate) const EXCHANGE: &str = "exchange";
pub(crate) const ROUTING_KEY: &str = "routing_key";

/// The class of `basic` methods and their content.
pub(crate) const CLASS_BASIC: u8 = 60;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    ShortString,
    Table,
    Octet,
    Timestamp,
}

/// The properties of class `basic`, from the flags' highest bit on.
const PROPERTIES: [(&str, Kind); 14] = [
    (CONTENT_TYPE, Kind::ShortString),
    ("content_encoding", Kind::ShortString),
    (HEADERS, Kind::Table),
    ("delivery_mode", Kind::Octet),
    ("priority", Kind::Octet),
    (CORRELATION_ID, Kind::ShortString),
    ("reply_to", Kind::ShortString),
    ("expiration", Kind::ShortString),
    (MESSAGE_ID, Kind::ShortString),
    ("timestamp", Kind::Timestamp),
    ("type", Kind::ShortString),
    ("user_id", Kind::ShortString),
    ("app_id", Kind::ShortString),
    ("cluster_id", Kind::ShortString),
];
const HEADERS_FLAG: u16 = 1 << 13;

/// What the filter learns of a content header.
pub(crate) struct Read {
    /// What the message takes in memory at most, in bytes.
    pub(crate) weight: usize,
    /// What its properties take of that.
    pub(crate) properties: usize,
    /// The payload in a form that can be parsed, or `None` where it is in one already, or cannot be
    /// helped.
    pub(crate) rewritten: Option<Vec<u8>>,
}

/// Where a delivery was published to, as far as that is not text. No property holds it, but it
/// moves as those do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) exchange: Option<Vec<u8>>,
    pub(crate) routing_key: Option<Vec<u8>>,
}

impl Place {
    fn entries(&self) -> Option<Vec<u8>> {
        let entry = |name, bytes: &Option<Vec<u8>>| match bytes {
            Some(bytes) => entry(name, bytes),
            None => Some(Vec::new()),
        };
        Some([entry(EXCHANGE, &self.exchange)?, entry(ROUTING_KEY, &self.routing_key)?].concat())
    }
}

/// Reads a content header's payload; `place` moves into it.
pub(crate) fn read(payload: &[u8], place: Option<&Place>) -> Read {
    let mut values = 0;
    let moved = place.and_then(Place::entries).unwrap_or_default();
    let rewritten = readable(payload, moved, &mut values);
    let body =
        payload.get(BODY_SIZE..).and_then(<[u8]>::first_chunk).map_or(0, |size| u64::from_be_bytes(*size));
    // The library gathers a body in room that grows twofold.
    let body = usize::try_from(body).unwrap_or(usize::MAX).saturating_mul(2);
    let properties = payload.len().saturating_mul(COPIES).saturating_add(values.saturating_mul(VALUE));
    Read { weight: body.saturating_add(properties), properties, rewritten }
}

/// [`Read::rewritten`], with the entries of `moved`; `values` counts those of the table.
fn readable(payload: &[u8], mut moved: Vec<u8>, values: &mut usize) -> Option<Vec<u8>> {
    let (prelude, rest) = payload.split_at_checked(PRELUDE)?;
    let (flags, mut rest) = rest.split_first_chunk::<2>()?;
    let flags = u16::from_be_bytes(*flags);
    // Bit 0 says that more flags follow; `basic` has none.
    if flags & 1 != 0 {
        return None;
    }
    let mut kept_flags = flags;
    let mut before = Vec::new();
    let mut after = Vec::new();
    let mut table: &[u8] = &[];
    for (index, (name, kind)) in PROPERTIES.iter().enumerate() {
        let flag = 1 << (15 - index);
        if flags & flag == 0 {
            continue;
        }
        let (whole, content, tail) = split(*kind, rest)?;
        rest = tail;
        let is_readable = match kind {
            Kind::ShortString => std::str::from_utf8(content).is_ok(),
            Kind::Table => table_is_readable(content, 0, values),
            Kind::Octet | Kind::Timestamp => true,
        };
        if !is_readable {
            kept_flags &= !flag;
            moved.extend(entry(name, content)?);
        } else if *kind == Kind::Table {
            table = content;
        } else if flag > HEADERS_FLAG {
            before.extend_from_slice(whole);
        } else {
            after.extend_from_slice(whole);
        }
    }
    if moved.is_empty() {
        return None;
    }
    let table = [table, &moved].concat();
    let length = u32::try_from(table.len()).ok()?.to_be_bytes();
    let flags = (kept_flags | HEADERS_FLAG).to_be_bytes();
    Some([prelude, &flags, &before, &length, &table, &after].concat())
}

/// The content header of a message that is not let in. Its properties stay, because the queue's
/// counts and the id are among them, unless they take much themselves.
pub(crate) fn hollow(payload: &[u8], read: &Read) -> Vec<u8> {
    match read.properties {
        ..=MOST_OF_A_HOLLOW => without_body(read.rewritten.as_deref().unwrap_or(payload)),
        _ => bare(),
    }
}

/// A content header of a message without body and properties.
pub(crate) fn bare() -> Vec<u8> {
    let mut payload = vec![0; PRELUDE + 2];
    if let Some(class) = payload.get_mut(1) {
        *class = CLASS_BASIC;
    }
    payload
}

/// The content header with a body size of 0.
pub(crate) fn without_body(payload: &[u8]) -> Vec<u8> {
    let mut payload = payload.to_vec();
    if let Some(size) = payload.get_mut(BODY_SIZE..PRELUDE) {
        size.fill(0);
    }
    payload
}

/// Splits a property off: all its bytes, those of its value, and the rest.
fn split(kind: Kind, bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (prefix, length) = match kind {
        Kind::ShortString => (1, usize::from(*bytes.first()?)),
        Kind::Table => (4, usize::try_from(u32::from_be_bytes(*bytes.first_chunk()?)).ok()?),
        Kind::Octet => (0, 1),
        Kind::Timestamp => (0, 8),
    };
    let (whole, rest) = bytes.split_at_checked(length.checked_add(prefix)?)?;
    Some((whole, whole.get(prefix..)?, rest))
}

/// A table's entry that holds `bytes` under the name of a moved property.
fn entry(name: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let name = format!("{MOVED}{name}");
    let mut entry = vec![u8::try_from(name.len()).ok()?];
    entry.extend_from_slice(name.as_bytes());
    entry.push(b'x');
    entry.extend(u32::try_from(bytes.len()).ok()?.to_be_bytes());
    entry.extend_from_slice(bytes);
    Some(entry)
}

/// A table with two values of one name is not readable either: the library would keep one of them.
fn table_is_readable(mut bytes: &[u8], depth: usize, values: &mut usize) -> bool {
    let mut names = HashSet::new();
    while !bytes.is_empty() {
        let Some((_, name, rest)) = split(Kind::ShortString, bytes) else { return false };
        let Some(rest) = after_value(rest, depth, values) else { return false };
        if std::str::from_utf8(name).is_err() || !names.insert(name) {
            return false;
        }
        bytes = rest;
    }
    true
}

fn array_is_readable(mut bytes: &[u8], depth: usize, values: &mut usize) -> bool {
    while !bytes.is_empty() {
        let Some(rest) = after_value(bytes, depth, values) else { return false };
        bytes = rest;
    }
    true
}

/// What follows the value that `bytes` begin with, or `None` where it cannot be read.
fn after_value<'a>(bytes: &'a [u8], depth: usize, values: &mut usize) -> Option<&'a [u8]> {
    *values += 1;
    let (kind, rest) = bytes.split_first()?;
    let length = match kind {
        b't' | b'b' | b'B' => 1,
        b's' | b'U' | b'u' => 2,
        b'I' | b'i' | b'f' => 4,
        b'D' => 5,
        b'L' | b'l' | b'd' | b'T' => 8,
        b'V' => 0,
        b'S' | b'x' => return split(Kind::Table, rest).map(|(_, _, rest)| rest),
        b'A' | b'F' if depth < MAX_DEPTH => {
            let (_, content, rest) = split(Kind::Table, rest)?;
            let nested = if *kind == b'A' { array_is_readable } else { table_is_readable };
            return nested(content, depth + 1, values).then_some(rest);
        }
        _ => return None,
    };
    rest.get(length..)
}

/// The property, exchange or routing key that a header of this name holds, if [`readable`] made it.
pub(crate) fn moved(name: &str) -> Option<&'static str> {
    let name = name.strip_prefix(MOVED)?;
    let mut known = PROPERTIES.iter().map(|(property, _)| *property).chain([EXCHANGE, ROUTING_KEY]);
    known.find(|property| *property == name)
}

#[cfg(test)]
mod tests {
    use amq_protocol::frame::AMQPFrame;
    use amq_protocol::frame::parsing::parse_frame;
    use lapin::BasicProperties;
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
        read(payload, None).rewritten
    }

    /// The bytes of a property that was moved.
    fn bytes(properties: &BasicProperties, moved_name: &str) -> Option<Vec<u8>> {
        let mut headers = properties.headers().as_ref()?.inner().iter();
        let (_, value) = headers.find(|(name, _)| moved(name.as_str()) == Some(moved_name))?;
        match value {
            AMQPValue::ByteArray(bytes) => Some(bytes.as_slice().to_vec()),
            _ => None,
        }
    }

    fn short(bytes: &[u8]) -> Vec<u8> {
        [&[u8::try_from(bytes.len()).unwrap()], bytes].concat()
    }

    /// Every property, with these bytes for all short strings and this table.
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
        fn no_bytes_make_the_reading_fail(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes, None);
        }
    }

    #[test]
    fn a_message_weighs_its_body_and_every_value_of_its_table() {
        let weight = |size: u64, table: &[u8]| {
            let mut payload = payload(HEADERS_FLAG, b"", table);
            payload[BODY_SIZE..PRELUDE].copy_from_slice(&size.to_be_bytes());
            read(&payload, None).weight
        };
        assert!(weight(0, &[]) < 100);
        assert_eq!(weight(1_000_000, &[]) - weight(0, &[]), 2_000_000);
        assert_eq!(weight(u64::MAX, &[]), usize::MAX);
        // A byte each on the wire.
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
}
