//! Content headers that do not fit into a frame. A message gathers headers where it dies, and other
//! clients may write more of them than this one agreed to take. So the payload of such a content
//! header goes first in the message's body, and a header of its own says how long it is.

use amq_protocol::frame::parsing::parse_content_header;
use lapin::message::Delivery;
use lapin::types::AMQPValue;

use super::names::MOVED;
use super::{body_size, named, of_headers};

/// Follows [`MOVED`] in the name of the header that holds the length.
const LENGTH: &str = "length";

/// The content header of a message whose body begins with `payload`, which is its own.
pub(crate) fn carrier(payload: &[u8]) -> Vec<u8> {
    let length = u64::try_from(payload.len()).unwrap_or(u64::MAX);
    let entry = named(LENGTH, b'l', &length.to_be_bytes()).unwrap_or_default();
    of_headers(body_size(payload).saturating_add(length), &entry)
}

/// Gives a message its properties back that came in its body. Says whether it had any there.
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
    match headers.get(format!("{MOVED}{LENGTH}").as_str())? {
        AMQPValue::LongLongInt(length) => {
            usize::try_from(*length).ok().filter(|length| *length <= delivery.data.len())
        }
        _ => None,
    }
}
