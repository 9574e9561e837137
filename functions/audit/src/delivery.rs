//! Events by which CloudWatch Logs delivers log lines to a function: JSON, compressed, in base64
//! ("Using subscription filters", Amazon CloudWatch Logs User Guide).

use std::io::{Error, ErrorKind, Read as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::Value;

use crate::AuditError;
use crate::calls::Line;

/// Maximum number of bytes of a delivery after decompression. CloudWatch Logs sends a megabyte, or
/// a little more.
const LARGEST: u64 = 32 * 1024 * 1024;
/// Value of `messageType` for a delivery with log events. CloudWatch Logs also sends messages that
/// only test whether the function can be invoked.
const DATA: &str = "DATA_MESSAGE";

#[derive(Deserialize)]
struct Event {
    awslogs: Packed,
}

#[derive(Deserialize)]
struct Packed {
    data: String,
}

/// Log events of one log group, as a subscription filter delivers them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Delivery {
    message_type: String,
    log_group: String,
    log_events: Vec<LogEvent>,
}

#[derive(Debug, Deserialize)]
struct LogEvent {
    /// Id that CloudWatch Logs gave the event. A repeated delivery has the same id.
    id: String,
    /// Time of the log event, in epoch milliseconds.
    timestamp: i64,
    message: String,
}

impl Delivery {
    /// Unpacks the event of an invocation. `None` if the delivery only tests the function.
    pub(crate) fn unpack(event: Value) -> Result<Option<Self>, AuditError> {
        let event: Event = attempt::malformed::from_value(event).map_err(AuditError::Event)?;
        let packed = STANDARD.decode(event.awslogs.data);
        let packed = packed.map_err(|error| AuditError::Data(Error::new(ErrorKind::InvalidData, error)))?;
        let text = std::io::read_to_string(GzDecoder::new(packed.as_slice()).take(LARGEST));
        let text = text.map_err(AuditError::Data)?;
        let delivery: Self = attempt::malformed::from_slice(text.as_bytes()).map_err(AuditError::Lines)?;
        Ok((delivery.message_type == DATA).then_some(delivery))
    }

    /// Returns the message of each log event, with its time in epoch milliseconds.
    pub(crate) fn messages(&self) -> impl Iterator<Item = (i64, &str)> {
        self.log_events.iter().map(|event| (event.timestamp, event.message.as_str()))
    }

    /// Converts the log events of the delivery to events for the audit log group, and adds the
    /// members `event_id` and `log_group` to each. Messages that are no JSON object are left out.
    pub(crate) fn into_lines(self) -> Vec<Line> {
        let group = quoted(&self.log_group);
        let line = |LogEvent { id, timestamp, message }: LogEvent| {
            // The line is as long as the message, and is not read for this.
            let members = message.trim().strip_prefix('{').unwrap_or_default();
            let message = format!("{{\"event_id\":{},\"log_group\":{group},{members}", quoted(&id));
            Line { timestamp, message }
        };
        let is_object = |event: &LogEvent| event.message.trim_start().starts_with("{\"");
        self.log_events.into_iter().filter(is_object).map(line).collect()
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
