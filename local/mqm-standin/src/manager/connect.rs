//! MQCONN, MQCONNX and the end of a session.

use std::collections::BTreeMap;

use libmqm_sys as mq;

use super::session::Session;
use super::state::{Phase, State};
use crate::configuration::{Channel, ChannelKind};
use crate::protocol::{Answer, Chars, Connect, Connected, Id, Reason};

/// The first handle of a session. Zero and below have meanings of their own.
const FIRST_HANDLE: i32 = 2;

impl State {
    pub(super) fn connect(&mut self, request: &Connect) -> Result<(u64, Answer), Reason> {
        match self.phase {
            Phase::Running => {}
            Phase::Quiescing => return Err(Reason(mq::MQRC_Q_MGR_QUIESCING)),
            Phase::Stopping => return Err(Reason(mq::MQRC_Q_MGR_NOT_AVAILABLE)),
        }
        let name = Chars::from(self.configuration.name.as_str());
        let wanted = &request.queue_manager;
        if !wanted.is_blank() && !wanted.as_bytes().starts_with(b"*") && *wanted != name {
            return Err(Reason(mq::MQRC_Q_MGR_NAME_ERROR));
        }
        let channel = self.configuration.channel(&request.channel);
        let channel = channel.ok_or(Reason(mq::MQRC_UNKNOWN_CHANNEL_NAME))?;
        if channel.kind != ChannelKind::ServerConnection {
            return Err(Reason(mq::MQRC_CHANNEL_CONFIG_ERROR));
        }
        let instances = self.sessions.values().filter(|session| session.channel == request.channel).count();
        if channel.max_instances.is_some_and(|most| instances >= most) {
            self.since_limit.refused += 1;
            return Err(Reason(mq::MQRC_CHANNEL_NOT_AVAILABLE));
        }
        let user = self.user(channel, request)?;

        let session = self.number();
        let connection_id = self.id(session);
        self.sessions.insert(
            session,
            Session {
                user,
                channel: request.channel.clone(),
                application: request.application.clone(),
                handles: BTreeMap::new(),
                next_handle: FIRST_HANDLE,
                work: Vec::new(),
            },
        );
        self.since_limit.most = self.since_limit.most.max(self.sessions.len());
        let answer = Connected {
            queue_manager: name,
            connection_id,
            ccsid: self.configuration.ccsid,
            max_message_length: self.max_message_length(session),
        };
        Ok((session, Answer::Connected(answer)))
    }

    /// The user of a connection, if user and password are right and the channel admits them.
    fn user(&self, channel: &Channel, request: &Connect) -> Result<String, Reason> {
        let refused = Reason(mq::MQRC_NOT_AUTHORIZED);
        let Some(user) = &request.user else {
            return channel.default_user.clone().ok_or(refused);
        };
        let known = self.configuration.users.iter().find(|known| known.name == *user);
        let is_right = known.is_some_and(|known| request.password.as_ref() == Some(&known.password));
        let is_admitted = channel.users.contains(user);
        if is_right && is_admitted { Ok(user.clone()) } else { Err(refused) }
    }

    /// The smaller of the queue manager's and the channel's limit.
    pub(super) fn max_message_length(&self, session: u64) -> i32 {
        let most = self.configuration.max_message_length;
        let channel =
            self.session(session).ok().and_then(|session| self.configuration.channel(&session.channel));
        channel.map_or(most, |channel| most.min(channel.max_message_length))
    }

    /// A unique id as queue managers make them: `AMQ `, their name, and a number.
    pub(crate) fn id(&self, number: u64) -> Id {
        let mut id = [0; 24];
        let name = Chars::from(self.configuration.name.as_str()).padded(12);
        let unique = crate::clock::now() << 20 ^ number;
        let bytes = b"AMQ ".iter().chain(&name).copied().chain(unique.to_be_bytes());
        for (place, byte) in id.iter_mut().zip(bytes) {
            *place = byte;
        }
        id
    }

    /// Ends a session: backs out its unit of work and closes its handles.
    pub(super) fn end(&mut self, session: u64) {
        let _ = self.back(session);
        let handles: Vec<i32> = self
            .session(session)
            .map(|session| session.handles.keys().copied().collect())
            .unwrap_or_default();
        for handle in handles {
            let _ = self.close(session, handle, mq::MQCO_NONE);
        }
        self.sessions.remove(&session);
    }
}
