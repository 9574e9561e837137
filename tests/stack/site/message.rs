//! Message in a form that both brokers have in common, for the tests' own clients.

use std::collections::BTreeMap;

use amqprs::{BasicProperties, FieldTable, FieldValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// Message as the tests' own clients put it on either broker, and find it there. A member that is
/// empty or `None` is not set, so that the broker's default applies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// Message id in base64, as in requests and responses. `None` lets the broker choose.
    pub id: Option<String>,
    /// Correlation id in base64. On IBM MQ it lacks the zeros that fill it up to 24 bytes.
    pub correlation_id: Option<String>,
    pub is_persistent: bool,
    pub priority: u8,
    pub expiry_ms: Option<u64>,
    pub reply_to: Option<String>,
    pub content_type: Option<String>,
    pub content_encoding: Option<String>,
    /// Type of the message, which requests and responses call `type`.
    pub kind: Option<String>,
    pub app_id: Option<String>,
    /// Headers by name: texts, numbers and booleans. A header of bytes is found as hexadecimal
    /// digits.
    pub headers: BTreeMap<String, Value>,
    pub body: Vec<u8>,
}

impl Message {
    /// Returns a persistent message with this body and nothing else.
    pub fn of(body: impl Into<Vec<u8>>) -> Self {
        Self { is_persistent: true, body: body.into(), ..Self::default() }
    }

    /// Returns the header `sequence`, the number that a produce gives to each of its messages.
    /// Returns `None` if there is none.
    pub fn sequence(&self) -> Option<i64> {
        self.headers.get("sequence").map(|sequence| sequence.as_i64().unwrap())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

fn decoded(base64: &str) -> Vec<u8> {
    STANDARD.decode(base64).unwrap()
}

/// Conversion of a message into the properties of AMQP.
impl From<&Message> for BasicProperties {
    fn from(message: &Message) -> Self {
        let id = |base64: &String| String::from_utf8(decoded(base64)).unwrap();
        let mut properties = Self::default();
        properties.with_persistence(message.is_persistent);
        if let Some(id) = message.id.as_ref().map(id) {
            properties.with_message_id(&id);
        }
        if let Some(id) = message.correlation_id.as_ref().map(id) {
            properties.with_correlation_id(&id);
        }
        if message.priority > 0 {
            properties.with_priority(message.priority);
        }
        if let Some(expiry) = message.expiry_ms {
            properties.with_expiration(&expiry.to_string());
        }
        if let Some(reply_to) = &message.reply_to {
            properties.with_reply_to(reply_to);
        }
        if let Some(content_type) = &message.content_type {
            properties.with_content_type(content_type);
        }
        if let Some(content_encoding) = &message.content_encoding {
            properties.with_content_encoding(content_encoding);
        }
        if let Some(kind) = &message.kind {
            properties.with_message_type(kind);
        }
        if let Some(app_id) = &message.app_id {
            properties.with_app_id(app_id);
        }
        let mut headers = FieldTable::new();
        for (name, value) in &message.headers {
            headers.insert(name.as_str().try_into().unwrap(), to_amqp(value));
        }
        properties.with_headers(headers).finish()
    }
}

fn to_amqp(value: &Value) -> FieldValue {
    match value {
        Value::Bool(value) => FieldValue::t(*value),
        Value::String(text) => FieldValue::S(text.as_str().try_into().unwrap()),
        value => FieldValue::l(value.as_i64().unwrap()),
    }
}

fn of_amqp_value(value: &FieldValue) -> Value {
    match value {
        FieldValue::V => Value::Null,
        FieldValue::t(value) => json!(value),
        FieldValue::b(value) => json!(value),
        FieldValue::s(value) => json!(value),
        FieldValue::I(value) => json!(value),
        FieldValue::l(value) => json!(value),
        FieldValue::f(value) => json!(value),
        FieldValue::d(value) => json!(value),
        FieldValue::S(text) => json!(text.as_ref()),
        FieldValue::x(bytes) => json!(hex::encode(Vec::from(bytes.clone()))),
        other => panic!("{other:?} is not needed yet"),
    }
}

impl From<(BasicProperties, Vec<u8>)> for Message {
    fn from((properties, body): (BasicProperties, Vec<u8>)) -> Self {
        let headers = properties.headers().into_iter().flat_map(|headers| headers.as_ref().iter());
        Self {
            id: properties.message_id().map(|id| STANDARD.encode(id)),
            correlation_id: properties.correlation_id().map(|id| STANDARD.encode(id)),
            is_persistent: properties.delivery_mode() == Some(2),
            priority: properties.priority().unwrap_or_default(),
            expiry_ms: properties.expiration().map(|expiry| expiry.parse().unwrap()),
            reply_to: properties.reply_to().cloned(),
            content_type: properties.content_type().cloned(),
            content_encoding: properties.content_encoding().cloned(),
            kind: properties.message_type().cloned(),
            app_id: properties.app_id().cloned(),
            headers: headers.map(|(name, value)| (name.as_ref().clone(), of_amqp_value(value))).collect(),
            body,
        }
    }
}

/// Milliseconds in a tenth of a second, in which IBM MQ counts expiry.
const TENTH_MS: u64 = 100;

/// Name of the IBM MQ property with a message's content type, since the message descriptor has no
/// field for it. No header has such a name.
const CONTENT_TYPE: &str = "$contentType";
const CONTENT_ENCODING: &str = "$contentEncoding";
const KIND: &str = "$type";

impl Message {
    /// Returns the message in the form in which the control socket of the IBM MQ stand-in accepts
    /// it. Headers must have names of letters only.
    pub(super) fn to_ibm_mq(&self) -> Value {
        let id = |base64: &String| hex::encode(decoded(base64));
        let mut properties: Map<String, Value> = self.headers.clone().into_iter().collect();
        let texts = [
            (CONTENT_TYPE, &self.content_type),
            (CONTENT_ENCODING, &self.content_encoding),
            (KIND, &self.kind),
        ];
        for (name, text) in texts {
            properties.extend(text.as_ref().map(|text| (name.to_owned(), json!(text))));
        }
        json!({
            "messageId": self.id.as_ref().map(id).unwrap_or_default(),
            "correlationId": self.correlation_id.as_ref().map(id).unwrap_or_default(),
            "persistence": i32::from(self.is_persistent),
            "priority": self.priority,
            "expiry": self.expiry_ms.map_or(json!(-1), |expiry| json!(expiry / TENTH_MS)),
            "replyToQueue": self.reply_to.as_deref().unwrap_or_default(),
            "application": self.app_id.as_deref().unwrap_or_default(),
            "properties": properties,
            "body": hex::encode(&self.body),
        })
    }

    /// Reads a message from the form in which the control socket of the IBM MQ stand-in shows it.
    pub(super) fn of_ibm_mq(shown: &Value) -> Self {
        let member = |name: &str| shown[name].as_str().unwrap();
        let bytes = |name: &str| hex::decode(member(name)).unwrap();
        let text = |name: &str| Some(member(name)).filter(|text| !text.is_empty()).map(str::to_owned);
        let mut properties = shown["properties"].as_object().unwrap().clone();
        let mut own = |name| properties.remove(name).map(|text| text.as_str().unwrap().to_owned());
        let (content_type, content_encoding, kind) = (own(CONTENT_TYPE), own(CONTENT_ENCODING), own(KIND));
        let correlation = bytes("correlationId");
        let length = correlation.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        Self {
            id: Some(STANDARD.encode(bytes("messageId"))),
            correlation_id: (length > 0).then(|| STANDARD.encode(&correlation[..length])),
            is_persistent: shown["persistence"] == 1,
            priority: u8::try_from(shown["priority"].as_u64().unwrap()).unwrap(),
            expiry_ms: shown["expiry"].as_u64().map(|tenths| tenths * TENTH_MS),
            reply_to: text("replyToQueue"),
            content_type,
            content_encoding,
            kind,
            app_id: text("application"),
            headers: properties.into_iter().map(|(name, value)| (header_name(&name), value)).collect(),
            body: bytes("body"),
        }
    }
}

/// Returns the name of a header from that of an IBM MQ property. Bytes that a property's name
/// cannot have are written there as `$` and two hexadecimal digits.
fn header_name(property: &str) -> String {
    let mut parts = property.split('$');
    let mut name = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at(2);
        name.extend(hex::decode(digits).unwrap());
        name.extend(rest.as_bytes());
    }
    String::from_utf8(name).unwrap()
}
