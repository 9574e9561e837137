//! Inquiries: queue manager, queues, their names and status.

use libmqm_sys as mq;
use libmqm_sys::pcf as ids;

use super::command_server::Done;
use super::pcf::{Command, Response, Value};
use crate::configuration::Right;
use crate::definition::{ENTRIES, Kind};
use crate::manager::{LIVE, Queue, State};
use crate::protocol::{Attribute, Chars};

/// The attributes of the queue manager that a reply has.
const OF_MANAGER: [i32; 8] = [
    mq::MQCA_Q_MGR_NAME,
    mq::MQCA_Q_MGR_DESC,
    mq::MQCA_Q_MGR_IDENTIFIER,
    mq::MQCA_DEAD_LETTER_Q_NAME,
    mq::MQIA_PLATFORM,
    mq::MQIA_COMMAND_LEVEL,
    mq::MQIA_CODED_CHAR_SET_ID,
    mq::MQIA_MAX_UNCOMMITTED_MSGS,
];

impl From<Attribute> for Value {
    fn from(attribute: Attribute) -> Self {
        match attribute {
            Attribute::Number(number) => Self::Number(number),
            Attribute::Text(text) => Self::Text(Chars::from_field(&text)),
        }
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Self::Number(i32::try_from(count).unwrap_or(i32::MAX))
    }
}

/// The type of queue that a command names; `None` for any.
pub(super) fn kind_of(command: &Command) -> Result<Option<Kind>, i32> {
    let wanted = command.number(mq::MQIA_Q_TYPE).filter(|kind| *kind != mq::MQQT_ALL);
    let Some(wanted) = wanted else { return Ok(None) };
    let kind = Kind::ALL.into_iter().find(|kind| kind.queue_type() == wanted);
    kind.map(Some).ok_or(ids::MQRCCF_Q_TYPE_ERROR)
}

impl State {
    pub(super) fn inquire_manager(&self) -> Response {
        let value = |selector| Some((selector, self.of_manager(selector)?.into()));
        Response { reason: 0, parameters: OF_MANAGER.into_iter().filter_map(value).collect() }
    }

    /// The queues that a command names, of its type and through its filters, that the user may
    /// inquire.
    fn chosen(&self, command: &Command, user: &str) -> Result<Vec<&Queue>, i32> {
        let pattern = command.text(mq::MQCA_Q_NAME).ok_or(ids::MQRCCF_PARM_COUNT_TOO_SMALL)?;
        let kind = kind_of(command)?;
        let mut chosen: Vec<_> = self.queues.values().collect();
        chosen.retain(|queue| matches(pattern.as_bytes(), queue.definition.name.as_bytes()));
        chosen.retain(|queue| kind.is_none_or(|kind| kind == queue.definition.kind));
        if chosen.is_empty() {
            return Err(mq::MQRC_UNKNOWN_OBJECT_NAME);
        }
        chosen.retain(|queue| self.configuration.may(user, &queue.definition.name, Right::Inquire));
        if chosen.is_empty() {
            return Err(mq::MQRC_NOT_AUTHORIZED);
        }
        for parameter in &command.parameters {
            let passes = |queue: &&Queue| parameter.value.admits(queue.attribute(parameter.id).as_ref());
            chosen.retain(passes);
        }
        if chosen.is_empty() { Err(ids::MQRCCF_NONE_FOUND) } else { Ok(chosen) }
    }

    pub(super) fn inquire_queues(&self, command: &Command, user: &str) -> Done {
        // All attributes are asked for if the command lists none.
        let is_asked = |selector: i32| match command.value(ids::MQIACF_Q_ATTRS) {
            Some(Value::Numbers(asked)) => asked.contains(&ids::MQIACF_ALL) || asked.contains(&selector),
            Some(Value::Number(asked)) => *asked == ids::MQIACF_ALL || *asked == selector,
            _ => true,
        };
        let always = [mq::MQCA_Q_NAME, mq::MQIA_Q_TYPE];
        let selectors = LIVE.into_iter().chain(ENTRIES.iter().map(|entry| entry.selector));
        let selectors: Vec<_> = selectors.filter(|at| always.contains(at) || is_asked(*at)).collect();
        let response = |queue: &Queue| {
            let value = |at: &i32| Some((*at, queue.attribute(*at)?.into()));
            Response { reason: 0, parameters: selectors.iter().filter_map(value).collect() }
        };
        Ok(self.chosen(command, user)?.into_iter().map(response).collect())
    }

    pub(super) fn inquire_names(&self, command: &Command, user: &str) -> Done {
        let chosen = self.chosen(command, user)?;
        let names = chosen.iter().map(|queue| queue.definition.name.clone()).collect();
        let kinds = chosen.iter().map(|queue| queue.definition.kind.queue_type()).collect();
        let parameters =
            vec![(ids::MQCACF_Q_NAMES, Value::Texts(names)), (ids::MQIACF_Q_TYPES, Value::Numbers(kinds))];
        Ok(vec![Response { reason: 0, parameters }])
    }

    pub(super) fn inquire_status(&self, command: &Command, user: &str) -> Done {
        let mut chosen = self.chosen(command, user)?;
        chosen.retain(|queue| queue.definition.kind == Kind::Local);
        let response = |queue: &Queue| Response {
            reason: 0,
            parameters: vec![
                (mq::MQCA_Q_NAME, Value::Text(queue.definition.name.clone())),
                (ids::MQIACF_Q_STATUS_TYPE, Value::Number(ids::MQIACF_Q_STATUS)),
                (mq::MQIA_CURRENT_Q_DEPTH, queue.depth().into()),
                (mq::MQIA_OPEN_INPUT_COUNT, queue.inputs.into()),
                (mq::MQIA_OPEN_OUTPUT_COUNT, queue.outputs.into()),
                (ids::MQIACF_UNCOMMITTED_MSGS, queue.uncommitted().into()),
            ],
        };
        Ok(chosen.into_iter().map(response).collect())
    }
}

/// A name, or the beginning of names before an asterisk.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.strip_suffix(b"*") {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

impl Value {
    /// True if a filter of numbers admits an attribute. A queue without the attribute does not
    /// pass; a value that is no filter admits all.
    fn admits(&self, attribute: Option<&Attribute>) -> bool {
        let Self::NumberFilter(operator, wanted) = self else { return true };
        let Some(Attribute::Number(number)) = attribute else { return false };
        match *operator {
            ids::MQCFOP_LESS => number < wanted,
            ids::MQCFOP_EQUAL => number == wanted,
            ids::MQCFOP_GREATER => number > wanted,
            ids::MQCFOP_NOT_LESS => number >= wanted,
            ids::MQCFOP_NOT_EQUAL => number != wanted,
            ids::MQCFOP_NOT_GREATER => number <= wanted,
            _ => false,
        }
    }
}
