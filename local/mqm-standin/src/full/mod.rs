//! The rest of the MQI, which only the suites with IBM's clients need: the command server, MQSET,
//! and properties in headers.

mod command_server;
mod inquire;
mod pcf;
mod queues;
mod rfh2;
mod set;

use libmqm_sys as mq;

use crate::protocol::{Get, Message};

/// The message with the properties of a header that was put as data.
pub(crate) fn with_properties(message: Message) -> Message {
    rfh2::split(&message).unwrap_or(message)
}

/// The message as a caller without a message handle gets it: with its properties in a header,
/// unless it wants none.
pub(crate) fn without_handle(mut message: Message, get: &Get) -> Message {
    if get.takes_properties || message.properties.is_empty() {
        return message;
    }
    if get.options & mq::MQGMO_NO_PROPERTIES != 0 {
        message.properties.clear();
        return message;
    }
    rfh2::join(message)
}
