//! MQSET.

use libmqm_sys as mq;

use crate::definition::Definition;
use crate::manager::{Record, State};
use crate::protocol::{Answer, Attribute, Reason, Reply, done};

impl State {
    pub(crate) fn set(&mut self, session: u64, handle: i32, attributes: &[(i32, i32)]) -> Reply {
        let opened = self.handle(session, handle)?;
        self.check_phase(opened.has(mq::MQOO_FAIL_IF_QUIESCING))?;
        if !opened.has(mq::MQOO_SET) {
            return Err(Reason(mq::MQRC_NOT_OPEN_FOR_SET));
        }
        let mut definition = self.definition(&opened.opened)?.clone();
        for (selector, number) in attributes {
            if ![mq::MQIA_INHIBIT_GET, mq::MQIA_INHIBIT_PUT].contains(selector) {
                return Err(Reason(mq::MQRC_SELECTOR_ERROR));
            }
            let set = definition.set(*selector, &Attribute::Number(*number));
            set.ok_or(Reason(mq::MQRC_INHIBIT_VALUE_ERROR))?;
        }
        self.redefine(definition);
        done(Answer::None)
    }

    /// Replaces a definition, of a queue that is there.
    pub(super) fn redefine(&mut self, definition: Definition) {
        if !definition.is_temporary() {
            self.journal.append(&Record::Define(definition.clone()));
        }
        if let Some(queue) = self.queues.get_mut(&definition.name) {
            queue.definition = definition;
            queue.wake();
        }
    }
}
