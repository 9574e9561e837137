//! The build without `full-mqi`: no command server, no MQSET, and properties in message handles
//! only.

use libmqm_sys as mq;

use crate::manager::State;
use crate::protocol::{Chars, Get, Message, Reason, Reply};

impl State {
    pub(crate) fn arrived(&mut self, _queue: &Chars) {}

    pub(crate) fn set(&mut self, _session: u64, _handle: i32, _attributes: &[(i32, i32)]) -> Reply {
        Err(Reason(mq::MQRC_FUNCTION_NOT_SUPPORTED))
    }
}

/// A header in the body stays there.
pub(crate) fn with_properties(message: Message) -> Message {
    message
}

/// A message loses its properties on its way to a caller without a message handle.
pub(crate) fn without_handle(mut message: Message, get: &Get) -> Message {
    if !get.takes_properties {
        message.properties.clear();
    }
    message
}
