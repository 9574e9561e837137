//! Events that invoke a scheduled function: the event that its schedule sends, and the empty event
//! of a manual invocation.

use serde_json::Value;

/// Error for an event that is neither a scheduled event nor empty. Scheduled functions take no
/// parameters, so an event that contains some is refused.
#[derive(Debug, thiserror::Error)]
#[error("the event is neither the schedule's nor empty")]
pub struct UnknownEvent;

/// Accepts a scheduled event of EventBridge, and the empty event of a manual invocation. A
/// scheduled function takes its parameters from the settings of the deployment, never from the
/// event.
pub fn check(event: &Value) -> Result<(), UnknownEvent> {
    let is_empty = event.is_null() || event.as_object().is_some_and(serde_json::Map::is_empty);
    let member = |name| event.get(name).and_then(Value::as_str);
    let is_scheduled =
        member("source") == Some("aws.events") && member("detail-type") == Some("Scheduled Event");
    if is_empty || is_scheduled { Ok(()) } else { Err(UnknownEvent) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_that_would_be_ignored_is_refused() {
        for event in [json!({"hours": 1}), json!([]), json!("now"), json!({"source": "aws.events"})] {
            assert!(check(&event).is_err(), "{event}");
        }
        for event in
            [Value::Null, json!({}), json!({"source": "aws.events", "detail-type": "Scheduled Event"})]
        {
            assert!(check(&event).is_ok(), "{event}");
        }
    }
}
