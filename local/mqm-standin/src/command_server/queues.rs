//! Commands that make, change, clear and delete queues.

use libmqm_sys as mq;
use libmqm_sys::pcf as ids;

use super::Done;
use super::pcf::{Command, Response, Value};
use crate::definition::{Definition, Kind};
use crate::manager::{Record, State, is_name};
use crate::protocol::Chars;

fn done() -> Done {
    Ok(vec![Response::default()])
}

fn name(command: &Command) -> Result<Chars, i32> {
    let name = command.text(mq::MQCA_Q_NAME).ok_or(ids::MQRCCF_PARM_COUNT_TOO_SMALL)?;
    if is_name(&name.to_string()) { Ok(name.clone()) } else { Err(ids::MQRCCF_OBJECT_NAME_ERROR) }
}

/// Sets the attributes that the command brings.
fn apply(command: &Command, definition: &mut Definition) -> Result<(), i32> {
    const OWN: [i32; 4] = [mq::MQCA_Q_NAME, mq::MQIA_Q_TYPE, ids::MQIACF_REPLACE, ids::MQIACF_FORCE];
    for parameter in command.parameters().filter(|parameter| !OWN.contains(&parameter.id)) {
        let (set, unknown) = match &parameter.value {
            Value::Number(number) => {
                (definition.set_number(parameter.id, *number), ids::MQRCCF_CFIN_PARM_ID_ERROR)
            }
            Value::Text(text) => (definition.set_text(parameter.id, text), ids::MQRCCF_CFST_PARM_ID_ERROR),
            _ => return Err(ids::MQRCCF_STRUCTURE_TYPE_ERROR),
        };
        let known = Definition::is_known(parameter.id);
        set.ok_or(if known { ids::MQRCCF_ATTR_VALUE_ERROR } else { unknown })?;
    }
    Ok(())
}

impl State {
    pub(super) fn create_queue(&mut self, command: &Command, user: &str) -> Done {
        let name = name(command)?;
        self.administers(user, &name)?;
        let kind = command.number(mq::MQIA_Q_TYPE).ok_or(ids::MQRCCF_PARM_COUNT_TOO_SMALL)?;
        let kind = Kind::from_queue_type(kind).ok_or(ids::MQRCCF_Q_TYPE_ERROR)?;
        let mut definition = Definition::new(name.clone(), kind);
        if kind == Kind::Model {
            definition
                .set_number(mq::MQIA_DEFINITION_TYPE, mq::MQQDT_TEMPORARY_DYNAMIC)
                .ok_or(ids::MQRCCF_ATTR_VALUE_ERROR)?;
        }
        apply(command, &mut definition)?;
        match self.queues.get(&name) {
            Some(_) if command.number(ids::MQIACF_REPLACE) != Some(ids::MQRP_YES) => {
                Err(ids::MQRCCF_OBJECT_ALREADY_EXISTS)
            }
            Some(queue) if queue.definition.kind != kind => Err(ids::MQRCCF_OBJECT_WRONG_TYPE),
            Some(_) => {
                self.redefine(definition);
                done()
            }
            None => {
                self.journal.append(&Record::Define(definition.clone()));
                self.define(definition);
                done()
            }
        }
    }

    pub(super) fn change_queue(&mut self, command: &Command, user: &str) -> Done {
        let name = name(command)?;
        self.administers(user, &name)?;
        let queue = self.queues.get(&name).ok_or(mq::MQRC_UNKNOWN_OBJECT_NAME)?;
        let mut definition = queue.definition.clone();
        let kind = command.number(mq::MQIA_Q_TYPE);
        if kind.is_some_and(|kind| kind != definition.kind.queue_type()) {
            return Err(ids::MQRCCF_OBJECT_WRONG_TYPE);
        }
        apply(command, &mut definition)?;
        self.redefine(definition);
        done()
    }

    pub(super) fn delete_queue(&mut self, command: &Command, user: &str) -> Done {
        let name = name(command)?;
        self.administers(user, &name)?;
        let queue = self.queues.get(&name).ok_or(mq::MQRC_UNKNOWN_OBJECT_NAME)?;
        let kind = command.number(mq::MQIA_Q_TYPE).filter(|kind| *kind != mq::MQQT_ALL);
        if kind.is_some_and(|kind| kind != queue.definition.kind.queue_type()) {
            return Err(ids::MQRCCF_OBJECT_WRONG_TYPE);
        }
        if queue.is_open() {
            return Err(ids::MQRCCF_OBJECT_OPEN);
        }
        let purges = command.number(ids::MQIACF_PURGE) == Some(ids::MQPO_YES);
        if queue.uncommitted() > 0 || (!purges && !queue.is_empty()) {
            return Err(mq::MQRC_Q_NOT_EMPTY);
        }
        self.delete(&name);
        done()
    }

    pub(super) fn clear_queue(&mut self, command: &Command, user: &str) -> Done {
        let name = name(command)?;
        self.administers(user, &name)?;
        let queue = self.queues.get_mut(&name).ok_or(mq::MQRC_UNKNOWN_OBJECT_NAME)?;
        if queue.definition.kind != Kind::Local {
            return Err(ids::MQRCCF_OBJECT_WRONG_TYPE);
        }
        if queue.is_open() {
            return Err(mq::MQRC_OBJECT_IN_USE);
        }
        if queue.uncommitted() > 0 {
            return Err(mq::MQRC_Q_NOT_EMPTY);
        }
        let gone = queue.clear();
        self.forget(&name, &gone);
        done()
    }
}
