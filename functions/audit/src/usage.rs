//! Usage that is counted from audit events: requests, replays and refusals that leave no
//! idempotency record.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Deserialize;
use usage::{Counts, Line};

/// Value of `event_type` in the audit event of a finished request.
const COMPLETED: &str = "request.completed";

/// Members of an audit event from which usage is counted.
#[derive(Deserialize)]
struct Event {
    event_type: String,
    context: Context,
}

#[derive(Deserialize)]
struct Context {
    /// Method and path of the request's route, such as `POST /messages/produce`.
    operation: String,
    /// Id of the caller's tenant. Events of unknown callers lack the tenant, and are not counted.
    tenant: String,
    #[serde(default)]
    key_name: String,
    outcome: String,
}

/// Operation of the API as the usage table names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    /// Operation with idempotency records. Its requests and failures are counted from these
    /// records, and not from audit events.
    Recorded(&'static str),
    /// Operation without idempotency records, whose usage is counted from audit events alone.
    Unrecorded(&'static str),
}

/// Sums up the usage in audit events, and returns the usage lines of each day (UTC). `events` are
/// pairs of a time in epoch milliseconds and an event's JSON.
pub(crate) fn lines<'a>(events: impl Iterator<Item = (i64, &'a str)>) -> BTreeMap<Date, Vec<Line>> {
    let mut sums: BTreeMap<(Date, String, &str, String), Counts> = BTreeMap::new();
    for (millisecond, message) in events {
        let Ok(time) = Timestamp::from_millisecond(millisecond) else { continue };
        let Ok(Event { event_type, context }) = serde_json::from_str(message) else { continue };
        let Some(operation) = operation(&context.operation).filter(|_| event_type == COMPLETED) else {
            continue;
        };
        let Some((name, counts)) = counts(operation, &context.outcome) else { continue };
        let day = time.to_zoned(TimeZone::UTC).date();
        sums.entry((day, context.tenant, name, context.key_name)).or_default().add(&counts);
    }
    let mut lines: BTreeMap<Date, Vec<Line>> = BTreeMap::new();
    for ((day, tenant, operation, key_name), counts) in sums {
        let line = Line { tenant, day, operation: operation.to_owned(), key_name, counts };
        lines.entry(day).or_default().push(line);
    }
    lines
}

/// Returns the operation of a route, such as `POST /messages/produce`; `None` for an unknown one,
/// so that callers cannot create operations in the usage table.
fn operation(route: &str) -> Option<Operation> {
    use Operation::{Recorded, Unrecorded};
    let (method, path) = route.split_once(' ')?;
    let recorded = match (method, path) {
        ("POST", "/messages/produce") => "produce",
        ("POST", "/messages/consume") => "consume",
        ("POST", "/messages/move") => "move",
        ("POST", "/tests") => "load_test",
        ("POST", "/tests/{test_id}/stop") => "load_test_stop",
        ("POST", "/v1/inovafarma/products") => "ingest",
        ("POST", "/v1/inovafarma/products/uploads") => "upload",
        ("POST", "/v1/inovafarma/batches/{batch_id}/replay") => "replay",
        (_, "/messages/bodies" | "/messages/bodies/{body_id}") => return Some(Unrecorded("bodies")),
        (_, "/queue/depth") => return Some(Unrecorded("depth")),
        (_, "/connections/test") => return Some(Unrecorded("connection-test")),
        (_, "/targets") => return Some(Unrecorded("targets")),
        (_, "/tests" | "/tests/{test_id}") => return Some(Unrecorded("tests")),
        (_, "/v1/usage") => return Some(Unrecorded("usage")),
        (_, "/v1/requests/{operation}/{key}") => return Some(Unrecorded("requests")),
        ("GET", "/status" | "/limits" | "/metrics") => return Some(Unrecorded("status")),
        ("GET", path) if path.starts_with("/v1/inovafarma/batches") => return Some(Unrecorded("batches")),
        _ => return None,
    };
    Some(Recorded(recorded))
}

/// Returns the name of the operation and the counts that a request's audit event adds to it; `None`
/// if it adds nothing, for example because the idempotency record counts it.
fn counts(operation: Operation, outcome: &str) -> Option<(&'static str, Counts)> {
    let zero = Counts::default();
    let (name, requests) = match operation {
        Operation::Recorded(name) => (name, 0),
        Operation::Unrecorded(name) => (name, 1),
    };
    let counts = match outcome {
        "replayed" => Counts { replays: 1, ..zero },
        "refused" => Counts { refused: 1, ..zero },
        "failed" => Counts { requests, failed: requests, ..zero },
        "done" => Counts { requests, ..zero },
        _ => zero,
    };
    (!counts.is_zero()).then_some((name, counts))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOON: i64 = 1_795_780_800_000;

    fn event(operation: &str, outcome: &str) -> String {
        json!({
            "event_type": COMPLETED, "message": "answered", "correlation_id": "c",
            "context": {"operation": operation, "tenant": "acme", "key_name": "till 1", "outcome": outcome,
                "status": 200, "replay": false, "duration_ms": 3},
        })
        .to_string()
    }

    fn counted(events: &[(i64, String)]) -> Vec<(String, String, Counts)> {
        let lines = lines(events.iter().map(|(time, message)| (*time, message.as_str())));
        lines
            .into_iter()
            .flat_map(|(day, lines)| {
                lines.into_iter().map(move |line| {
                    assert_eq!(
                        (line.day, line.tenant.as_str(), line.key_name.as_str()),
                        (day, "acme", "till 1")
                    );
                    (day.to_string(), line.operation, line.counts)
                })
            })
            .collect()
    }

    #[test]
    fn replays_and_refusals_are_counted_and_what_has_a_record_is_not() {
        let route = "POST /messages/produce";
        let outcomes = ["done", "failed", "replayed", "refused", "replayed"];
        let events: Vec<_> = outcomes.iter().map(|outcome| (NOON, event(route, outcome))).collect();
        let counts = Counts { replays: 2, refused: 1, ..Counts::default() };
        assert_eq!(counted(&events), [("2026-11-27".to_owned(), "produce".to_owned(), counts)]);
        assert!(counted(&events[..2]).is_empty());
    }

    #[test]
    fn requests_of_operations_without_a_record_are_counted() {
        let outcomes = ["done", "done", "failed", "refused"];
        let events: Vec<_> =
            outcomes.iter().map(|outcome| (NOON, event("POST /queue/depth", outcome))).collect();
        let counts = Counts { requests: 3, failed: 1, refused: 1, ..Counts::default() };
        assert_eq!(counted(&events), [("2026-11-27".to_owned(), "depth".to_owned(), counts)]);
    }

    #[test]
    fn a_request_counts_on_its_day_in_utc() {
        let midnight = NOON + 12 * 3_600_000;
        let route = "GET /v1/inovafarma/batches/{batch_id}";
        let events = [(midnight - 1, event(route, "done")), (midnight, event(route, "done"))];
        let days: Vec<_> = counted(&events).into_iter().map(|(day, operation, _)| (day, operation)).collect();
        let expected = ["2026-11-27", "2026-11-28"].map(|day| (day.to_owned(), "batches".to_owned()));
        assert_eq!(days, expected);
    }

    #[test]
    fn events_without_a_tenant_of_another_type_or_of_unknown_paths_are_left_out() {
        let mut stranger: serde_json::Value =
            serde_json::from_str(&event("POST /messages/produce", "refused")).unwrap();
        stranger["context"]["tenant"] = serde_json::Value::Null;
        let other = event("POST /messages/produce", "refused").replace(COMPLETED, "request.began");
        let unknown = event("GET /v1/anything", "refused");
        let events = [stranger.to_string(), other, unknown, "START RequestId: 7".to_owned()];
        assert!(counted(&events.map(|message| (NOON, message))).is_empty());
    }

    #[test]
    fn every_route_of_the_contract_that_needs_a_caller_has_an_operation() {
        let contract = include_str!("../../../openapi.yaml");
        let paths = contract.lines().filter_map(|line| line.strip_prefix("  /")?.strip_suffix(':'));
        for path in paths.filter(|path| !path.starts_with("health/")) {
            let has_one = ["GET", "POST", "DELETE"]
                .iter()
                .any(|method| operation(&format!("{method} /{path}")).is_some());
            let is_free = ["docs", "console", "openapi.json"].iter().any(|free| path.starts_with(free));
            assert_eq!(has_one, !is_free, "/{path}");
        }
    }
}
