//! AMQP content headers, which contain the properties of a message, as bytes. A property that the
//! client library cannot parse is moved, unchanged, into a header whose name [`property_moved_to`]
//! recognizes; a publisher's own header of such a name is renamed ([`names`]). A content header
//! that does not fit into a frame travels with the body, from which [`restore`] takes it.

mod carried;
mod names;

use std::borrow::Cow;
use std::collections::HashSet;

use amq_protocol::frame::{AMQPContentHeader, AMQPFrame, gen_frame};
use lapin::BasicProperties;

pub(crate) use carried::{carrier, restore};
use names::{MOVED, escaped};
pub(crate) use names::{as_published, is_reserved};

/// Maximum nesting of tables and arrays in headers. Deeper values are passed on as bytes.
pub(crate) const MAX_DEPTH: usize = 24;

/// Length in bytes of class, weight and body size, which a content header has before its property
/// flags.
pub(crate) const PRELUDE: usize = 12;
/// Offset in bytes of the body size in a content header.
const BODY_SIZE: usize = 4;

/// Maximum memory in bytes that one value of a header table takes besides its own bytes, in the
/// representations of the client library and the gateway together.
const VALUE: usize = 160;
/// Maximum number of copies of a content header in memory: as received, rewritten, parsed, and as
/// text of a response.
const COPIES: usize = 4;

/// Maximum memory in bytes for the properties of a message that exceeds the limit on deliveries and
/// is passed on without its body. If they take more, the header table is left out.
const MOST_WITHOUT_BODY: usize = 256 * 1024;

pub(crate) const CONTENT_TYPE: &str = "content_type";
const HEADERS: &str = "headers";
pub(crate) const CORRELATION_ID: &str = "correlation_id";
pub(crate) const MESSAGE_ID: &str = "message_id";
pub(crate) const EXCHANGE: &str = "exchange";
pub(crate) const ROUTING_KEY: &str = "routing_key";

/// Class number of AMQP's `basic` methods and content headers.
const CLASS_BASIC: u8 = 60;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    ShortString,
    Table,
    Octet,
    Timestamp,
}

/// Properties of the class `basic`, in the order of their flags from the highest bit.
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
/// Flag bits that must be 0: one is unassigned, and one announces further flags, which `basic` does
/// not have.
const UNKNOWN_FLAGS: u16 = 3;

/// Result of examining the content header of a message: the memory that the message takes, and a
/// form that the client library can parse.
pub(crate) struct ExaminedHeader {
    /// Maximum memory in bytes that the whole message takes; `usize::MAX` if it is unknown.
    pub(crate) weight: usize,
    /// Maximum memory in bytes that the message's properties take, as part of `weight`.
    pub(crate) properties: usize,
    /// Content header rewritten so that the client library can parse it; `None` if it can parse the
    /// original.
    pub(crate) rewritten: Option<Vec<u8>>,
}

/// Exchange and routing key of a delivery, each `None` if it is valid UTF-8. They are moved into
/// headers, like properties that the client library cannot read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnreadableRouting {
    pub(crate) exchange: Option<Vec<u8>>,
    pub(crate) routing_key: Option<Vec<u8>>,
}

impl UnreadableRouting {
    fn entries(&self) -> Option<Vec<u8>> {
        let entry = |name, bytes: &Option<Vec<u8>>| match bytes {
            Some(bytes) => entry(name, bytes),
            None => Some(Vec::new()),
        };
        Some([entry(EXCHANGE, &self.exchange)?, entry(ROUTING_KEY, &self.routing_key)?].concat())
    }
}

/// Examines a content header (`payload`). Returns how much memory the message may take, and a
/// rewritten content header if the client library cannot parse the original. The rewritten one has
/// the exchange and routing key in `routing` as additional headers.
pub(crate) fn examine(payload: &[u8], routing: &UnreadableRouting) -> ExaminedHeader {
    let mut values = 0;
    let rewritten = readable(payload, routing, &mut values);
    // The library collects a body in a buffer that doubles as it grows.
    let body = usize::try_from(body_size(payload)).unwrap_or(usize::MAX).saturating_mul(2);
    let properties = payload.len().saturating_mul(COPIES).saturating_add(values.saturating_mul(VALUE));
    ExaminedHeader { weight: body.saturating_add(properties), properties, rewritten }
}

/// Returns what [`examine`] would return, for a content header that is too long to be buffered:
/// `payload` is only its beginning, so the memory that the message may take is unknown.
pub(crate) fn too_long(payload: &[u8], routing: &UnreadableRouting) -> ExaminedHeader {
    ExaminedHeader {
        weight: usize::MAX,
        properties: usize::MAX,
        rewritten: Some(unparsable(payload, &[], routing)),
    }
}

/// Returns the size in bytes of the frame with these properties; `None` if the client library
/// cannot write them.
pub(crate) fn frame_size(properties: BasicProperties) -> Option<usize> {
    let header = AMQPContentHeader { class_id: CLASS_BASIC.into(), body_size: 0, properties };
    let frame = AMQPFrame::Header(1, header);
    Some(gen_frame(&frame)(Vec::new().into()).ok()?.into_inner().0.len())
}

/// Returns the body size that a content header announces.
fn body_size(payload: &[u8]) -> u64 {
    payload.get(BODY_SIZE..).and_then(<[u8]>::first_chunk).map_or(0, |size| u64::from_be_bytes(*size))
}

/// Properties of a content header, sorted by whether the client library can read them.
struct Sorted<'a> {
    /// First bytes of the content header: class, weight and body size.
    prelude: &'a [u8],
    /// Flags of the properties that the client library can read, without the flag of the header
    /// table.
    flags: u16,
    before: Vec<u8>,
    /// Header table, and true if the client library can read it; `None` if there is none.
    table: Option<(Cow<'a, [u8]>, bool)>,
    /// True if the table has headers that were renamed because their names are reserved.
    is_renamed: bool,
    after: Vec<u8>,
    /// Table entries with the properties, exchange and routing key that the client library cannot
    /// read.
    moved: Vec<u8>,
}

impl<'a> Sorted<'a> {
    /// Sorts the properties of a content header, with the exchange and routing key in `routing`
    /// among the unreadable ones, and adds the number of table values to `values`. `None` if
    /// `payload` cannot be split into properties.
    fn of(payload: &'a [u8], routing: &UnreadableRouting, values: &mut usize) -> Option<Self> {
        let (prelude, rest) = payload.split_at_checked(PRELUDE)?;
        let (flags, mut rest) = rest.split_first_chunk::<2>()?;
        let mut flags = u16::from_be_bytes(*flags);
        let is_basic = prelude.starts_with(&[0, CLASS_BASIC]);
        if !is_basic || flags & UNKNOWN_FLAGS != 0 {
            return None;
        }
        let mut moved = routing.entries()?;
        let (mut before, mut after, mut table, mut is_renamed) = (Vec::new(), Vec::new(), None, false);
        for (index, (name, kind)) in PROPERTIES.iter().enumerate() {
            let flag = 1 << (15 - index);
            if flags & flag == 0 {
                continue;
            }
            let (whole, content, tail) = split(*kind, rest)?;
            rest = tail;
            match kind {
                Kind::Table => {
                    flags &= !flag;
                    let is_readable = table_is_readable(content, 0, values);
                    let renamed = if is_readable { escaped(content) } else { Some(Cow::Borrowed(content)) };
                    is_renamed = matches!(renamed, Some(Cow::Owned(_)));
                    // A name may be too long to be renamed.
                    table =
                        Some(renamed.map_or((Cow::Borrowed(content), false), |table| (table, is_readable)));
                }
                Kind::ShortString if std::str::from_utf8(content).is_err() => {
                    flags &= !flag;
                    moved.extend(entry(name, content)?);
                }
                _ if flag > HEADERS_FLAG => before.extend_from_slice(whole),
                _ => after.extend_from_slice(whole),
            }
        }
        rest.is_empty().then_some(Self { prelude, flags, before, table, is_renamed, after, moved })
    }

    fn is_readable(&self) -> bool {
        let is_readable = self.table.as_ref().is_none_or(|(_, is_readable)| *is_readable);
        self.moved.is_empty() && is_readable && !self.is_renamed
    }

    /// Builds the content header with the header table `headers`, to which the entries in
    /// [`Self::moved`] are added.
    fn with(&self, headers: &[u8]) -> Vec<u8> {
        let length = headers.len().saturating_add(self.moved.len());
        let length = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
        let flags = (self.flags | HEADERS_FLAG).to_be_bytes();
        [self.prelude, &flags, &self.before, &length, headers, &self.moved, &self.after].concat()
    }
}

/// Returns a content header that the client library can parse, in which `routing` has become
/// headers; `None` if it can parse `payload` itself. Adds the number of table values to `values`.
fn readable(payload: &[u8], routing: &UnreadableRouting, values: &mut usize) -> Option<Vec<u8>> {
    let Some(sorted) = Sorted::of(payload, routing, values) else {
        return Some(unparsable(payload, payload.get(PRELUDE..).unwrap_or_default(), routing));
    };
    if sorted.is_readable() {
        return None;
    }
    Some(match &sorted.table {
        None => sorted.with(&[]),
        Some((table, true)) => sorted.with(table),
        Some((table, false)) => sorted.with(&entry(HEADERS, table).unwrap_or_default()),
    })
}

/// Builds the content header without its header table, which does not fit into a frame or takes too
/// much memory. An empty header with a reserved name in its place shows that headers are missing.
/// The result fits into the smallest frame that can be negotiated.
pub(crate) fn without_headers(payload: &[u8], routing: &UnreadableRouting) -> Vec<u8> {
    match Sorted::of(payload, routing, &mut 0) {
        Some(sorted) => sorted.with(&entry(HEADERS, &[]).unwrap_or_default()),
        None => unparsable(payload, &[], routing),
    }
}

/// Builds a content header in place of one that cannot be parsed, for the same body. Its only
/// property is a header table with the bytes `shown`, under a reserved name, and the entries of
/// `routing`.
fn unparsable(payload: &[u8], shown: &[u8], routing: &UnreadableRouting) -> Vec<u8> {
    let moved = [entry(HEADERS, shown), routing.entries()].map(Option::unwrap_or_default).concat();
    of_headers(body_size(payload), &moved)
}

/// Builds a content header whose only property is this header table, for a body of `body` bytes.
fn of_headers(body: u64, table: &[u8]) -> Vec<u8> {
    let length = u32::try_from(table.len()).unwrap_or(u32::MAX).to_be_bytes();
    let class = [0, CLASS_BASIC, 0, 0];
    [&class[..], &body.to_be_bytes(), &HEADERS_FLAG.to_be_bytes(), &length, table].concat()
}

/// True if the properties of a message that is passed on without its body take little enough memory
/// to be passed on. They include the headers in which a queue counts returns, and the message id.
pub(crate) fn is_light(examined: &ExaminedHeader) -> bool {
    examined.properties <= MOST_WITHOUT_BODY
}

/// Returns a copy of the content header that announces a body size of 0.
pub(crate) fn without_body(payload: &[u8]) -> Vec<u8> {
    let mut payload = payload.to_vec();
    if let Some(size) = payload.get_mut(BODY_SIZE..PRELUDE) {
        size.fill(0);
    }
    payload
}

/// Splits a property value from the start of `bytes`. Returns all its bytes, its content without
/// the length, and the bytes after it; `None` if `bytes` ends within the value.
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

/// Builds an entry of a header table with `bytes` as its value, under the reserved name for the
/// property `name`. `None` if `bytes` or the name is too long.
fn entry(name: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(bytes.len()).ok()?.to_be_bytes();
    named(name, b'x', &[&length, bytes].concat())
}

/// Builds an entry of a header table, with the reserved name of the gateway that ends with `name`,
/// the AMQP type letter `kind`, and the bytes `value`. `None` if the name is too long.
fn named(name: &str, kind: u8, value: &[u8]) -> Option<Vec<u8>> {
    let name = format!("{MOVED}{name}");
    let length = u8::try_from(name.len()).ok()?;
    Some([&[length], name.as_bytes(), &[kind], value].concat())
}

/// True if the client library can read the table, which is nested in `depth` other tables or
/// arrays. A table with a duplicate name is unreadable, since the library would keep only one of
/// the values. Adds the number of values to `values`.
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

/// Returns the bytes after the table value at the start of `bytes`; `None` if the value cannot be
/// read. Its table is nested in `depth` other tables or arrays. Adds the number of values to
/// `values`.
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

/// Returns the property, exchange or routing key that the header of this name holds, if
/// [`readable`] moved it there; otherwise `None`.
pub(crate) fn property_moved_to(name: &str) -> Option<&'static str> {
    let name = name.strip_prefix(MOVED)?;
    let mut known = PROPERTIES.iter().map(|(property, _)| *property).chain([EXCHANGE, ROUTING_KEY]);
    known.find(|property| *property == name)
}

#[cfg(test)]
mod tests;
