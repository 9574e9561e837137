//! MQCONNX and the end of a session.

use std::collections::BTreeMap;

use libmqm_sys as mq;

use super::session::Session;
use super::state::{Phase, State};
use crate::configuration::Channel;
use crate::protocol::{Answer, Connect, Id, Reason};

/// First handle number of a session. Zero and negative numbers have special meanings in the MQI.
const FIRST_HANDLE: i32 = 2;

impl State {
    pub(super) fn connect(&mut self, request: &Connect) -> Result<(u64, Answer), Reason> {
        match self.phase {
            Phase::Running => {}
            Phase::Quiescing => return Err(Reason(mq::MQRC_Q_MGR_QUIESCING)),
            Phase::Stopping => return Err(Reason(mq::MQRC_Q_MGR_NOT_AVAILABLE)),
        }
        let wanted = &request.queue_manager;
        if !wanted.is_blank() && !wanted.as_bytes().starts_with(b"*") && *wanted != self.name() {
            return Err(Reason(mq::MQRC_Q_MGR_NAME_ERROR));
        }
        let channel = self.configuration.channel(&request.channel);
        let channel = channel.ok_or(Reason(mq::MQRC_UNKNOWN_CHANNEL_NAME))?;
        let instances = self.sessions.values().filter(|session| session.channel == request.channel).count();
        if channel.max_instances.is_some_and(|most| instances >= most) {
            self.since_limit.refused += 1;
            return Err(Reason(mq::MQRC_CHANNEL_NOT_AVAILABLE));
        }
        let new = Session {
            user: self.user(channel, request)?,
            channel: request.channel.clone(),
            application: request.application.clone(),
            handles: BTreeMap::new(),
            next_handle: FIRST_HANDLE,
            work: Vec::new(),
        };
        let session = self.number();
        self.sessions.insert(session, new);
        self.since_limit.most = self.since_limit.most.max(self.sessions.len());
        let answer = Answer::Connected { queue_manager: self.name(), connection_id: self.id(session) };
        Ok((session, answer))
    }

    /// Returns the user of a new connection. It must have the right password, and the channel must
    /// admit it.
    fn user(&self, channel: &Channel, request: &Connect) -> Result<String, Reason> {
        let refused = Reason(mq::MQRC_NOT_AUTHORIZED);
        let Some((user, password)) = &request.credentials else {
            return channel.default_user.clone().ok_or(refused);
        };
        let mut known = self.configuration.users.iter();
        let is_right = known.any(|known| known.name == *user && known.password == password.0);
        if is_right && channel.users.contains(user) { Ok(user.clone()) } else { Err(refused) }
    }

    /// Returns a unique id of a message, group or connection in IBM MQ's format: `AMQ `, the queue
    /// manager's name, and a number.
    pub(crate) fn id(&self, number: u64) -> Id {
        let unique = crate::clock::now() << 20 ^ number;
        let bytes = [b"AMQ ".as_slice(), &self.name().padded(12), &unique.to_be_bytes()].concat();
        bytes.try_into().unwrap_or_default()
    }

    /// Ends a session: backs out its unit of work and closes its handles.
    pub(crate) fn end(&mut self, session: u64) {
        let _ = self.back(session);
        let handles = self.session(session).map(|session| session.handles.keys().copied().collect());
        let handles: Vec<i32> = handles.unwrap_or_default();
        for handle in handles {
            let _ = self.close(session, handle, mq::MQCO_NONE);
        }
        self.sessions.remove(&session);
    }
}
