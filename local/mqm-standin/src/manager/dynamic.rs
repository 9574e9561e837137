//! Dynamic queues: made by opening a model queue, deleted by closing.

use libmqm_sys as mq;

use super::journal::Record;
use super::queue::QueueId;
use super::state::State;
use crate::definition::Definition;
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
        let definition = model.instance(name.clone());
        if !definition.is_temporary() {
            self.journal.append(&Record::Define(definition.clone()));
        }
        self.define(definition);
        Ok(name)
    }

    /// Returns true if a close deletes the queue, and refuses a close that may not.
    pub(super) fn deletion(
        &self,
        session: u64,
        handle: i32,
        id: &QueueId,
        options: i32,
    ) -> Result<bool, Reason> {
        let asked = options & (mq::MQCO_DELETE | mq::MQCO_DELETE_PURGE) != 0;
        let Some(queue) = self.queues.get(&id.name).filter(|queue| queue.number == id.number) else {
            return Ok(false);
        };
        match queue.definition.number(mq::MQIA_DEFINITION_TYPE) {
            mq::MQQDT_TEMPORARY_DYNAMIC if queue.creator == Some((session, handle)) => Ok(true),
            mq::MQQDT_PERMANENT_DYNAMIC if asked => {
                let purges = options & mq::MQCO_DELETE_PURGE != 0;
                if queue.inputs + queue.outputs > self.uses(session, handle) {
                    Err(Reason(mq::MQRC_OBJECT_IN_USE))
                } else if queue.uncommitted() > 0 || (!purges && !queue.is_empty()) {
                    Err(Reason(mq::MQRC_Q_NOT_EMPTY))
                } else {
                    Ok(true)
                }
            }
            _ if asked => Err(Reason(mq::MQRC_OPTION_NOT_VALID_FOR_TYPE)),
            _ => Ok(false),
        }
    }

    /// The number of times that a handle counts among those open on its queue.
    fn uses(&self, session: u64, handle: i32) -> usize {
        let Ok(handle) = self.handle(session, handle) else { return 0 };
        usize::from(handle.has(super::open::INPUT)) + usize::from(handle.has(mq::MQOO_OUTPUT))
    }
}

/// True if MQ accepts a name for an object.
pub(crate) fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._/%".contains(&byte);
    !name.is_empty() && name.len() <= mq::MQ_Q_NAME_LENGTH && name.bytes().all(plain)
}
