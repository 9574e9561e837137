//! Commands that make, change, clear and delete queues.

use libmqm_sys as mq;
use libmqm_sys::pcf as ids;

use super::inquire::kind_of;
use super::pcf::{Command, Value};
use crate::definition::{Definition, Kind};
use crate::manager::{Queue, Record, State, is_name};
use crate::protocol::{Attribute, Chars};

impl Command {
    /// The name of the queue that the command is about.
    pub(super) fn name(&self) -> Result<Chars, i32> {
        let name = self.text(mq::MQCA_Q_NAME).ok_or(ids::MQRCCF_PARM_COUNT_TOO_SMALL)?;
        if is_name(&name.to_string()) { Ok(name.clone()) } else { Err(ids::MQRCCF_OBJECT_NAME_ERROR) }
    }

    /// Sets the attributes that the command brings.
    fn apply(&self, definition: &mut Definition) -> Result<(), i32> {
        const OWN: [i32; 4] = [mq::MQCA_Q_NAME, mq::MQIA_Q_TYPE, ids::MQIACF_REPLACE, ids::MQIACF_FORCE];
        for parameter in self.parameters.iter().filter(|parameter| !OWN.contains(&parameter.id)) {
            let (value, unknown) = match &parameter.value {
                Value::Number(number) => (Attribute::Number(*number), ids::MQRCCF_CFIN_PARM_ID_ERROR),
                Value::Text(text) => {
                    (Attribute::Text(text.as_bytes().to_vec()), ids::MQRCCF_CFST_PARM_ID_ERROR)
                }
                _ => return Err(ids::MQRCCF_STRUCTURE_TYPE_ERROR),
            };
            let is_known = Definition::is_known(parameter.id);
            let failed = if is_known { ids::MQRCCF_ATTR_VALUE_ERROR } else { unknown };
            definition.set(parameter.id, &value).ok_or(failed)?;
        }
        Ok(())
    }

    /// Refuses a command that names another type of queue.
    fn check_kind(&self, queue: &Queue) -> Result<(), i32> {
        let kind = self.number(mq::MQIA_Q_TYPE).filter(|kind| *kind != mq::MQQT_ALL);
        let is_other = kind.is_some_and(|kind| kind != queue.definition.kind.queue_type());
        if is_other { Err(ids::MQRCCF_OBJECT_WRONG_TYPE) } else { Ok(()) }
    }
}

impl State {
    /// Carries out a command on a queue.
    pub(super) fn administer(&mut self, command: &Command, name: &Chars) -> Result<(), i32> {
        if command.code == ids::MQCMD_CREATE_Q {
            return self.create_queue(command, name);
        }
        let queue = self.queues.get_mut(name).ok_or(mq::MQRC_UNKNOWN_OBJECT_NAME)?;
        let is_open = queue.inputs + queue.outputs > 0;
        match command.code {
            ids::MQCMD_CHANGE_Q => {
                command.check_kind(queue)?;
                let mut definition = queue.definition.clone();
                command.apply(&mut definition)?;
                self.redefine(definition);
            }
            ids::MQCMD_DELETE_Q => {
                command.check_kind(queue)?;
                let purges = command.number(ids::MQIACF_PURGE) == Some(ids::MQPO_YES);
                if is_open {
                    return Err(ids::MQRCCF_OBJECT_OPEN);
                }
                if queue.uncommitted() > 0 || (!purges && !queue.is_empty()) {
                    return Err(mq::MQRC_Q_NOT_EMPTY);
                }
                self.delete(name);
            }
            _ => {
                if queue.definition.kind != Kind::Local {
                    return Err(ids::MQRCCF_OBJECT_WRONG_TYPE);
                }
                if is_open {
                    return Err(mq::MQRC_OBJECT_IN_USE);
                }
                if queue.uncommitted() > 0 {
                    return Err(mq::MQRC_Q_NOT_EMPTY);
                }
                let gone = queue.clear();
                self.forget(name, &gone);
            }
        }
        Ok(())
    }

    fn create_queue(&mut self, command: &Command, name: &Chars) -> Result<(), i32> {
        let kind = kind_of(command)?.ok_or(ids::MQRCCF_PARM_COUNT_TOO_SMALL)?;
        let mut definition = Definition::new(name.clone(), kind);
        command.apply(&mut definition)?;
        let replaces = command.number(ids::MQIACF_REPLACE) == Some(ids::MQRP_YES);
        match self.queues.get(name) {
            Some(_) if !replaces => return Err(ids::MQRCCF_OBJECT_ALREADY_EXISTS),
            Some(queue) if queue.definition.kind != kind => return Err(ids::MQRCCF_OBJECT_WRONG_TYPE),
            Some(_) => self.redefine(definition),
            None => {
                self.journal.append(&Record::Define(definition.clone()));
                self.define(definition);
            }
        }
        Ok(())
    }
}
