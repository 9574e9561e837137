//! The members of a request that IBM MQ cannot carry, as far as this is known before it is asked,
//! and those that it refuses itself.

use libmqm_sys::{self as mqi, MQLONG};
use mq::{BrokerError, MessageType, Outgoing, OwnProps, Properties};

use crate::outgoing::{correlation_id, group_id, put_at, to_mq};

/// Refuses what IBM MQ can carry in no message, before any is put.
pub(crate) fn check(outgoing: &Outgoing) -> Result<(), BrokerError> {
    for index in 0..outgoing.count() {
        let refused = BrokerError::unsupported_member;
        correlation_id(outgoing.message_id(index), &outgoing.correl_id(index))
            .map_err(|detail| refused(outgoing.correl_id_pointer(index), detail))?;
        check_properties(&outgoing.props_of(index).properties)
            .map_err(|Misfit { member, detail }| refused(member.pointer(outgoing, index), detail))?;
        for (name, value) in outgoing.headers(index).iter() {
            to_mq(name, value).map_err(|detail| refused(outgoing.header_pointer(index, name), detail))?;
        }
        if !outgoing.differs_by_message() {
            break;
        }
    }
    Ok(())
}

/// A refusal of the queue manager, which may be about a member of the message at `index`.
pub(crate) fn blame(outgoing: &Outgoing, index: u64, reason: MQLONG, error: BrokerError) -> BrokerError {
    match Member::of_reason(reason) {
        Some(member) => error.at(member.pointer(outgoing, index)),
        None => error,
    }
}

/// A member of the request that IBM MQ cannot carry, or not without another one.
#[derive(Debug, PartialEq, Eq)]
struct Misfit {
    member: Member,
    detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    ReplyTo,
    /// A `replyTo` that `messageType` asks for.
    ReplyToOfRequest,
    AppId,
    Group,
    Timestamp,
    MessageType,
    Report,
    Feedback,
    ExpiryMs,
    Priority,
    Persistence,
}

impl Member {
    const fn name(self) -> &'static str {
        match self {
            Self::ReplyTo | Self::ReplyToOfRequest => "replyTo",
            Self::AppId => "appId",
            Self::Group => "group",
            Self::Timestamp => "timestamp",
            Self::MessageType => "messageType",
            Self::Report => "report",
            Self::Feedback => "feedback",
            Self::ExpiryMs => "expiryMs",
            Self::Priority => "priority",
            Self::Persistence => "persistence",
        }
    }

    /// What the queue manager means by the reason code of an MQPUT.
    const fn of_reason(reason: MQLONG) -> Option<Self> {
        Some(match reason {
            mqi::MQRC_EXPIRY_ERROR => Self::ExpiryMs,
            mqi::MQRC_FEEDBACK_ERROR => Self::Feedback,
            mqi::MQRC_GROUP_ID_ERROR | mqi::MQRC_MSG_FLAGS_ERROR | mqi::MQRC_MSG_SEQ_NUMBER_ERROR => {
                Self::Group
            }
            mqi::MQRC_MISSING_REPLY_TO_Q => Self::ReplyToOfRequest,
            mqi::MQRC_MSG_TYPE_ERROR => Self::MessageType,
            mqi::MQRC_PERSISTENCE_ERROR | mqi::MQRC_PERSISTENT_NOT_ALLOWED => Self::Persistence,
            mqi::MQRC_PRIORITY_ERROR => Self::Priority,
            mqi::MQRC_REPORT_OPTIONS_ERROR => Self::Report,
            _ => return None,
        })
    }

    fn pointer(self, outgoing: &Outgoing, index: u64) -> String {
        outgoing.pointer(index, self.name(), |own| self.is_in(own))
    }

    fn is_in(self, own: &OwnProps) -> bool {
        let properties = &own.properties;
        match self {
            Self::ReplyTo => properties.reply_to.is_some(),
            Self::ReplyToOfRequest => properties.reply_to.is_some() || properties.message_type.is_some(),
            Self::AppId => properties.app_id.is_some(),
            Self::Group => properties.group.is_some(),
            Self::Timestamp => properties.timestamp.is_some(),
            Self::MessageType => properties.message_type.is_some(),
            Self::Report => properties.report.is_some(),
            Self::Feedback => properties.feedback.is_some(),
            Self::ExpiryMs => own.expiry_ms.is_some(),
            Self::Priority => own.priority.is_some(),
            Self::Persistence => own.persistence.is_some(),
        }
    }
}

fn check_properties(own: &Properties) -> Result<(), Misfit> {
    let texts = [
        (Member::ReplyTo, own.reply_to.as_deref(), mqi::MQ_Q_NAME_LENGTH),
        (Member::AppId, own.app_id.as_deref(), mqi::MQ_PUT_APPL_NAME_LENGTH),
    ];
    for (member, text, most) in texts {
        if text.is_some_and(|text| text.len() > most) {
            let detail = format!("must not have more than {most} bytes for IBM MQ");
            return Err(Misfit { member, detail });
        }
    }
    let is_request = own.message_type == Some(MessageType::Request);
    if is_request && own.reply_to.as_deref().is_none_or(|queue| queue.trim().is_empty()) {
        let detail = "is required if messageType is request: IBM MQ carries no request without it".to_owned();
        return Err(Misfit { member: Member::ReplyToOfRequest, detail });
    }
    let of = |member| move |detail| Misfit { member, detail };
    own.timestamp.map_or(Ok(()), |at| put_at(at).map(drop)).map_err(of(Member::Timestamp))?;
    own.group.as_ref().map_or(Ok(()), |group| group_id(group).map(drop)).map_err(of(Member::Group))
}

#[cfg(test)]
mod tests {
    use mq::{Base64Bytes, Group, GroupId, Time};

    use super::*;

    #[test]
    fn what_ibm_mq_cannot_carry_is_refused_by_its_member() {
        let text = |text: &str| Some(text.to_owned().try_into().unwrap());
        let group = |id: GroupId| Some(Group { id, sequence: None, last: false });
        let none = Properties::default;
        let request = Properties { message_type: Some(MessageType::Request), ..none() };
        assert_eq!(check_properties(&Properties { reply_to: text("REPLIES"), ..request.clone() }), Ok(()));
        for (own, member) in [
            (request.clone(), Member::ReplyToOfRequest),
            (Properties { reply_to: text("  "), ..request }, Member::ReplyToOfRequest),
            (Properties { reply_to: text(&"Q".repeat(49)), ..none() }, Member::ReplyTo),
            (Properties { app_id: text(&"a".repeat(29)), ..none() }, Member::AppId),
            (Properties { timestamp: Some(Time::from_seconds(u64::MAX)), ..none() }, Member::Timestamp),
            (
                Properties { group: group(GroupId::Text(String::new().try_into().unwrap())), ..none() },
                Member::Group,
            ),
            (Properties { group: group(GroupId::Bytes(Base64Bytes(vec![0; 3]))), ..none() }, Member::Group),
            (Properties { group: group(GroupId::Bytes(Base64Bytes(vec![1; 25]))), ..none() }, Member::Group),
        ] {
            assert_eq!(check_properties(&own).unwrap_err().member, member, "{own:?}");
        }
    }
}
