//! JSON of messages on the control socket: numbers as in the MQI, bytes in hexadecimal digits.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::protocol::{Chars, Descriptor, Id, Message, Property, Value};

/// JSON of a message on the control socket. Missing members have the values of MQMD_DEFAULT.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Shown {
    message_id: String,
    correlation_id: String,
    backout_count: i32,
    persistence: i32,
    priority: i32,
    /// Expiry of the message in tenths of a second, as MQMD.Expiry.
    expiry: i32,
    format: String,
    ccsid: i32,
    reply_to_queue: String,
    application: String,
    properties: serde_json::Map<String, Json>,
    body: String,
}

impl Default for Shown {
    fn default() -> Self {
        Self::from(&Message::default())
    }
}

impl From<&Message> for Shown {
    fn from(message: &Message) -> Self {
        let descriptor = &message.descriptor;
        let properties = message.properties.iter().map(|property| (property.name.clone(), json(property)));
        Self {
            message_id: hex::encode(descriptor.message_id),
            correlation_id: hex::encode(descriptor.correlation_id),
            backout_count: descriptor.backout_count,
            persistence: descriptor.persistence,
            priority: descriptor.priority,
            expiry: descriptor.expiry,
            format: descriptor.format.to_string(),
            ccsid: descriptor.ccsid,
            reply_to_queue: descriptor.reply_to_queue.to_string(),
            application: descriptor.context.application.to_string(),
            properties: properties.collect(),
            body: hex::encode(&message.body),
        }
    }
}

impl Shown {
    /// Converts the JSON to a message. Properties may be texts, 64-bit integers and booleans.
    ///
    /// # Errors
    /// If a text is not an id, not bytes, or not the value of a property. The error says which.
    pub(crate) fn message(self) -> Result<Message, String> {
        let mut descriptor = Descriptor {
            message_id: id(&self.message_id)?,
            correlation_id: id(&self.correlation_id)?,
            persistence: self.persistence,
            priority: self.priority,
            expiry: self.expiry,
            format: Chars::from(self.format.as_str()),
            ccsid: self.ccsid,
            reply_to_queue: Chars::from(self.reply_to_queue.as_str()),
            ..Descriptor::default()
        };
        descriptor.context.application = Chars::from(self.application.as_str());
        let properties =
            self.properties.into_iter().map(|(name, json)| Ok(Property::new(name, value(json)?)));
        Ok(Message {
            descriptor,
            properties: properties.collect::<Result<_, String>>()?,
            body: bytes(&self.body)?,
        })
    }
}

fn bytes(digits: &str) -> Result<Vec<u8>, String> {
    hex::decode(digits).map_err(|error| error.to_string())
}

/// Parses an id from hexadecimal digits. Missing bytes at the end are zero.
fn id(digits: &str) -> Result<Id, String> {
    let (bytes, mut id) = (bytes(digits)?, Id::default());
    let begin = id.get_mut(..bytes.len()).ok_or_else(|| format!("{digits} is longer than an id"))?;
    begin.copy_from_slice(&bytes);
    Ok(id)
}

fn json(property: &Property) -> Json {
    match property.value() {
        Ok(Value::Null) | Err(_) => Json::Null,
        Ok(Value::Boolean(value)) => value.into(),
        Ok(Value::Bytes(bytes)) => hex::encode(bytes).into(),
        Ok(Value::Integer(number)) => number.into(),
        Ok(Value::Float(number)) => number.into(),
        Ok(Value::Text(text)) => text.into(),
    }
}

fn value(json: Json) -> Result<Value, String> {
    match json {
        Json::Bool(value) => Ok(Value::Boolean(value)),
        Json::String(text) => Ok(Value::Text(text)),
        json => json.as_i64().map(Value::Integer).ok_or_else(|| format!("{json} is no value of a property")),
    }
}
