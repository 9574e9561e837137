//! Finds the members of a produce request that IBM MQ cannot carry: before any message is put, or
//! from the reason code with which the queue manager refuses a message.

use libmqm_sys::{self as mqi, MQLONG};
use mq::{BrokerError, Member, MessageType, Outgoing, Properties};

use crate::mqi::descriptor;
use crate::outgoing::{check_header, correlation_id};
use crate::properties::{CARRIERS, Carried};

/// Checks, before any message is put, that IBM MQ can carry the properties and headers of all
/// messages.
///
/// # Errors
/// [`BrokerError::Unsupported`] with the JSON Pointer to the member that it cannot carry.
pub(crate) fn check(outgoing: &Outgoing) -> Result<(), BrokerError> {
    let mut is_checked = false;
    for index in 0..outgoing.count() {
        let refused = BrokerError::unsupported_member;
        correlation_id(outgoing.message_id(index), &outgoing.correl_id(index))
            .map_err(|detail| refused(outgoing.correl_id_pointer(index), detail))?;
        // The rest is the same for all messages without properties and headers of their own.
        if !outgoing.has_own_members(index) && std::mem::replace(&mut is_checked, true) {
            continue;
        }
        check_properties(&outgoing.props_of(index).properties).map_err(
            |((member, required_by), detail)| refused(outgoing.pointer(index, member, required_by), detail),
        )?;
        for (name, value) in outgoing.headers(index).iter() {
            check_header(name, value)
                .map_err(|detail| refused(outgoing.header_pointer(index, name), detail))?;
        }
        if !outgoing.differs_by_message() {
            break;
        }
    }
    Ok(())
}

/// Adds to `error` the JSON Pointer to the member of the message at `index` that the queue manager
/// refused, if the reason code of the MQPUT tells which member it is.
pub(crate) fn blame(outgoing: &Outgoing, index: u64, reason: MQLONG, error: BrokerError) -> BrokerError {
    match blamed(reason) {
        Some((member, required_by)) => error.at(outgoing.pointer(index, member, required_by)),
        None => error,
    }
}

/// Request member that IBM MQ refused, and the member that requires it, if there is one: `replyTo`
/// is required by `messageType`.
type Blamed = (Member, Option<Member>);

const REPLY_TO_OF_REQUEST: Blamed = (Member::ReplyTo, Some(Member::MessageType));

/// Returns the request member that an MQPUT with this reason code complains about; `None` if the
/// code does not tell.
const fn blamed(reason: MQLONG) -> Option<Blamed> {
    let member = match reason {
        mqi::MQRC_MISSING_REPLY_TO_Q => return Some(REPLY_TO_OF_REQUEST),
        mqi::MQRC_EXPIRY_ERROR => Member::ExpiryMs,
        mqi::MQRC_FEEDBACK_ERROR => Member::Feedback,
        mqi::MQRC_GROUP_ID_ERROR | mqi::MQRC_MSG_FLAGS_ERROR | mqi::MQRC_MSG_SEQ_NUMBER_ERROR => {
            Member::Group
        }
        mqi::MQRC_MSG_TYPE_ERROR => Member::MessageType,
        mqi::MQRC_PERSISTENCE_ERROR | mqi::MQRC_PERSISTENT_NOT_ALLOWED => Member::Persistence,
        mqi::MQRC_PRIORITY_ERROR => Member::Priority,
        mqi::MQRC_REPORT_OPTIONS_ERROR => Member::Report,
        _ => return None,
    };
    Some((member, None))
}

fn check_properties(own: &Properties) -> Result<(), (Blamed, String)> {
    let is_request = own.message_type == Some(MessageType::Request);
    if is_request && own.reply_to.as_deref().is_none_or(|queue| queue.trim().is_empty()) {
        let detail = "is required if messageType is request: IBM MQ carries no request without it";
        return Err((REPLY_TO_OF_REQUEST, detail.to_owned()));
    }
    let mut put = Carried::of(descriptor(), Vec::new());
    CARRIERS.write(own, &mut put).map_err(|uncarried| ((uncarried.member, None), uncarried.detail))
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
        for (own, blamed) in [
            (request.clone(), REPLY_TO_OF_REQUEST),
            (Properties { reply_to: text("  "), ..request }, REPLY_TO_OF_REQUEST),
            (Properties { reply_to: text(&"Q".repeat(49)), ..none() }, (Member::ReplyTo, None)),
            (Properties { app_id: text(&"a".repeat(29)), ..none() }, (Member::AppId, None)),
            (
                Properties { timestamp: Some(Time::from_seconds(u64::MAX)), ..none() },
                (Member::Timestamp, None),
            ),
            (
                Properties { group: group(GroupId::Bytes(Base64Bytes(vec![1; 25]))), ..none() },
                (Member::Group, None),
            ),
        ] {
            assert_eq!(check_properties(&own).unwrap_err().0, blamed, "{own:?}");
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
