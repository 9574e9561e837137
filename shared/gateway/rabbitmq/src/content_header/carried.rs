//! Content headers that do not fit into a frame. A message gathers headers each time it is
//! dead-lettered, and other clients may send larger frames than this one agreed to. So the payload
//! of such a content header is placed at the start of the message's body, and an extra header gives
//! its length.

use amq_protocol::frame::parsing::parse_content_header;
use lapin::message::Delivery;
use lapin::types::AMQPValue;

use super::names::MOVED;
use super::{body_size, named, of_headers};

/// Name, after the prefix [`MOVED`], of the header that holds the length in bytes of a content
/// header that was placed at the start of the body.
const LENGTH: &str = "length";

/// Builds a content header that announces `payload`, the message's real content header, as the
/// first bytes of the body. Used if `payload` does not fit into a frame.
pub(crate) fn carrier(payload: &[u8]) -> Vec<u8> {
    let length = u64::try_from(payload.len()).unwrap_or(u64::MAX);
    let entry = named(LENGTH, b'l', &length.to_be_bytes()).unwrap_or_default();
    of_headers(body_size(payload).saturating_add(length), &entry)
}

/// Restores the properties of a message from the content header at the start of its body, and
/// removes that content header from the body. `false` if the body does not begin with one.
pub(crate) fn restore(delivery: &mut Delivery) -> bool {
    let Some(length) = carried(delivery) else { return false };
    let body = delivery.data.split_off(length);
    let payload = std::mem::replace(&mut delivery.data, body);
    if let Ok(([], header)) = parse_content_header(payload.as_slice()) {
        delivery.properties = header.properties;
    }
    true
}

fn carried(delivery: &Delivery) -> Option<usize> {
    let headers = delivery.properties.headers().as_ref()?.inner();
    match headers.iter().find(|(name, _)| name.as_str().strip_prefix(MOVED) == Some(LENGTH))?.1 {
        AMQPValue::LongLongInt(length) => {
            usize::try_from(*length).ok().filter(|length| *length <= delivery.data.len())
        }
        _ => None,
    }
}
