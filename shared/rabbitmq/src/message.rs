//! Messages between the gateway's form and AMQP's.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, DecimalValue, FieldTable, ShortString};
use mq::{CorrelId, MessageBody, MessageId, Outgoing, OutgoingMessage, Persistence, ReceivedMessage};
use serde_json::{Map, Number, Value, json};

use crate::content_header;

const TRANSIENT: u8 = 1;
const PERSISTENT: u8 = 2;

/// The header in which quorum queues count how often a message came back.
const DELIVERY_COUNT: &str = "x-delivery-count";

/// Where headers are shown, as bytes, that are not a table that can be read.
const UNREADABLE: &str = "unreadable";

/// A correlation id that AMQP can carry.
///
/// # Errors
/// When it is not UTF-8 or longer than a short string.
pub(crate) fn correlation_id(id: MessageId, correl_id: &CorrelId) -> Result<Option<ShortString>, String> {
    let text = match correl_id {
        CorrelId::None => return Ok(None),
        CorrelId::EchoMsgId => id.to_hex(),
        CorrelId::Bytes(bytes) => String::from_utf8(bytes.clone())
            .map_err(|_| "RabbitMQ carries correlation ids that are UTF-8 only".to_owned())?,
    };
    ShortString::try_new(text)
        .map(Some)
        .map_err(|_| "RabbitMQ carries correlation ids of at most 255 bytes".to_owned())
}

/// The properties of an outgoing message.
pub(crate) fn properties(outgoing: &Outgoing, message: &OutgoingMessage) -> Result<BasicProperties, String> {
    let props = outgoing.props();
    let mut headers = FieldTable::default();
    for (name, value) in outgoing.headers(message.sequence).iter() {
        let name = ShortString::try_new(name).map_err(|error| error.to_string())?;
        headers.insert(name, AMQPValue::LongString(value.into()));
    }
    headers.insert("idempotencyKey".into(), AMQPValue::LongString(outgoing.idempotency_key().into()));
    let sequence = i64::try_from(message.sequence).unwrap_or(i64::MAX);
    headers.insert("sequence".into(), AMQPValue::LongLongInt(sequence));
    let mut properties = BasicProperties::default()
        .with_message_id(message.id.to_hex().into())
        .with_content_type(message.content_type.into())
        .with_delivery_mode(match props.persistence {
            Persistence::Persistent => PERSISTENT,
            Persistence::Nonpersistent => TRANSIENT,
        })
        .with_headers(headers);
    if props.priority.get() > 0 {
        properties = properties.with_priority(props.priority.get());
    }
    if let Some(expiry) = props.expiry_ms.filter(|expiry| expiry.get() > 0) {
        properties = properties.with_expiration(expiry.get().to_string().into());
    }
    if let Ok(seconds) = u64::try_from(outgoing.created_at().as_second()) {
        properties = properties.with_timestamp(seconds);
    }
    if let Some(id) = correlation_id(message.id, &message.correl_id)? {
        properties = properties.with_correlation_id(id);
    }
    Ok(properties)
}

/// A message as it was delivered, whoever put it.
pub(crate) fn received(delivery: Delivery) -> ReceivedMessage {
    let properties = &delivery.properties;
    let bytes = |text: &ShortString| text.as_str().as_bytes().to_vec();
    let headers = properties.headers().as_ref();
    let counted = returns(&delivery);
    let moved = headers.map(content_header::moved).unwrap_or_default();
    let mut shown = headers.map(table).unwrap_or_default();
    shown.retain(|name, _| !content_header::is_moved(name));
    if let Some(bytes) = &moved.headers {
        shown.insert(UNREADABLE.to_owned(), binary(bytes));
    }
    let content_type = moved.content_type.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    ReceivedMessage {
        msg_id: properties.message_id().as_ref().map(bytes).or(moved.message_id),
        correl_id: properties.correlation_id().as_ref().map(bytes).or(moved.correlation_id),
        headers: shown,
        persistence: match properties.delivery_mode() {
            Some(PERSISTENT) => Persistence::Persistent,
            _ => Persistence::Nonpersistent,
        },
        priority: properties.priority().unwrap_or_default(),
        expiry_ms: properties.expiration().as_ref().and_then(|text| text.as_str().parse().ok()),
        backout_count: counted.unwrap_or(u64::from(delivery.redelivered)),
        put_at: properties.timestamp().and_then(timestamp),
        format: properties.content_type().as_ref().map(ToString::to_string).or(content_type),
        body: MessageBody(delivery.data),
    }
}

/// How often a message went back to its queue, where the queue counts that: quorum queues do, from
/// 0 on.
pub(crate) fn returns(delivery: &Delivery) -> Option<u64> {
    delivery.properties.headers().as_ref()?.inner().get(DELIVERY_COUNT).and_then(integer)
}

fn timestamp(seconds: u64) -> Option<Timestamp> {
    Timestamp::from_second(i64::try_from(seconds).ok()?).ok()
}

pub(crate) fn integer(value: &AMQPValue) -> Option<u64> {
    match value {
        AMQPValue::ShortShortInt(value) => u64::try_from(*value).ok(),
        AMQPValue::ShortShortUInt(value) => Some((*value).into()),
        AMQPValue::ShortInt(value) => u64::try_from(*value).ok(),
        AMQPValue::ShortUInt(value) => Some((*value).into()),
        AMQPValue::LongInt(value) => u64::try_from(*value).ok(),
        AMQPValue::LongUInt(value) => Some((*value).into()),
        AMQPValue::LongLongInt(value) => u64::try_from(*value).ok(),
        _ => None,
    }
}

fn table(table: &FieldTable) -> Map<String, Value> {
    table.inner().iter().map(|(name, value)| (name.to_string(), json(value))).collect()
}

/// A header's value as JSON: text as a string, other bytes as `{"base64": …}`, times as RFC 3339,
/// decimals as text.
fn json(value: &AMQPValue) -> Value {
    match value {
        AMQPValue::Boolean(value) => Value::Bool(*value),
        AMQPValue::ShortShortInt(value) => json!(value),
        AMQPValue::ShortShortUInt(value) => json!(value),
        AMQPValue::ShortInt(value) => json!(value),
        AMQPValue::ShortUInt(value) => json!(value),
        AMQPValue::LongInt(value) => json!(value),
        AMQPValue::LongUInt(value) => json!(value),
        AMQPValue::LongLongInt(value) => json!(value),
        AMQPValue::Float(value) => real((*value).into()),
        AMQPValue::Double(value) => real(*value),
        AMQPValue::DecimalValue(value) => Value::String(decimal(*value)),
        AMQPValue::ShortString(text) => Value::String(text.to_string()),
        AMQPValue::LongString(text) => match std::str::from_utf8(text.as_bytes()) {
            Ok(text) => Value::String(text.to_owned()),
            Err(_) => binary(text.as_bytes()),
        },
        AMQPValue::FieldArray(values) => Value::Array(values.as_slice().iter().map(json).collect()),
        AMQPValue::Timestamp(seconds) => match timestamp(*seconds) {
            Some(at) => Value::String(at.to_string()),
            None => json!(seconds),
        },
        AMQPValue::FieldTable(values) => Value::Object(table(values)),
        AMQPValue::ByteArray(bytes) => binary(bytes.as_slice()),
        AMQPValue::Void => Value::Null,
    }
}

fn binary(bytes: &[u8]) -> Value {
    json!({ "base64": STANDARD.encode(bytes) })
}

/// JSON has no number for what is not finite.
fn real(value: f64) -> Value {
    Number::from_f64(value).map_or_else(|| Value::String(value.to_string()), Value::Number)
}

fn decimal(value: DecimalValue) -> String {
    let digits = value.value.to_string();
    let scale = usize::from(value.scale);
    if scale == 0 {
        return digits;
    }
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    format!("{whole}.{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_json_lacks_become_text() {
        assert_eq!(json(&AMQPValue::Double(f64::NAN)), json!("NaN"));
        assert_eq!(json(&AMQPValue::Float(f32::INFINITY)), json!("inf"));
    }

    #[test]
    fn decimals_keep_their_digits() {
        for (scale, value, text) in [(0, 7, "7"), (2, 5, "0.05"), (2, 12_345, "123.45"), (255, 1, "")] {
            let shown = decimal(DecimalValue { scale, value });
            assert!(if text.is_empty() { shown.len() == 257 } else { shown == text }, "{shown}");
        }
    }

    #[test]
    fn correlation_ids_are_what_amqp_carries() {
        let id = MessageId([7; 24]);
        let check = |correl_id: &CorrelId| correlation_id(id, correl_id).map(|id| id.map(String::from));
        assert_eq!(check(&CorrelId::None), Ok(None));
        assert_eq!(check(&CorrelId::EchoMsgId), Ok(Some("07".repeat(24))));
        assert_eq!(check(&CorrelId::Bytes(b"abc".to_vec())), Ok(Some("abc".to_owned())));
        assert!(check(&CorrelId::Bytes(vec![b'a'; 255])).is_ok());
        assert!(check(&CorrelId::Bytes(vec![b'a'; 256])).is_err());
        assert!(check(&CorrelId::Bytes(vec![0xff])).is_err());
    }
}
