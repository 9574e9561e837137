//! MQINQ, which returns attributes of a queue or of the queue manager.

use libmqm_sys as mq;

use super::queue::Queue;
use super::state::State;
use crate::definition::Kind;
use crate::protocol::{Answer, Attribute, Chars, Reason, Reply, done};
use crate::text::UTF_8;

impl State {
    pub(super) fn inquire(&mut self, session: u64, handle: i32, selectors: &[i32]) -> Reply {
        let opened = self.handle(session, handle)?;
        if !opened.has(mq::MQOO_INQUIRE) {
            return Err(Reason(mq::MQRC_NOT_OPEN_FOR_INQUIRE));
        }
        self.check_phase(opened.has(mq::MQOO_FAIL_IF_QUIESCING))?;
        let (is_manager, name, queue) = (opened.is_manager, opened.opened.clone(), opened.queue.clone());
        if let Some(queue) = queue {
            self.queue(&queue)?;
        }
        let queue = self.queues.get(&name);
        let value = |selector: &i32| match queue {
            _ if is_manager => self.of_manager(*selector),
            queue => queue.and_then(|queue| queue.attribute(*selector)),
        };
        let values: Option<Vec<_>> = selectors.iter().map(value).collect();
        done(Answer::Inquired(values.ok_or(Reason(mq::MQRC_SELECTOR_ERROR))?))
    }

    fn of_manager(&self, selector: i32) -> Option<Attribute> {
        let configuration = &self.configuration;
        let text = |text: &str, length| Attribute::Text(Chars::from(text).padded(length));
        Some(match selector {
            mq::MQIA_PLATFORM => Attribute::Number(mq::MQPL_UNIX),
            mq::MQIA_COMMAND_LEVEL => Attribute::Number(mq::MQCMDL_CURRENT_LEVEL),
            mq::MQIA_CODED_CHAR_SET_ID => Attribute::Number(UTF_8),
            mq::MQIA_MAX_UNCOMMITTED_MSGS => number(configuration.max_uncommitted),
            mq::MQCA_Q_MGR_NAME => text(&configuration.name, mq::MQ_Q_MGR_NAME_LENGTH),
            mq::MQCA_Q_MGR_IDENTIFIER => {
                text(&format!("{}_STAND-IN", configuration.name), mq::MQ_Q_MGR_IDENTIFIER_LENGTH)
            }
            _ => return None,
        })
    }
}

fn number(count: usize) -> Attribute {
    Attribute::Number(i32::try_from(count).unwrap_or(i32::MAX))
}

impl Queue {
    fn attribute(&self, selector: i32) -> Option<Attribute> {
        let definition = &self.definition;
        let is_local = definition.kind == Kind::Local;
        let stores = is_local || definition.kind == Kind::Model;
        let name = |name: &Chars| Attribute::Text(name.padded(mq::MQ_Q_NAME_LENGTH));
        Some(match selector {
            mq::MQIA_CURRENT_Q_DEPTH if is_local => number(self.depth()),
            mq::MQIA_MAX_Q_DEPTH if stores => Attribute::Number(definition.max_depth),
            mq::MQIA_OPEN_INPUT_COUNT if is_local => number(self.inputs),
            mq::MQIA_OPEN_OUTPUT_COUNT if is_local => number(self.outputs),
            mq::MQIA_BACKOUT_THRESHOLD if stores => Attribute::Number(definition.backout_threshold),
            mq::MQIA_Q_TYPE => Attribute::Number(definition.kind as i32),
            mq::MQCA_Q_NAME => name(&definition.name),
            mq::MQCA_BACKOUT_REQ_Q_NAME if stores => name(&definition.backout_queue),
            mq::MQCA_BASE_Q_NAME if definition.kind == Kind::Alias => name(&definition.target),
            _ => return None,
        })
    }
}
