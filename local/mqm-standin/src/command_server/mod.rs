//! The command server: administrators' programs put commands on its queue and get replies.

mod inquire;
mod pcf;
mod queues;

use libmqm_sys as mq;
use libmqm_sys::pcf as ids;

use crate::configuration::Right;
use crate::manager::{Place, Search, State, Stored};
use crate::protocol::{Chars, Descriptor, Match, Message, OriginContext};
use pcf::{Command, Response};

const QUEUE: &str = "SYSTEM.ADMIN.COMMAND.QUEUE";

/// What a command came to: its replies, or a reason why it failed.
type Done = Result<Vec<Response>, i32>;

impl State {
    /// Called with each queue that got messages. Carries out what has come for the command server.
    pub(crate) fn arrived(&mut self, name: &Chars) {
        if name.as_bytes() != QUEUE.as_bytes() {
            return;
        }
        while let Some(request) = self.next_command(name) {
            let replies = self.carry_out(&request);
            self.reply(&request, replies);
        }
    }

    fn next_command(&mut self, name: &Chars) -> Option<Message> {
        let any = Match::default();
        let queue = self.queues.get_mut(name)?;
        let search = Search { by: &any, selector: None, after: None, now: crate::clock::now() };
        let place = queue.find(&search)?;
        let stored = queue.take_ready(place)?;
        let message = stored.message.clone();
        self.forget(name, &[(place, stored)]);
        Some(message)
    }

    /// The messages of the reply, the last one with the command's end.
    fn carry_out(&mut self, request: &Message) -> Vec<Vec<u8>> {
        let reversed = request.descriptor.encoding & mq::MQENC_INTEGER_MASK == mq::MQENC_INTEGER_REVERSED;
        let is_command = request.descriptor.format == Chars::from(mq::MQFMT_ADMIN);
        let (code, done) = match Command::read(&request.body, reversed) {
            _ if !is_command => (0, Err(ids::MQRCCF_MD_FORMAT_ERROR)),
            Err((code, reason)) => (code, Err(reason)),
            Ok(command) => {
                let user = request.descriptor.identity.user.to_string();
                (command.code, self.command(&command, &user))
            }
        };
        // A command that fails says why, and then that it failed.
        let responses = done.unwrap_or_else(|reason| {
            vec![Response::failed(reason), Response::failed(ids::MQRCCF_COMMAND_FAILED)]
        });
        let count = responses.len();
        let numbered = responses.iter().enumerate();
        numbered.map(|(at, response)| response.write(code, at + 1, at + 1 == count)).collect()
    }

    fn command(&mut self, command: &Command, user: &str) -> Done {
        match command.code {
            ids::MQCMD_PING_Q_MGR => Ok(vec![Response::default()]),
            ids::MQCMD_INQUIRE_Q_MGR => Ok(vec![self.inquire_manager(command)]),
            ids::MQCMD_INQUIRE_Q => self.inquire_queues(command, user),
            ids::MQCMD_INQUIRE_Q_NAMES => self.inquire_names(command, user),
            ids::MQCMD_INQUIRE_Q_STATUS => self.inquire_status(command, user),
            ids::MQCMD_CREATE_Q => self.create_queue(command, user),
            ids::MQCMD_CHANGE_Q => self.change_queue(command, user),
            ids::MQCMD_DELETE_Q => self.delete_queue(command, user),
            ids::MQCMD_CLEAR_Q => self.clear_queue(command, user),
            _ => Err(ids::MQRCCF_CFH_COMMAND_ERROR),
        }
    }

    fn administers(&self, user: &str, name: &Chars) -> Result<(), i32> {
        if self.may(user, name, Right::Administer) { Ok(()) } else { Err(mq::MQRC_NOT_AUTHORIZED) }
    }

    /// Puts the reply where the request wants it. What cannot be put there is lost, as a dead
    /// letter.
    fn reply(&mut self, request: &Message, replies: Vec<Vec<u8>>) {
        for body in replies {
            let sequence = self.number();
            let descriptor = self.reply_descriptor(&request.descriptor, sequence);
            let dead_letters = Chars::from(self.configuration.dead_letter_queue.as_str());
            let expires = crate::manager::expires(descriptor.expiry);
            let message = Message { descriptor, properties: Vec::new(), body };
            let wanted = &request.descriptor.reply_to_queue;
            let takes = |name: &&Chars| self.queues.get(*name).is_some_and(|queue| !queue.is_full());
            let Some(name) = [wanted, &dead_letters].into_iter().find(takes).cloned() else { continue };
            let Some(queue) = self.queues.get_mut(&name) else { continue };
            let place: Place = queue.place(message.descriptor.priority, sequence);
            queue.add(place, Stored { message, expires }, None);
        }
    }

    fn reply_descriptor(&self, request: &Descriptor, sequence: u64) -> Descriptor {
        let passes = request.report & mq::MQRO_PASS_CORREL_ID != 0;
        let passes_expiry = request.report & mq::MQRO_PASS_DISCARD_AND_EXPIRY != 0;
        let (put_date, put_time) = crate::clock::put_date_and_time();
        Descriptor {
            message_type: mq::MQMT_REPLY,
            expiry: if passes_expiry { request.expiry } else { mq::MQEI_UNLIMITED },
            ccsid: self.configuration.ccsid,
            format: Chars::from(mq::MQFMT_ADMIN),
            priority: request.priority,
            persistence: mq::MQPER_NOT_PERSISTENT,
            message_id: self.id(sequence),
            correlation_id: if passes { request.correlation_id } else { request.message_id },
            identity: request.identity.clone(),
            origin: OriginContext {
                application_type: mq::MQAT_QMGR,
                application: Chars::from("mqm-standin"),
                put_date: Chars::from(put_date.as_str()),
                put_time: Chars::from(put_time.as_str()),
                data: Chars::default(),
            },
            ..Descriptor::default()
        }
    }
}
