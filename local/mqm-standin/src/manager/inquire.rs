//! MQINQ and MQSET.

use libmqm_sys as mq;

use super::journal::Record;
use super::queue::Queue;
use super::session::Handle;
use super::state::State;
use crate::definition::{Definition, Kind};
use crate::protocol::{Answer, Attribute, Chars, Reason, Reply};

/// Attributes that a queue keeps by itself.
const LIVE: [i32; 9] = [
    mq::MQIA_CURRENT_Q_DEPTH,
    mq::MQIA_OPEN_INPUT_COUNT,
    mq::MQIA_OPEN_OUTPUT_COUNT,
    mq::MQIA_Q_TYPE,
    mq::MQCA_Q_NAME,
    mq::MQCA_CREATION_DATE,
    mq::MQCA_CREATION_TIME,
    mq::MQCA_ALTERATION_DATE,
    mq::MQCA_ALTERATION_TIME,
];

/// What MQSET may change.
const SETTABLE: [i32; 8] = [
    mq::MQIA_INHIBIT_GET,
    mq::MQIA_INHIBIT_PUT,
    mq::MQIA_TRIGGER_CONTROL,
    mq::MQIA_TRIGGER_DEPTH,
    mq::MQIA_TRIGGER_MSG_PRIORITY,
    mq::MQIA_TRIGGER_TYPE,
    mq::MQIA_DIST_LISTS,
    mq::MQCA_TRIGGER_DATA,
];

impl State {
    pub(super) fn inquire(&mut self, session: u64, handle: i32, selectors: &[i32]) -> Reply {
        let values = self.values(session, handle, selectors);
        match values {
            Ok(values) if values.contains(&None) => {
                Reply::warning(mq::MQRC_SELECTOR_NOT_FOR_TYPE, Answer::Inquired(values))
            }
            Ok(values) => Reply::ok(Answer::Inquired(values)),
            Err(Reason(reason)) => Reply::failed(reason),
        }
    }

    fn values(
        &mut self,
        session: u64,
        handle: i32,
        selectors: &[i32],
    ) -> Result<Vec<Option<Attribute>>, Reason> {
        let opened = self.handle(session, handle)?;
        if !opened.has(mq::MQOO_INQUIRE) {
            return Err(Reason(mq::MQRC_NOT_OPEN_FOR_INQUIRE));
        }
        let (is_manager, name) = (opened.is_manager, opened.opened.clone());
        self.check_phase(opened.has(mq::MQOO_FAIL_IF_QUIESCING))?;
        self.check_deleted(session, handle)?;
        let mut values = Vec::with_capacity(selectors.len());
        for &selector in selectors {
            let value = if is_manager { self.of_manager(selector) } else { self.of_queue(&name, selector) };
            let known = LIVE.contains(&selector) || Definition::is_known(selector);
            match value {
                None if is_manager || !known => return Err(Reason(mq::MQRC_SELECTOR_ERROR)),
                value => values.push(value),
            }
        }
        Ok(values)
    }

    fn check_deleted(&mut self, session: u64, handle: i32) -> Result<(), Reason> {
        let Handle { queue, .. } = self.handle(session, handle)?;
        match queue.clone() {
            Some((name, id)) => self.opened_queue(&name, id).map(|_| ()),
            None => Ok(()),
        }
    }

    fn of_queue(&self, name: &Chars, selector: i32) -> Option<Attribute> {
        self.queues.get(name)?.attribute(selector)
    }

    pub(crate) fn of_manager(&self, selector: i32) -> Option<Attribute> {
        let configuration = &self.configuration;
        let text = |text: &str, length| Some(Attribute::Text(Chars::from(text).padded(length)));
        let uncommitted = i32::try_from(configuration.max_uncommitted).unwrap_or(i32::MAX);
        let number = match selector {
            mq::MQIA_PLATFORM => mq::MQPL_UNIX,
            mq::MQIA_COMMAND_LEVEL => mq::MQCMDL_CURRENT_LEVEL,
            mq::MQIA_CODED_CHAR_SET_ID => configuration.ccsid,
            mq::MQIA_MAX_MSG_LENGTH => configuration.max_message_length,
            mq::MQIA_MAX_UNCOMMITTED_MSGS => uncommitted,
            mq::MQIA_MAX_PRIORITY => 9,
            mq::MQIA_MAX_HANDLES => 256,
            mq::MQIA_SYNCPOINT => mq::MQSP_AVAILABLE,
            mq::MQIA_DIST_LISTS => mq::MQDL_NOT_SUPPORTED,
            mq::MQIA_PUBSUB_MODE => mq::MQPSM_DISABLED,
            mq::MQIA_TRIGGER_INTERVAL => 999_999_999,
            mq::MQIA_MSG_MARK_BROWSE_INTERVAL => 5_000,
            mq::MQIA_AUTHORITY_EVENT
            | mq::MQIA_INHIBIT_EVENT
            | mq::MQIA_LOCAL_EVENT
            | mq::MQIA_REMOTE_EVENT
            | mq::MQIA_START_STOP_EVENT
            | mq::MQIA_PERFORMANCE_EVENT => mq::pcf::MQEVR_DISABLED,
            mq::MQIA_MAX_PROPERTIES_LENGTH => mq::MQPROP_UNRESTRICTED_LENGTH,
            mq::MQCA_Q_MGR_NAME => return text(&configuration.name, mq::MQ_Q_MGR_NAME_LENGTH),
            mq::MQCA_Q_MGR_DESC => return text(&configuration.description, mq::MQ_Q_MGR_DESC_LENGTH),
            mq::MQCA_Q_MGR_IDENTIFIER => {
                let identifier = format!("{}_STAND-IN", configuration.name);
                return text(&identifier, mq::MQ_Q_MGR_IDENTIFIER_LENGTH);
            }
            mq::MQCA_DEAD_LETTER_Q_NAME => {
                return text(&configuration.dead_letter_queue, mq::MQ_Q_NAME_LENGTH);
            }
            mq::MQCA_COMMAND_INPUT_Q_NAME => {
                return text("SYSTEM.ADMIN.COMMAND.QUEUE", mq::MQ_Q_NAME_LENGTH);
            }
            mq::MQCA_DEF_XMIT_Q_NAME | mq::MQCA_REPOSITORY_NAME | mq::MQCA_REPOSITORY_NAMELIST => {
                return text("", mq::MQ_Q_NAME_LENGTH);
            }
            _ => return None,
        };
        Some(Attribute::Number(number))
    }

    pub(super) fn set(
        &mut self,
        session: u64,
        handle: i32,
        attributes: &[(i32, Attribute)],
    ) -> Result<Answer, Reason> {
        let opened = self.handle(session, handle)?;
        self.check_phase(opened.has(mq::MQOO_FAIL_IF_QUIESCING))?;
        if !opened.has(mq::MQOO_SET) {
            return Err(Reason(mq::MQRC_NOT_OPEN_FOR_SET));
        }
        let name = opened.opened.clone();
        let mut definition = self.definition(&name)?.clone();
        for (selector, value) in attributes {
            if !SETTABLE.contains(selector) {
                return Err(Reason(mq::MQRC_SELECTOR_ERROR));
            }
            let done = match value {
                Attribute::Number(number) => definition.set_number(*selector, *number),
                Attribute::Text(text) => definition.set_text(*selector, &Chars::from_field(text)),
            };
            done.ok_or(Reason(mq::MQRC_INHIBIT_VALUE_ERROR))?;
        }
        self.redefine(definition);
        Ok(Answer::None)
    }

    /// Replaces a definition, of a queue that is there.
    pub(crate) fn redefine(&mut self, definition: Definition) {
        if !definition.is_temporary() {
            self.journal.append(&Record::Define(definition.clone()));
        }
        if let Some(queue) = self.queues.get_mut(&definition.name) {
            queue.definition = definition;
            queue.wake();
        }
    }
}

impl Queue {
    /// An attribute as MQINQ and the command server return it.
    pub(crate) fn attribute(&self, selector: i32) -> Option<Attribute> {
        let stores = self.definition.kind == Kind::Local;
        let count =
            |count: usize| stores.then(|| Attribute::Number(i32::try_from(count).unwrap_or(i32::MAX)));
        let (date, time) = crate::clock::date_and_time(self.definition.created);
        let text = |text: &str, length| Some(Attribute::Text(Chars::from(text).padded(length)));
        match selector {
            mq::MQIA_CURRENT_Q_DEPTH => count(self.depth()),
            mq::MQIA_OPEN_INPUT_COUNT => count(self.inputs),
            mq::MQIA_OPEN_OUTPUT_COUNT => count(self.outputs),
            mq::MQIA_Q_TYPE => Some(Attribute::Number(self.definition.kind.queue_type())),
            mq::MQCA_Q_NAME => Some(Attribute::Text(self.definition.name.padded(mq::MQ_Q_NAME_LENGTH))),
            mq::MQCA_CREATION_DATE | mq::MQCA_ALTERATION_DATE => text(&date, mq::MQ_DATE_LENGTH),
            mq::MQCA_CREATION_TIME | mq::MQCA_ALTERATION_TIME => text(&time, mq::MQ_TIME_LENGTH),
            _ => {
                let number = self.definition.number(selector).map(Attribute::Number);
                number.or_else(|| self.definition.text(selector).map(Attribute::Text))
            }
        }
    }
}
