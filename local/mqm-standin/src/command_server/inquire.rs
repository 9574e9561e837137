//! Inquiries: queue manager, queues, their names and status.

use libmqm_sys as mq;
use libmqm_sys::pcf as ids;

use super::Done;
use super::pcf::{Command, Response, Value};
use crate::configuration::Right;
use crate::definition::Kind;
use crate::manager::{Queue, State};
use crate::protocol::{Attribute, Chars};

/// Attributes that a queue has beside what is defined of it.
const LIVE: [i32; 8] = [
    mq::MQIA_CURRENT_Q_DEPTH,
    mq::MQIA_OPEN_INPUT_COUNT,
    mq::MQIA_OPEN_OUTPUT_COUNT,
    mq::MQIA_DEFINITION_TYPE,
    mq::MQCA_CREATION_DATE,
    mq::MQCA_CREATION_TIME,
    mq::MQCA_ALTERATION_DATE,
    mq::MQCA_ALTERATION_TIME,
];

const OF_MANAGER: [i32; 15] = [
    mq::MQCA_Q_MGR_NAME,
    mq::MQCA_Q_MGR_DESC,
    mq::MQCA_Q_MGR_IDENTIFIER,
    mq::MQCA_DEAD_LETTER_Q_NAME,
    mq::MQCA_COMMAND_INPUT_Q_NAME,
    mq::MQCA_DEF_XMIT_Q_NAME,
    mq::MQIA_PLATFORM,
    mq::MQIA_COMMAND_LEVEL,
    mq::MQIA_CODED_CHAR_SET_ID,
    mq::MQIA_MAX_MSG_LENGTH,
    mq::MQIA_MAX_UNCOMMITTED_MSGS,
    mq::MQIA_MAX_PRIORITY,
    mq::MQIA_MAX_HANDLES,
    mq::MQIA_SYNCPOINT,
    mq::MQIA_PUBSUB_MODE,
];

fn value(attribute: Attribute) -> Value {
    match attribute {
        Attribute::Number(number) => Value::Number(number),
        Attribute::Text(text) => Value::Text(Chars::from_field(&text)),
    }
}

/// Whether the attribute is among those that the command lists; all are if it lists none.
fn is_asked(command: &Command, list: i32, selector: i32) -> bool {
    match command.value(list) {
        Some(Value::Numbers(asked)) => asked.contains(&ids::MQIACF_ALL) || asked.contains(&selector),
        Some(Value::Number(asked)) => *asked == ids::MQIACF_ALL || *asked == selector,
        _ => true,
    }
}

impl State {
    pub(super) fn inquire_manager(&self, command: &Command) -> Response {
        let asked = OF_MANAGER.into_iter().filter(|selector| {
            *selector == mq::MQCA_Q_MGR_NAME || is_asked(command, ids::MQIACF_Q_MGR_ATTRS, *selector)
        });
        let parameters = asked.filter_map(|selector| Some((selector, value(self.of_manager(selector)?))));
        Response { reason: 0, parameters: parameters.collect() }
    }

    /// The queues that a command names, of its type and through its filters, that the user may
    /// inquire.
    fn chosen<'a>(&'a self, command: &Command, user: &str) -> Result<Vec<&'a Queue>, i32> {
        let pattern = command.text(mq::MQCA_Q_NAME).ok_or(ids::MQRCCF_PARM_COUNT_TOO_SMALL)?;
        let kind = command.number(mq::MQIA_Q_TYPE).filter(|kind| *kind != mq::MQQT_ALL);
        let kind = match kind {
            Some(kind) => Some(Kind::from_queue_type(kind).ok_or(ids::MQRCCF_Q_TYPE_ERROR)?),
            None => None,
        };
        let named = |queue: &&Queue| matches(pattern.as_bytes(), queue.definition.name.as_bytes());
        let of_kind = |queue: &&Queue| kind.is_none_or(|kind| kind == queue.definition.kind);
        let found: Vec<_> = self.queues.values().filter(named).filter(of_kind).collect();
        if found.is_empty() {
            return Err(mq::MQRC_UNKNOWN_OBJECT_NAME);
        }
        let may = |queue: &&Queue| self.may(user, &queue.definition.name, Right::Inquire);
        let allowed: Vec<_> = found.into_iter().filter(may).collect();
        if allowed.is_empty() {
            return Err(mq::MQRC_NOT_AUTHORIZED);
        }
        let mut kept = Vec::new();
        for queue in allowed {
            if passes(command, queue)? {
                kept.push(queue);
            }
        }
        if kept.is_empty() { Err(ids::MQRCCF_NONE_FOUND) } else { Ok(kept) }
    }

    pub(super) fn inquire_queues(&self, command: &Command, user: &str) -> Done {
        let response = |queue: &Queue| {
            let name = Value::Text(queue.definition.name.clone());
            let kind = Value::Number(queue.definition.kind.queue_type());
            let mut parameters = vec![(mq::MQCA_Q_NAME, name), (mq::MQIA_Q_TYPE, kind)];
            let defined = queue.definition.texts().map(|(selector, _)| selector);
            let defined = defined.chain(queue.definition.numbers().map(|(selector, _)| selector));
            let mut selectors: Vec<i32> = LIVE.into_iter().chain(defined).collect();
            selectors.sort_unstable();
            selectors.dedup();
            let asked = selectors.into_iter().filter(|at| is_asked(command, ids::MQIACF_Q_ATTRS, *at));
            parameters.extend(asked.filter_map(|at| Some((at, value(queue.attribute(at)?)))));
            Response { reason: 0, parameters }
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
        let stores = |queue: &&Queue| queue.definition.kind == Kind::Local;
        let number = |count: usize| Value::Number(i32::try_from(count).unwrap_or(i32::MAX));
        let response = |queue: &Queue| Response {
            reason: 0,
            parameters: vec![
                (mq::MQCA_Q_NAME, Value::Text(queue.definition.name.clone())),
                (ids::MQIACF_Q_STATUS_TYPE, Value::Number(ids::MQIACF_Q_STATUS)),
                (mq::MQIA_CURRENT_Q_DEPTH, number(queue.depth())),
                (mq::MQIA_OPEN_INPUT_COUNT, number(queue.inputs)),
                (mq::MQIA_OPEN_OUTPUT_COUNT, number(queue.outputs)),
                (ids::MQIACF_UNCOMMITTED_MSGS, number(queue.uncommitted())),
            ],
        };
        Ok(self.chosen(command, user)?.into_iter().filter(stores).map(response).collect())
    }
}

/// A name, or the beginning of names before an asterisk.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.strip_suffix(b"*") {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

/// Whether a queue passes the command's filters.
fn passes(command: &Command, queue: &Queue) -> Result<bool, i32> {
    for parameter in command.parameters() {
        let attribute = queue.attribute(parameter.id);
        let passed = match (&parameter.value, attribute) {
            (Value::NumberFilter(operator, wanted), Some(Attribute::Number(number))) => match *operator {
                ids::MQCFOP_LESS => number < *wanted,
                ids::MQCFOP_EQUAL => number == *wanted,
                ids::MQCFOP_GREATER => number > *wanted,
                ids::MQCFOP_NOT_LESS => number >= *wanted,
                ids::MQCFOP_NOT_EQUAL => number != *wanted,
                ids::MQCFOP_NOT_GREATER => number <= *wanted,
                _ => return Err(ids::MQRCCF_CFIF_OPERATOR_ERROR),
            },
            (Value::TextFilter(operator, wanted), Some(Attribute::Text(text))) => {
                let text = Chars::from_field(&text);
                let like = matches(wanted.as_bytes(), text.as_bytes());
                match *operator {
                    ids::MQCFOP_EQUAL => text == *wanted,
                    ids::MQCFOP_NOT_EQUAL => text != *wanted,
                    ids::MQCFOP_LIKE => like,
                    ids::MQCFOP_NOT_LIKE => !like,
                    _ => return Err(ids::MQRCCF_CFSF_OPERATOR_ERROR),
                }
            }
            // A queue without the attribute does not pass.
            (Value::NumberFilter(..) | Value::TextFilter(..), _) => false,
            _ => true,
        };
        if !passed {
            return Ok(false);
        }
    }
    Ok(true)
}
