//! Dynamic queues: made by opening a model queue, deleted by closing what was opened.

use libmqm_sys as mq;

use super::state::State;
use crate::definition::{Definition, Kind};
use crate::protocol::{Chars, Reason};

impl State {
    /// Makes a queue of a model. An asterisk at the end of the name stands for something unique.
    pub(super) fn create_dynamic(&mut self, model: &Definition, wanted: &Chars) -> Result<Chars, Reason> {
        let text = wanted.to_string();
        let name = match text.strip_suffix('*') {
            Some(prefix) => format!("{prefix}{:016X}", crate::clock::now() << 20 ^ self.number()),
            None => text,
        };
        if !is_name(&name) {
            return Err(Reason(mq::MQRC_DYNAMIC_Q_NAME_ERROR));
        }
        let name = Chars::from(name.as_str());
        if self.queues.contains_key(&name) {
            return Err(Reason(mq::MQRC_OBJECT_ALREADY_EXISTS));
        }
        self.define(Definition { name: name.clone(), kind: Kind::Local, ..model.clone() });
        Ok(name)
    }
}

/// True if MQ accepts a name for an object.
fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._/%".contains(&byte);
    !name.is_empty() && name.len() <= mq::MQ_Q_NAME_LENGTH && name.bytes().all(plain)
}
