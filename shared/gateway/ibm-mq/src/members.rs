//! Members of a request that IBM MQ cannot carry: those that are known before any message is put,
//! and those that the queue manager refuses.

use libmqm_sys::{self as mqi, MQLONG};
use mq::{BrokerError, MessageType, Outgoing, OwnProps, Properties};

use crate::outgoing::{correlation_id, group_id, put_at, to_mq};

/// Returns an error for members that IBM MQ can carry in no message, before any is put.
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

/// Adds to an error of the queue manager the pointer to the member of the message at `index` that
/// it is about, if the reason code shows one.
pub(crate) fn blame(outgoing: &Outgoing, index: u64, reason: MQLONG, error: BrokerError) -> BrokerError {
    match Member::of_reason(reason) {
        Some(member) => error.at(member.pointer(outgoing, index)),
        None => error,
    }
}

/// A member of the request that IBM MQ cannot carry, or cannot carry without another member.
#[derive(Debug, PartialEq, Eq)]
struct Misfit {
    member: Member,
    detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    ReplyTo,
    /// A `replyTo` that the `messageType` requires.
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

    /// The member that the reason code of an MQPUT is about.
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
    let is_request = own.message_type == Some(MessageType::Request);
    if is_request && own.reply_to.as_deref().is_none_or(|queue| queue.trim().is_empty()) {
        let detail = "is required if messageType is request: IBM MQ carries no request without it".to_owned();
        return Err(Misfit { member: Member::ReplyToOfRequest, detail });
    }
    for (member, text, most) in texts {
        let Some(text) = text else { continue };
        fixed(text, most).map_err(|detail| Misfit { member, detail })?;
        if member == Member::ReplyTo && !text.chars().all(mq::is_of_an_ibm_name) {
            let detail = "must be a queue's name for IBM MQ, of letters, digits and ./_%".to_owned();
            return Err(Misfit { member, detail });
        }
    }
    let of = |member| move |detail| Misfit { member, detail };
    own.timestamp.map_or(Ok(()), |at| put_at(at).map(drop)).map_err(of(Member::Timestamp))?;
    own.group.as_ref().map_or(Ok(()), |group| group_id(group).map(drop)).map_err(of(Member::Group))
}

/// Returns an error for a text that a field of fixed length would alter: it ends at a NUL, and is
/// filled with blanks.
fn fixed(text: &str, most: usize) -> Result<(), String> {
    if text.is_empty() {
        return Err("must not be empty for IBM MQ, which has no such text but none".to_owned());
    }
    if text.len() > most {
        return Err(format!("must not have more than {most} bytes for IBM MQ"));
    }
    if text.contains('\0') {
        return Err("must not contain NUL, at which IBM MQ ends it".to_owned());
    }
    if text.ends_with(' ') {
        return Err("must not end with a blank, which IBM MQ takes away".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use mq::{Base64Bytes, Group, GroupId, Time};

    use super::*;
    use crate::mqi::{fill, text_in};

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

    #[test]
    fn a_text_that_a_field_of_fixed_length_would_alter_is_refused_and_any_other_one_comes_back() {
        const REPLY_TO: usize = mqi::MQ_Q_NAME_LENGTH;
        const APP_ID: usize = mqi::MQ_PUT_APPL_NAME_LENGTH;
        fn comes_back<const N: usize>(text: &str) -> bool {
            let mut field = [0; N];
            fill(&mut field, text);
            !text.is_empty() && text_in(&field) == text
        }
        let texts = ["", " ", "\0", "a\0b", "a\0", "\0a", "a ", "a  ", " a", "a b", "ü", "A.b/c_%", "a\n"];
        let longest =
            ["a".repeat(APP_ID), "a".repeat(APP_ID + 1), "a".repeat(REPLY_TO), "a".repeat(REPLY_TO + 1)];
        for text in texts.into_iter().chain(longest.iter().map(String::as_str)) {
            let value = || Some(text.to_owned().try_into().unwrap());
            let app_id = Properties { app_id: value(), ..Properties::default() };
            assert_eq!(check_properties(&app_id).is_ok(), comes_back::<APP_ID>(text), "appId {text:?}");
            let reply_to = Properties { reply_to: value(), ..Properties::default() };
            let is_name =
                text.chars().all(|letter| letter.is_ascii_alphanumeric() || "./_%".contains(letter));
            let is_carried = is_name && comes_back::<REPLY_TO>(text);
            assert_eq!(check_properties(&reply_to).is_ok(), is_carried, "replyTo {text:?}");
        }
    }

    #[test]
    fn an_id_of_a_group_that_would_come_back_shorter_is_refused() {
        let group =
            |id: &[u8]| Group { id: GroupId::Bytes(Base64Bytes(id.to_vec())), sequence: None, last: false };
        let cases: [(&[u8], bool); 8] = [
            (b"", false),
            (b"\0", false),
            (&[0; 24], false),
            (b"g", true),
            (b"g\0", false),
            (b"g\0g", true),
            (&[1; 24], true),
            (&[1; 25], false),
        ];
        for (id, is_carried) in cases {
            let own = Properties { group: Some(group(id)), ..Properties::default() };
            assert_eq!(check_properties(&own).is_ok(), is_carried, "{id:?}");
        }
        // All byte values of an id that queue managers generate.
        let mut made = [1; 24];
        made[23] = 0;
        let own = Properties { group: Some(group(&made)), ..Properties::default() };
        assert_eq!(check_properties(&own), Ok(()));
    }
}
