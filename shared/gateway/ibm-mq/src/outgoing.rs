//! Converts messages from the gateway's form to IBM MQ's. `docs/messages.md` has the mapping.

use std::sync::Arc;

use broker::load::TEST_ID;
use libmqm_sys::{self as mqi, MQLONG};
use mq::{
    Access, BrokerError, CorrelId, HeaderValue, MessageId, Outgoing, OutgoingMessage, Persistence, Properties,
};

use crate::body_text::TEXT;
use crate::mqi::{UTF_8, check_type, descriptor, fill};
use crate::properties::{CARRIERS, Carried, stamp};
use crate::property_names::to_property;
use crate::settings::Settings;

/// Message or correlation id of zeros, which means "none" in IBM MQ (MQMI_NONE and MQCI_NONE).
const NO_ID: mqi::MQBYTE24 = [0; 24];

/// Message in the form of IBM MQ, ready for MQPUT.
pub(crate) struct Prepared {
    pub(crate) descriptor: mqi::MQMD,
    pub(crate) properties: Arc<Vec<(String, HeaderValue)>>,
    pub(crate) sequence: u64,
    /// Send time of a load test's message in microseconds since 1970; `None` for other messages.
    pub(crate) sent_at_us: Option<u64>,
    pub(crate) body: Vec<u8>,
}

/// Builder of messages for MQPUT: those of one produce, or of one producer of a load test. Messages
/// with equal properties share these in memory.
pub(crate) struct Preparer {
    outgoing: Outgoing,
    /// Id of the load test that the messages belong to; `None` for a produce.
    test: Option<String>,
    /// User and application to write into the messages; `None` if the queue manager sets the
    /// context (user, application and time).
    context: Option<Context>,
    /// Descriptor and properties of all messages that do not set properties or headers themselves;
    /// `None` if each message sets some.
    shared: Option<Described>,
}

/// Descriptor and properties of a message, without the message's ids, format and sequence number.
type Described = (mqi::MQMD, Arc<Vec<(String, HeaderValue)>>);

/// User and application to write into messages whose context (user, application and time) the
/// gateway sets instead of the queue manager.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    user: String,
    application: String,
}

impl Context {
    /// Returns the user of the target's login (empty without one) and the application name of the
    /// settings.
    pub(crate) fn of(access: &Access, settings: &Settings) -> Self {
        let user = access.credentials.as_ref().map(|login| login.user.clone());
        Self { user: user.unwrap_or_default(), application: settings.application.clone() }
    }
}

impl Preparer {
    /// Creates the builder for the messages of a produce, or of the load test with the id `test`.
    ///
    /// # Errors
    /// If IBM MQ cannot carry the messages' headers.
    pub(crate) fn new(outgoing: &Outgoing, test: Option<&str>, context: Context) -> Result<Self, String> {
        let context = sets_context(outgoing).then_some(context);
        let mut preparer =
            Self { outgoing: outgoing.clone(), test: test.map(str::to_owned), context, shared: None };
        let first = match outgoing.differs_by_message() {
            true => (0..outgoing.count()).find(|index| !outgoing.has_own_members(*index)),
            false => Some(0),
        };
        preparer.shared = first.map(|index| preparer.describe(index)).transpose()?;
        Ok(preparer)
    }

    /// True if the messages set their own context (user, application and time). Otherwise the queue
    /// manager sets it.
    pub(crate) fn sets_context(&self) -> bool {
        self.context.is_some()
    }

    /// Builds the message at `index`; `None` if the index is past the last message.
    ///
    /// # Errors
    /// If IBM MQ cannot carry the message.
    pub(crate) fn prepare(&self, index: u64) -> Result<Option<Prepared>, String> {
        self.outgoing.message(index).map(|message| self.prepared(message)).transpose()
    }

    /// Builds a message in the form for MQPUT, without a send time.
    ///
    /// # Errors
    /// If IBM MQ cannot carry the message.
    pub(crate) fn prepared(&self, message: OutgoingMessage) -> Result<Prepared, String> {
        let (mut descriptor, properties) = match &self.shared {
            Some(shared) if !self.outgoing.has_own_members(message.sequence) => shared.clone(),
            _ => self.describe(message.sequence)?,
        };
        descriptor.MsgId = message.id.0;
        descriptor.CorrelId = correlation_id(message.id, &message.correl_id)?;
        if message.content_type.starts_with("text/") {
            fill(&mut descriptor.Format, TEXT);
            descriptor.CodedCharSetId = UTF_8;
        }
        let OutgoingMessage { sequence, body, .. } = message;
        Ok(Prepared { descriptor, properties, sequence, sent_at_us: None, body })
    }

    fn describe(&self, index: u64) -> Result<Described, String> {
        let props = self.outgoing.props_of(index);
        let mut put = Carried::of(descriptor(), Vec::new());
        let md = &mut put.descriptor;
        md.Persistence = match props.persistence {
            Persistence::Persistent => mqi::MQPER_PERSISTENT,
            Persistence::Nonpersistent => mqi::MQPER_NOT_PERSISTENT,
        };
        md.Priority = props.priority.get().into();
        if let Some(expiry) = props.expiry_ms.filter(|expiry| expiry.get() > 0) {
            md.Expiry = tenths(expiry.get());
        }
        if let Some(context) = &self.context {
            fill(&mut md.UserIdentifier, &context.user);
            md.PutApplType = mqi::MQAT_DEFAULT;
            fill(&mut md.PutApplName, &context.application);
            stamp(md, self.outgoing.created_at());
        }
        for (name, value) in self.outgoing.headers(index).iter() {
            check_header(name, value)?;
            put.properties.push((to_property(name), value.clone()));
        }
        CARRIERS.write(&props.properties, &mut put).map_err(|uncarried| uncarried.detail)?;
        let key = HeaderValue::from(self.outgoing.idempotency_key());
        put.properties.push(("idempotencyKey".to_owned(), key));
        if let Some(test) = &self.test {
            put.properties.push((TEST_ID.to_owned(), HeaderValue::from(test.as_str())));
        }
        Ok((put.descriptor, Arc::new(put.properties)))
    }
}

/// True if any message sets its application or its time. This requires a separate authority
/// (+setall, for MQOO_SET_ALL_CONTEXT).
fn sets_context(outgoing: &Outgoing) -> bool {
    let says = |props: &Properties| props.app_id.is_some() || props.timestamp.is_some();
    if !outgoing.differs_by_message() {
        return says(&outgoing.props().properties);
    }
    (0..outgoing.count()).any(|index| says(&outgoing.props_of(index).properties))
}

/// Converts milliseconds to tenths of a second, rounded up, so that no message expires before the
/// requested time.
fn tenths(milliseconds: u32) -> MQLONG {
    MQLONG::try_from(milliseconds.div_ceil(100)).unwrap_or(MQLONG::MAX)
}

/// Returns the correlation id of the message `id` in IBM MQ's form: 24 bytes, padded with zeros, or
/// 24 zeros for none. Fails if `correl_id` has more than 24 bytes, or only zeros.
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

/// Converts an id by which the request selects messages to IBM MQ's form of 24 bytes. `pointer` is
/// the JSON Pointer to the id in the request, for the error.
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

/// Returns an id padded with zeros to 24 bytes; `None` if the id is longer.
pub(crate) fn padded(bytes: &[u8]) -> Option<mqi::MQBYTE24> {
    let mut id = [0; 24];
    id.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(id)
}

/// Checks that IBM MQ has a property type for the value of the header `name`.
pub(crate) fn check_header(name: &str, value: &HeaderValue) -> Result<(), String> {
    let lacks = |kind: &str| format!("IBM MQ has no {kind}, and the header `{name}` has such a value");
    check_type(value).map_err(lacks)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use mq::{
        ContentSeed, ExplicitMessage, HeaderName, Headers, MqProps, OwnProps, ProduceCommand, ProduceSource,
        Transaction,
    };

    use super::*;

    #[test]
    fn messages_share_their_parts_unless_they_have_properties_or_headers_of_their_own() {
        let [plain, mut urgent, mut coloured] = ["a", "b", "c"].map(ExplicitMessage::of_text);
        let own = OwnProps { priority: Some(7_i64.try_into().unwrap()), ..OwnProps::default() };
        urgent.own = Some(Box::new(own));
        let colour = HeaderName::try_from("colour".to_owned()).unwrap();
        coloured.headers = Headers::try_from(BTreeMap::from([(colour, HeaderValue::from("red"))])).unwrap();
        let command = ProduceCommand {
            source: ProduceSource::Explicit { messages: vec![urgent, plain.clone(), coloured, plain] },
            rate_limit_per_sec: None,
            transaction: Transaction::default(),
            props: MqProps::default(),
            headers: Headers::default(),
            warnings: Vec::new(),
        };
        let seed = ContentSeed::new("tenant", "key", "fingerprint", Timestamp::UNIX_EPOCH);
        let context = Context { user: String::new(), application: String::new() };
        let preparer = Preparer::new(&Outgoing::new(&command, seed), None, context).unwrap();
        let [urgent, first, coloured, second] =
            [0, 1, 2, 3].map(|index| preparer.prepare(index).unwrap().unwrap());
        assert!(Arc::ptr_eq(&first.properties, &second.properties));
        assert_ne!(first.descriptor.MsgId, second.descriptor.MsgId);
        assert_eq!((first.body, second.sequence), (b"a".to_vec(), 3));
        assert_eq!(urgent.descriptor.Priority, 7);
        assert_ne!(second.descriptor.Priority, 7);
        let names =
            |message: &Prepared| message.properties.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&coloured), ["colour", "idempotencyKey"]);
        assert_eq!(names(&second), ["idempotencyKey"]);
    }

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
    fn values_of_types_that_ibm_mq_lacks_are_refused_by_their_header_s_name() {
        for value in
            [HeaderValue::UInt8(1), HeaderValue::Array(Vec::new()), HeaderValue::TextBytes(vec![255])]
        {
            let why = check_header("colour", &value).unwrap_err();
            assert!(why.contains("`colour`"), "{why}");
        }
        assert_eq!(check_header("colour", &HeaderValue::Int32(3)), Ok(()));
    }
}
