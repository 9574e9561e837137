//! Builds the event that reports messages in doubt, which may or may not have been put or removed.

use events::{Attributes, Event, EventError, Published};
use idempotency::{Cause, Doubt};
use serde_json::json;

const EVENT_TYPE: &str = "integrahub.message.in_doubt";

/// Maximum number of characters of a target's name in an event. A longer name is cut.
const LONGEST_TARGET: usize = 255;

/// Builds the event about a request whose messages are in doubt: they may or may not have been put
/// or removed. The same doubt always gives the same event.
pub(crate) fn of(doubt: &Doubt) -> Result<Published, EventError> {
    let id = doubt.id.to_string();
    let target: String = doubt.target.chars().filter(|c| !c.is_control()).take(LONGEST_TARGET).collect();
    let attributes = Attributes {
        idempotency_key: Attributes::key(&id)?,
        id,
        source: "/messages".to_owned(),
        event_type: EVENT_TYPE.to_owned(),
        subject: (!target.is_empty()).then(|| target.clone()),
        time: doubt.noticed_at,
        source_idempotency_key: Some(Attributes::source_key(&doubt.idempotency_key)?),
        tenant: doubt.tenant.clone(),
        trace_id: doubt.trace_id.clone(),
        traceparent: None,
    };
    let cause = match doubt.cause {
        Cause::Broker => "broker",
        Cause::Interrupted => "interrupted",
    };
    let data = json!({
        "operation": doubt.operation.to_lowercase(),
        "target": target,
        "attempt": doubt.attempt,
        "cause": cause,
        "messages_done": doubt.done,
        "messages_in_doubt": doubt.in_doubt,
    });
    Event::new(attributes, data)
}
