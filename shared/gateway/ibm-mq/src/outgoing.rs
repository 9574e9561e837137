//! Converts messages from the gateway's form to IBM MQ's. `docs/messages.md` has the mapping.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use libmqm_sys::{self as mqi, MQLONG};
use mq::{
    BrokerError, CorrelId, Group, GroupId, HeaderValue, MessageId, Outgoing, OutgoingMessage, Persistence,
    Properties, Time,
};

use crate::mqi::{PropertyValue, descriptor, fill};
use crate::property_names::{CONTENT_ENCODING, CONTENT_TYPE, TYPE, to_property};

/// IBM MQ's format name for text.
const TEXT: &str = "MQSTR";
const UTF_8: MQLONG = 1208;

/// Group id that means "none" to IBM MQ (MQGI_NONE).
const NO_GROUP: mqi::MQBYTE24 = [0; 24];

/// Message id that means "none" to IBM MQ (MQMI_NONE and MQCI_NONE).
const NO_ID: mqi::MQBYTE24 = [0; 24];

/// A message that is ready to be put.
pub(crate) struct Prepared {
    pub(crate) descriptor: mqi::MQMD,
    pub(crate) properties: Arc<Vec<(String, PropertyValue)>>,
    pub(crate) sequence: u64,
    pub(crate) body: Vec<u8>,
}

/// Prepares the messages of one produce. Messages with the same properties share them.
pub(crate) struct Preparer<'a> {
    outgoing: &'a Outgoing,
    context: Context<'a>,
    shared: Option<Arc<Vec<(String, PropertyValue)>>>,
}

/// Identity to write into the messages if they set their context, instead of the queue manager.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) user: &'a str,
    pub(crate) application: &'a str,
}

impl<'a> Preparer<'a> {
    /// Creates the preparer of a produce.
    ///
    /// # Errors
    /// If IBM MQ cannot carry the messages' headers.
    pub(crate) fn new(outgoing: &'a Outgoing, context: Context<'a>) -> Result<Self, String> {
        let shared = match outgoing.differs_by_message() {
            true => None,
            false => Some(Arc::new(properties(outgoing, 0)?)),
        };
        Ok(Self { outgoing, context, shared })
    }

    /// The message at `index`, or `None` past the end.
    ///
    /// # Errors
    /// If IBM MQ cannot carry it.
    pub(crate) fn prepare(&self, index: u64) -> Result<Option<Prepared>, String> {
        let Some(message) = self.outgoing.message(index) else { return Ok(None) };
        let properties = match &self.shared {
            Some(shared) => Arc::clone(shared),
            None => Arc::new(properties(self.outgoing, index)?),
        };
        let mut descriptor = message_descriptor(self.outgoing, &message)?;
        if sets_context(self.outgoing) {
            self.set_context(&mut descriptor, index)?;
        }
        Ok(Some(Prepared { descriptor, properties, sequence: index, body: message.body }))
    }

    /// Sets the user, the application and the time of the put in the descriptor, in place of the
    /// queue manager.
    fn set_context(&self, md: &mut mqi::MQMD, index: u64) -> Result<(), String> {
        let props = self.outgoing.props_of(index);
        let own = &props.properties;
        fill(&mut md.UserIdentifier, self.context.user);
        md.PutApplType = mqi::MQAT_DEFAULT;
        fill(&mut md.PutApplName, own.app_id.as_deref().unwrap_or(self.context.application));
        let at = own.timestamp.map_or_else(|| Ok(self.outgoing.created_at()), put_at)?;
        let (date, time) = date_and_time(at);
        fill(&mut md.PutDate, &date);
        fill(&mut md.PutTime, &time);
        Ok(())
    }
}

/// True if a message sets its application or its time itself, which requires a separate authority
/// (MQOO_SET_ALL_CONTEXT).
pub(crate) fn sets_context(outgoing: &Outgoing) -> bool {
    let says = |props: &Properties| props.app_id.is_some() || props.timestamp.is_some();
    if !outgoing.differs_by_message() {
        return says(&outgoing.props().properties);
    }
    (0..outgoing.count()).any(|index| says(&outgoing.props_of(index).properties))
}

/// Time that IBM MQ can carry in its digits, or the error for a later one.
pub(crate) fn put_at(at: Time) -> Result<Timestamp, String> {
    at.as_timestamp().ok_or_else(|| format!("must not be after {} for IBM MQ", Time::LATEST_TEXT))
}

fn message_descriptor(outgoing: &Outgoing, message: &OutgoingMessage) -> Result<mqi::MQMD, String> {
    let props = outgoing.props_of(message.sequence);
    let mut md = descriptor();
    md.MsgId = message.id.0;
    md.CorrelId = correlation_id(message.id, &message.correl_id)?;
    md.Persistence = match props.persistence {
        Persistence::Persistent => mqi::MQPER_PERSISTENT,
        Persistence::Nonpersistent => mqi::MQPER_NOT_PERSISTENT,
    };
    md.Priority = props.priority.get().into();
    if let Some(expiry) = props.expiry_ms.filter(|expiry| expiry.get() > 0) {
        md.Expiry = tenths(expiry.get());
    }
    if message.content_type.starts_with("text/") {
        fill(&mut md.Format, TEXT);
        md.CodedCharSetId = UTF_8;
    }
    describe(&mut md, &props.properties)?;
    Ok(md)
}

fn describe(md: &mut mqi::MQMD, own: &Properties) -> Result<(), String> {
    if let Some(queue) = &own.reply_to {
        fill(&mut md.ReplyToQ, queue);
    }
    if let Some(queue_manager) = &own.reply_to_queue_manager {
        fill(&mut md.ReplyToQMgr, queue_manager);
    }
    if let Some(kind) = own.message_type {
        md.MsgType = kind.as_number();
    }
    if let Some(report) = own.report {
        md.Report = report.get();
    }
    if let Some(feedback) = own.feedback {
        md.Feedback = feedback.get();
    }
    if let Some(group) = &own.group {
        md.GroupId = group_id(group)?;
        md.MsgFlags |= mqi::MQMF_MSG_IN_GROUP;
        if group.last {
            md.MsgFlags |= mqi::MQMF_LAST_MSG_IN_GROUP;
        }
        if let Some(sequence) = group.sequence {
            md.MsgSeqNumber = MQLONG::try_from(sequence.get()).unwrap_or(MQLONG::MAX);
        }
    }
    Ok(())
}

/// Tenths of a second, rounded up, so that no message lives for less than was requested.
fn tenths(milliseconds: u32) -> MQLONG {
    MQLONG::try_from(milliseconds.div_ceil(100)).unwrap_or(MQLONG::MAX)
}

/// Date as `YYYYMMDD` and time as `HHMMSSTH`, in UTC.
fn date_and_time(at: Timestamp) -> (String, String) {
    let at = at.to_zoned(TimeZone::UTC);
    let date = format!("{:04}{:02}{:02}", at.year(), at.month(), at.day());
    let hundredths = at.subsec_nanosecond() / 10_000_000;
    (date, format!("{:02}{:02}{:02}{hundredths:02}", at.hour(), at.minute(), at.second()))
}

/// Correlation id as IBM MQ carries it: 24 bytes, padded with zeros.
pub(crate) fn correlation_id(id: MessageId, correl_id: &CorrelId) -> Result<mqi::MQBYTE24, String> {
    match correl_id {
        CorrelId::None => Ok([0; 24]),
        CorrelId::EchoMsgId => Ok(id.0),
        CorrelId::Bytes(bytes) => match padded(bytes) {
            None => Err("IBM MQ carries correlation ids of at most 24 bytes".to_owned()),
            Some(NO_ID) => Err("to IBM MQ an id of no bytes, or of zeros alone, is none".to_owned()),
            Some(id) => Ok(id),
        },
    }
}

pub(crate) fn group_id(group: &Group) -> Result<mqi::MQBYTE24, String> {
    let bytes = match &group.id {
        GroupId::Text(text) => text.as_bytes(),
        GroupId::Bytes(bytes) => &bytes.0,
    };
    match padded(bytes) {
        None => Err("IBM MQ carries ids of groups of at most 24 bytes".to_owned()),
        Some(NO_GROUP) => {
            Err("to IBM MQ an id of no bytes, or of zeros alone, is none, and it would make one up"
                .to_owned())
        }
        Some(_) if bytes.len() < NO_GROUP.len() && bytes.ends_with(&[0]) => {
            Err("must not end with NUL, with which IBM MQ fills an id".to_owned())
        }
        Some(id) => Ok(id),
    }
}

/// Id to select messages by. `pointer` leads to the member of the request, for the error.
///
/// # Errors
/// If the id has more than 24 bytes, or is all zeros.
pub(crate) fn selected(bytes: &[u8], pointer: impl Into<String>) -> Result<mqi::MQBYTE24, BrokerError> {
    let detail = match padded(bytes) {
        None => "IBM MQ's ids have at most 24 bytes",
        Some(NO_ID) => {
            "to IBM MQ an id of no bytes, or of zeros alone, is every message's, so nothing can be selected by it"
        }
        Some(id) => return Ok(id),
    };
    Err(BrokerError::unsupported_member(pointer, detail))
}

/// The bytes of an id, padded with zeros. `None` if there are more than 24.
fn padded(bytes: &[u8]) -> Option<mqi::MQBYTE24> {
    let mut id = [0; 24];
    id.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(id)
}

/// Properties of the message, except its sequence.
fn properties(outgoing: &Outgoing, index: u64) -> Result<Vec<(String, PropertyValue)>, String> {
    let mut all = Vec::new();
    for (name, value) in outgoing.headers(index).iter() {
        all.push((to_property(name), to_mq(name, value)?));
    }
    let props = outgoing.props_of(index);
    let own = &props.properties;
    let texts =
        [(CONTENT_TYPE, &own.content_type), (CONTENT_ENCODING, &own.content_encoding), (TYPE, &own.kind)];
    for (name, text) in texts {
        if let Some(text) = text {
            all.push((name.to_owned(), PropertyValue::Text(text.as_str().to_owned())));
        }
    }
    let key = PropertyValue::Text(outgoing.idempotency_key().to_owned());
    all.push(("idempotencyKey".to_owned(), key));
    Ok(all)
}

/// Converts a header's value to a property's.
pub(crate) fn to_mq(name: &str, value: &HeaderValue) -> Result<PropertyValue, String> {
    let none = |kind: &str| Err(format!("IBM MQ has no {kind}, and the header `{name}` has such a value"));
    Ok(match value {
        HeaderValue::Null => PropertyValue::Null,
        HeaderValue::Boolean(value) => PropertyValue::Boolean(*value),
        HeaderValue::Int8(value) => PropertyValue::Int8(*value),
        HeaderValue::Int16(value) => PropertyValue::Int16(*value),
        HeaderValue::Int32(value) => PropertyValue::Int32(*value),
        HeaderValue::Int64(value) => PropertyValue::Int64(*value),
        HeaderValue::Float32(value) => PropertyValue::Float32(value.get()),
        HeaderValue::Float64(value) => PropertyValue::Float64(value.get()),
        HeaderValue::Text(text) => PropertyValue::Text(text.clone()),
        HeaderValue::Bytes(bytes) => PropertyValue::Bytes(bytes.clone()),
        HeaderValue::UInt8(_) | HeaderValue::UInt16(_) | HeaderValue::UInt32(_) => {
            return none("unsigned integers");
        }
        HeaderValue::Decimal(_) => return none("decimals"),
        HeaderValue::Time(_) => return none("times"),
        HeaderValue::Array(_) => return none("arrays"),
        HeaderValue::Table(_) => return none("tables"),
        HeaderValue::TextBytes(_) => return none("text that is not UTF-8"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlation_ids_have_at_most_24_bytes() {
        let id = MessageId([7; 24]);
        assert_eq!(correlation_id(id, &CorrelId::None), Ok([0; 24]));
        assert_eq!(correlation_id(id, &CorrelId::EchoMsgId), Ok([7; 24]));
        let short = correlation_id(id, &CorrelId::Bytes(b"abc".to_vec())).unwrap();
        assert_eq!((&short[..3], &short[3..]), (&b"abc"[..], &[0; 21][..]));
        assert!(correlation_id(id, &CorrelId::Bytes(vec![1; 24])).is_ok());
        assert!(correlation_id(id, &CorrelId::Bytes(vec![1; 25])).is_err());
        for none in [0, 1, 24] {
            assert!(correlation_id(id, &CorrelId::Bytes(vec![0; none])).is_err(), "{none}");
        }
    }

    #[test]
    fn a_message_lives_for_at_least_as_long_as_was_asked_for() {
        assert_eq!([1, 100, 101, u32::MAX].map(tenths), [1, 1, 2, 42_949_673]);
    }

    #[test]
    fn times_are_written_to_a_hundredth_of_a_second_in_utc() {
        let at: Timestamp = "2026-11-22T18:05:09.129+01:00".parse().unwrap();
        assert_eq!(date_and_time(at), ("20261122".to_owned(), "17050912".to_owned()));
    }

    #[test]
    fn values_of_types_that_ibm_mq_lacks_are_refused_by_their_header_s_name() {
        for value in
            [HeaderValue::UInt8(1), HeaderValue::Array(Vec::new()), HeaderValue::TextBytes(vec![255])]
        {
            let why = to_mq("colour", &value).unwrap_err();
            assert!(why.contains("`colour`"), "{why}");
        }
        assert_eq!(to_mq("colour", &HeaderValue::Int32(3)), Ok(PropertyValue::Int32(3)));
    }
}
