//! AMQP methods that contain bytes chosen by other clients.

use crate::content_header::UnreadableRouting;

/// Class and method number of `basic.return`, which is followed by content.
pub(super) const BASIC_RETURN: [u8; 4] = [0, 60, 0, 50];
const BASIC_DELIVER: [u8; 4] = [0, 60, 0, 60];
const BASIC_GET_OK: [u8; 4] = [0, 60, 0, 71];
/// Class and method number of `connection.tune`, in which the broker proposes the connection's
/// limits.
const CONNECTION_TUNE: [u8; 4] = [0, 10, 0, 30];

/// Returns the delivery tag of `basic.deliver` or `basic.get-ok`; `None` for other methods.
pub(super) fn delivery_tag(arguments: &[u8]) -> Option<u64> {
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

/// Returns the maximum frame size in bytes that the broker proposes in `connection.tune`; 0 means
/// no limit. `None` for other methods.
pub(super) fn proposed_frame_max(arguments: &[u8]) -> Option<u32> {
    let proposal = arguments.strip_prefix(&CONNECTION_TUNE)?;
    Some(u32::from_be_bytes(*proposal.get(2..)?.first_chunk()?))
}

/// Kind of a field in the arguments of an AMQP method. `Skip` has the length in bytes of fields
/// that are not examined.
#[derive(Clone, Copy)]
enum Field {
    Skip(usize),
    Text,
    Exchange,
    RoutingKey,
}

/// Returns the leading argument fields of methods that may contain bytes from other clients: an
/// exchange, a routing key, or a text that the broker truncated.
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

/// Replaces bytes that are not UTF-8 in a method's arguments by question marks. Returns the
/// original exchange and routing key if they were changed.
pub(super) fn make_readable(payload: &mut [u8]) -> UnreadableRouting {
    let mut routing = UnreadableRouting::default();
    let Some((method, mut rest)) = payload.split_first_chunk_mut::<4>() else { return routing };
    for field in foreign_fields(*method) {
        let length = match field {
            Field::Skip(length) => *length,
            Field::Text | Field::Exchange | Field::RoutingKey => {
                let Some((length, tail)) = rest.split_first_mut() else { return routing };
                rest = tail;
                usize::from(*length)
            }
        };
        let Some((part, tail)) = rest.split_at_mut_checked(length) else { return routing };
        rest = tail;
        if matches!(field, Field::Skip(_)) || std::str::from_utf8(part).is_ok() {
            continue;
        }
        match field {
            Field::Exchange => routing.exchange = Some(part.to_vec()),
            Field::RoutingKey => routing.routing_key = Some(part.to_vec()),
            Field::Text | Field::Skip(_) => {}
        }
        make_utf8(part);
    }
    routing
}

fn make_utf8(text: &mut [u8]) {
    while let Err(error) = std::str::from_utf8(text) {
        match text.get_mut(error.valid_up_to()) {
            Some(byte) => *byte = b'?',
            None => return,
        }
    }
}
