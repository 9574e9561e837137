//! Dynamic queues: made by opening a model queue, deleted by closing.

use libmqm_sys as mq;

use super::journal::Record;
use super::state::State;
use crate::definition::Definition;
use crate::protocol::{Chars, Reason};

impl State {
    /// Makes a queue of a model. An asterisk at the end of the name stands for something unique.
    pub(super) fn create_dynamic(&mut self, model: &Definition, wanted: &Chars) -> Result<Chars, Reason> {
        let text = wanted.to_string();
        let name = match text.strip_suffix('*') {
            Some(prefix) if prefix.len() <= 32 => {
                let unique = self.number();
                format!("{prefix}{:08X}{:08X}", crate::clock::now() >> 10 & 0xFFFF_FFFF, unique)
            }
            Some(_) => return Err(Reason(mq::MQRC_DYNAMIC_Q_NAME_ERROR)),
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

    /// Whether a close deletes the queue, and that it may.
    pub(super) fn deletion(
        &self,
        session: u64,
        handle: i32,
        (name, id): (&Chars, u64),
        options: i32,
    ) -> Result<bool, Reason> {
        let asked = options & (mq::MQCO_DELETE | mq::MQCO_DELETE_PURGE) != 0;
        let Some(queue) = self.queues.get(name).filter(|queue| queue.id == id) else {
            return Ok(false);
        };
        let kind = queue.definition.number_of(mq::MQIA_DEFINITION_TYPE);
        let is_creator = queue.creator == Some((session, handle));
        match kind {
            mq::MQQDT_TEMPORARY_DYNAMIC if asked && !is_creator => {
                Err(Reason(mq::MQRC_OPTION_NOT_VALID_FOR_TYPE))
            }
            mq::MQQDT_TEMPORARY_DYNAMIC => Ok(is_creator),
            mq::MQQDT_PERMANENT_DYNAMIC if asked => {
                let others = queue.inputs + queue.outputs > self.uses(session, handle);
                let purges = options & mq::MQCO_DELETE_PURGE != 0;
                if others {
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

    /// How often a handle counts among those open on its queue.
    fn uses(&self, session: u64, handle: i32) -> usize {
        let Ok(handle) = self.handle(session, handle) else { return 0 };
        let input = mq::MQOO_INPUT_AS_Q_DEF | mq::MQOO_INPUT_SHARED | mq::MQOO_INPUT_EXCLUSIVE;
        usize::from(handle.has(input)) + usize::from(handle.has(mq::MQOO_OUTPUT))
    }
}

/// Whether MQ accepts a name for an object.
pub(crate) fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._/%".contains(&byte);
    !name.is_empty() && name.len() <= mq::MQ_Q_NAME_LENGTH && name.bytes().all(plain)
}
