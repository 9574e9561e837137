//! The command server: administrators' programs put commands on its queue and get replies.

use libmqm_sys as mq;
use libmqm_sys::pcf as ids;

use super::pcf::{Command, Response};
use crate::configuration::Right;
use crate::manager::{State, Stored, now};
use crate::protocol::{Chars, Context, Descriptor, Match, Message};

const QUEUE: &str = "SYSTEM.ADMIN.COMMAND.QUEUE";

/// The replies to a command, or the reason why it failed.
pub(super) type Done = Result<Vec<Response>, i32>;

impl State {
    /// Called with each queue that got messages. Carries out what has come for the command server.
    pub(crate) fn arrived(&mut self, name: &Chars) {
        if name.as_bytes() != QUEUE.as_bytes() {
            return;
        }
        while let Some(request) = self.next_command(name) {
            for reply in self.carry_out(&request) {
                self.reply(&request.descriptor, reply);
            }
        }
    }

    fn next_command(&mut self, name: &Chars) -> Option<Message> {
        let queue = self.queues.get_mut(name)?;
        let place = queue.find(&Match::default(), None, None)?;
        let taken = [(place, queue.take_ready(place)?)];
        self.forget(name, &taken);
        let [(_, stored)] = taken;
        Some(stored.message)
    }

    /// The messages of the reply, the last one with the command's end.
    fn carry_out(&mut self, request: &Message) -> Vec<Vec<u8>> {
        let reversed = request.descriptor.encoding & mq::MQENC_INTEGER_MASK == mq::MQENC_INTEGER_REVERSED;
        let is_command = request.descriptor.format == Chars::from(mq::MQFMT_ADMIN);
        let (code, done) = match Command::read(&request.body, reversed) {
            _ if !is_command => (0, Err(ids::MQRCCF_MD_FORMAT_ERROR)),
            Err((code, reason)) => (code, Err(reason)),
            Ok(command) => {
                (command.code, self.command(&command, &request.descriptor.context.user.to_string()))
            }
        };
        // A command that fails says why, and then that it failed.
        let failed = |reason| [reason, ids::MQRCCF_COMMAND_FAILED].map(Response::failed).into();
        let responses = done.unwrap_or_else(failed);
        let count = responses.len();
        let numbered = responses.iter().enumerate();
        numbered.map(|(at, response)| response.write(code, at + 1, at + 1 == count)).collect()
    }

    fn command(&mut self, command: &Command, user: &str) -> Done {
        match command.code {
            ids::MQCMD_PING_Q_MGR => Ok(vec![Response::default()]),
            ids::MQCMD_INQUIRE_Q_MGR => Ok(vec![self.inquire_manager()]),
            ids::MQCMD_INQUIRE_Q => self.inquire_queues(command, user),
            ids::MQCMD_INQUIRE_Q_NAMES => self.inquire_names(command, user),
            ids::MQCMD_INQUIRE_Q_STATUS => self.inquire_status(command, user),
            ids::MQCMD_CREATE_Q | ids::MQCMD_CHANGE_Q | ids::MQCMD_DELETE_Q | ids::MQCMD_CLEAR_Q => {
                let name = command.name()?;
                if !self.configuration.may(user, &name, Right::Administer) {
                    return Err(mq::MQRC_NOT_AUTHORIZED);
                }
                self.administer(command, &name)?;
                Ok(vec![Response::default()])
            }
            _ => Err(ids::MQRCCF_CFH_COMMAND_ERROR),
        }
    }

    /// Puts the reply where the request wants it. A reply that cannot be put there is lost, as a
    /// dead letter.
    fn reply(&mut self, request: &Descriptor, body: Vec<u8>) {
        let number = self.number();
        let (put_date, put_time) = now();
        let passes = |option: i32| request.report & option != 0;
        let descriptor = Descriptor {
            message_type: mq::MQMT_REPLY,
            expiry: match passes(mq::MQRO_PASS_DISCARD_AND_EXPIRY) {
                true => request.expiry,
                false => mq::MQEI_UNLIMITED,
            },
            ccsid: self.configuration.ccsid,
            format: Chars::from(mq::MQFMT_ADMIN),
            priority: request.priority,
            persistence: mq::MQPER_NOT_PERSISTENT,
            message_id: self.id(number),
            correlation_id: match passes(mq::MQRO_PASS_CORREL_ID) {
                true => request.correlation_id,
                false => request.message_id,
            },
            context: Context {
                application_type: mq::MQAT_QMGR,
                application: Chars::from("mqm-standin"),
                put_date,
                put_time,
                origin_data: Chars::default(),
                ..request.context.clone()
            },
            ..Descriptor::default()
        };
        let dead_letters = Chars::from(self.configuration.dead_letter_queue.as_str());
        let takes = |name: &Chars| self.queues.get(name).is_some_and(|queue| !queue.is_full());
        let wanted = [request.reply_to_queue.clone(), dead_letters].into_iter().find(takes);
        if let Some(queue) = wanted.and_then(|name| self.queues.get_mut(&name)) {
            let place = queue.place(descriptor.priority, number);
            queue.add(place, Stored::from(Message { descriptor, properties: Vec::new(), body }), None);
        }
    }
}
