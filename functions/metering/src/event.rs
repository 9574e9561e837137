//! Events that publish usage: the counters of an hour, their corrections, and reached budgets.

use access::Reached;
use events::{Attributes, DirectEvent, Event, EventError};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use usage::{Hour, Line};

/// Maximum number of usage lines in one event. Even with the longest names of API keys, every
/// destination accepts an event with that many lines.
const MOST_LINES: usize = 250;

/// Kind of an event with usage lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All usage lines (counters of an API key for an operation) of an hour that has ended.
    Hour,
    /// Usage that an hour's event lacked, because a recount of the records found it later.
    Correction,
}

impl Kind {
    const fn event_type(self) -> &'static str {
        match self {
            Self::Hour => "integrahub.usage.hour",
            Self::Correction => "integrahub.usage.correction",
        }
    }
}

/// Builds the events with an hour's usage lines: one event for each tenant, or several for a tenant
/// with more than 250 lines. The same lines always result in the same events, ids included.
pub(crate) fn of_hour(kind: Kind, hour: Hour, lines: &[Line]) -> Result<Vec<DirectEvent>, EventError> {
    let mut sorted: Vec<&Line> = lines.iter().collect();
    sorted.sort_by(|one, other| names(one).cmp(&names(other)));
    let mut events = Vec::new();
    for of_tenant in sorted.chunk_by(|line, next| line.tenant == next.tenant) {
        let parts = of_tenant.chunks(MOST_LINES);
        let number = parts.len();
        for (part, lines) in (1_usize..).zip(parts) {
            let Some(tenant) = lines.first().map(|line| line.tenant.as_str()) else { continue };
            let lines: Vec<Value> = lines.iter().map(|line| line_of(line)).collect();
            let data = json!({
                "tenant": tenant,
                "hour": hour.start(),
                "part": part,
                "parts": number,
                "lines": lines,
            });
            let identity = data.to_string();
            events.push(direct_event(kind.event_type(), &identity, tenant, hour.end(), data)?);
        }
    }
    Ok(events)
}

fn names(line: &Line) -> (&str, &str, &str) {
    (&line.tenant, &line.operation, &line.key_name)
}

fn line_of(line: &Line) -> Value {
    let Line { operation, key_name, counts, .. } = line;
    json!({
        "operation": operation,
        "key": key_name,
        "requests": counts.requests,
        "failed": counts.failed,
        "messages": counts.messages,
        "bytes": counts.bytes,
    })
}

/// Builds the event that a tenant has reached a percentage of its budget. Repeated calls build
/// events with the same id, even if the amount has grown in between.
pub(crate) fn of_budget(
    tenant: &str,
    currency: &str,
    reached: &Reached,
    now: Timestamp,
) -> Result<DirectEvent, EventError> {
    let Reached { percent, amount, budget, month, refuses } = reached;
    let data = json!({
        "tenant": tenant,
        "month": month.to_string(),
        "percent": percent,
        "amount": amount,
        "budget": budget,
        "currency": currency,
        "refuses": refuses,
    });
    let identity = format!("{tenant} {month} {percent} {budget}");
    direct_event("integrahub.usage.budget", &identity, tenant, now, data)
}

fn direct_event(
    event_type: &'static str,
    identity: &str,
    tenant: &str,
    time: Timestamp,
    data: Value,
) -> Result<DirectEvent, EventError> {
    let id = id(event_type, identity);
    let key = Attributes::key(&id)?;
    let group = key.to_string();
    let attributes = Attributes {
        trace_id: id.clone(),
        id,
        source: "/usage".to_owned(),
        event_type: event_type.to_owned(),
        subject: Some(tenant.to_owned()),
        time,
        idempotency_key: key,
        source_idempotency_key: None,
        tenant: tenant.to_owned(),
        traceparent: None,
    };
    Ok(DirectEvent { event: Event::new(attributes, data)?, group })
}

/// Returns the id of an event, a UUID derived from the event's type and `identity`, the text that
/// distinguishes the event from others of the type.
fn id(event_type: &str, identity: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(event_type.as_bytes());
    hash.update(identity.as_bytes());
    let hash: [u8; 32] = hash.finalize().into();
    uuid::Builder::from_custom_bytes(hash.first_chunk().copied().unwrap_or_default()).into_uuid().to_string()
}

#[cfg(test)]
mod tests {
    use usage::Counts;

    use super::*;

    fn line(tenant: &str, operation: &str, key_name: &str) -> Line {
        Line {
            tenant: tenant.to_owned(),
            day: "2026-11-27".parse().unwrap(),
            operation: operation.to_owned(),
            key_name: key_name.to_owned(),
            counts: Counts { requests: 2, failed: 1, messages: 30, bytes: 400, ..Counts::default() },
        }
    }

    fn hour() -> Hour {
        "2026-11-27T02".parse().unwrap()
    }

    /// Checks the data of an event against the JSON schema of its type.
    fn check(direct: &DirectEvent) {
        let event_type = direct.event.attributes().event_type.as_str();
        let (_, schema) = Event::DATA_SCHEMAS.into_iter().find(|(name, _)| *name == event_type).unwrap();
        let schema = serde_json::from_str(schema).unwrap();
        let faults = jsonschema::validator_for(&schema).unwrap();
        assert!(faults.is_valid(direct.event.data()), "{:?}", direct.event.data());
    }

    #[test]
    fn an_hour_has_one_event_for_each_tenant_however_often_it_is_made() {
        let lines =
            [line("b", "produce", "till 1"), line("a", "produce", ""), line("b", "consume", "till 1")];
        let events = of_hour(Kind::Hour, hour(), &lines).unwrap();
        let tenants: Vec<&str> =
            events.iter().map(|direct| direct.event.attributes().tenant.as_str()).collect();
        assert_eq!(tenants, ["a", "b"]);
        events.iter().for_each(check);
        let data = events[1].event.data();
        assert_eq!((&data["hour"], &data["parts"]), (&json!("2026-11-27T02:00:00Z"), &json!(1)));
        let expected = json!({"operation": "consume", "key": "till 1", "requests": 2, "failed": 1,
                              "messages": 30, "bytes": 400});
        assert_eq!(data["lines"][0], expected);
        let reversed: Vec<Line> = lines.iter().rev().cloned().collect();
        assert_eq!(of_hour(Kind::Hour, hour(), &reversed).unwrap(), events);
        let correction = of_hour(Kind::Correction, hour(), &lines).unwrap();
        correction.iter().for_each(check);
        assert_ne!(correction[0].event.attributes().id, events[0].event.attributes().id);
    }

    #[test]
    fn a_tenant_with_many_lines_has_several_events() {
        let lines: Vec<Line> =
            (0..=MOST_LINES).map(|key| line("a", "produce", &format!("{key:04}"))).collect();
        let events = of_hour(Kind::Hour, hour(), &lines).unwrap();
        let sizes = events.iter().map(|direct| direct.event.data()["lines"].as_array().unwrap().len());
        assert_eq!(sizes.collect::<Vec<_>>(), [MOST_LINES, 1]);
    }

    #[test]
    fn a_budget_that_was_reached_has_an_event_by_its_schema() {
        let now: Timestamp = "2026-11-27T02:30:00Z".parse().unwrap();
        let reached = Reached {
            percent: 80,
            amount: "81.5".parse().unwrap(),
            budget: "100".parse().unwrap(),
            month: access::Month::of(now),
            refuses: true,
        };
        let direct = of_budget("acme", "USD", &reached, now).unwrap();
        check(&direct);
        assert_eq!(direct.event.data()["amount"], "81.500000");
    }
}
