//! `integrahub audit`: shows audit events of API requests, read from their log group in CloudWatch
//! Logs. `docs/audit.md` lists the fields of an event.

pub(crate) mod requests;

use std::collections::{HashSet, VecDeque};

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde_json::{Map, Value};

use crate::args::{Audit, Outcome};
use crate::aws::Aws;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::record::tenant;

const SCHEMA: &str = "integrahub.audit.v1";
const HEADER: [&str; 8] = ["time", "tenant", "key", "operation", "target", "outcome", "reason", "trace id"];
/// Maximum number of pages of the audit log that one command reads. CloudWatch Logs ends a page
/// after a megabyte of events, or earlier after a part of the time span.
const MOST_PAGES: usize = 1_000;

/// Runs `integrahub audit`.
///
/// # Errors
/// If the log group cannot be read, or the tenant does not exist.
pub(crate) async fn run(args: &Audit, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    let tenant = match &args.tenant {
        Some(reference) => Some(tenant(context, reference).await?),
        None => None,
    };
    let wanted = Audit { tenant, ..args.clone() };
    let now = Timestamp::now().to_zoned(TimeZone::UTC);
    let since = now.checked_sub(args.since).map(|time: Zoned| time.timestamp().as_millisecond());
    let since = since.map_err(|error| Failure::usage("--since goes back too far").why(error.to_string()))?;
    let most = usize::try_from(args.max).unwrap_or(usize::MAX);
    let (events, is_all) = read(context, &wanted, since, most).await?;
    if !is_all {
        out.note("the log has more than was read, and the newest is missing: ask for a shorter --since");
    } else if events.is_empty() {
        out.note("no request is in the audit log; events may come a minute late");
    }
    let rows = events.iter().map(row).collect();
    out.list(SCHEMA, "events", events, &HEADER, rows);
    Ok(Exit::Done)
}

/// Reads the newest `most` events that meet the conditions in `wanted`, from the time `since`
/// (milliseconds since 1970) on. They are ordered by time, without events that were delivered
/// twice. The returned flag is false if the log has more pages than [`MOST_PAGES`], so that the
/// newest events are missing.
async fn read(
    context: &Context,
    wanted: &Audit,
    since: i64,
    most: usize,
) -> Result<(Vec<Value>, bool), Failure> {
    let aws = Aws::of(context).await?;
    let (group, query) = (aws.audit_log_group().await?, aws.query());
    let (mut events, mut seen) = (VecDeque::new(), HashSet::new());
    let take = |page: &[Value]| {
        for event in page {
            let Some(event) = event.get("message").and_then(Value::as_str).and_then(parsed) else { continue };
            // A delivery that was repeated has the same ids.
            let is_new =
                event.get("event_id").and_then(Value::as_str).is_none_or(|id| seen.insert(id.to_owned()));
            if is_new && wanted.takes(&event) {
                events.push_back(event);
            }
            if events.len() > most {
                events.pop_front();
            }
        }
    };
    let is_all = query.log_events(&group, since, &wanted.pattern(), MOST_PAGES, take).await;
    let is_all = is_all.map_err(|error| error.into_failure(&format!("read the log group `{group}`")))?;
    Ok((events.into(), is_all))
}

/// Parses a line of the audit log, and moves the fields of its member `context` to the top level.
/// Returns `None` if the line is not an audit event.
fn parsed(message: &str) -> Option<Value> {
    let Value::Object(mut line) = serde_json::from_str(message).ok()? else { return None };
    let Some(Value::Object(context)) = line.remove("context") else { return None };
    let mut event = Map::new();
    for (name, from) in [("time", "timestamp"), ("trace_id", "correlation_id"), ("event_id", "event_id")] {
        event.insert(name.to_owned(), line.remove(from).unwrap_or_default());
    }
    event.extend(context);
    Some(Value::Object(event))
}

impl Audit {
    /// Returns the filter pattern for CloudWatch Logs. It covers the tenant and the outcome; this
    /// program itself checks the other conditions.
    fn pattern(&self) -> String {
        // Quotation marks and wildcards would mean something else there.
        let plain = |text: &&str| text.chars().all(|c| c.is_ascii_alphanumeric() || "._:/- ".contains(c));
        let condition = |name: &str, value: Option<&str>| {
            value.filter(plain).map(|value| format!("($.context.{name} = \"{value}\")"))
        };
        let conditions = [
            Some("($.event_type = \"request.completed\")".to_owned()),
            condition("tenant", self.tenant.as_deref()),
            condition("outcome", self.outcome.map(Outcome::as_str)),
        ];
        format!("{{ {} }}", conditions.into_iter().flatten().collect::<Vec<_>>().join(" && "))
    }

    fn takes(&self, event: &Value) -> bool {
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
        let is = |wanted: Option<&str>, names: &[&str]| {
            wanted.is_none_or(|wanted| names.iter().any(|name| text(name) == wanted))
        };
        let lists = |wanted: Option<&str>, name: &str| {
            wanted.is_none_or(|wanted| text(name).split(',').any(|part| part == wanted))
        };
        let queue = self.queue.as_deref();
        is(self.tenant.as_deref(), &["tenant"])
            && is(self.key.as_deref(), &["key_name", "key_id"])
            && is(self.target.as_deref(), &["target_ref", "mq_target"])
            && is(self.outcome.map(Outcome::as_str), &["outcome"])
            && (is(queue, &["queue"]) || lists(queue, "further_queues"))
            && lists(self.tag.as_deref(), "tags")
    }
}

/// Returns the table cells of an audit event.
fn row(event: &Value) -> Vec<String> {
    let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
    let first = |names: &[&str]| names.iter().map(|name| text(name)).find(|text| !text.is_empty());
    vec![
        text("time").to_owned(),
        text("tenant").to_owned(),
        first(&["key_name", "key_id"]).unwrap_or_default().to_owned(),
        text("operation").to_owned(),
        first(&["mq_target", "target_ref", "conn_name", "batch_id"]).unwrap_or_default().to_owned(),
        text("outcome").to_owned(),
        text("reason").to_owned(),
        text("trace_id").to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(context: &Value) -> Value {
        let line = json!({
            "event_id": "7", "timestamp": "2026-11-27T10:00:00.000Z", "correlation_id": "trace", "level": "info",
            "event_type": "request.completed", "context": context,
        });
        parsed(&line.to_string()).unwrap()
    }

    #[test]
    fn an_event_has_its_fields_beside_each_other() {
        let event = event(&json!({"tenant": "t", "status": 201}));
        let expected = json!({
            "time": "2026-11-27T10:00:00.000Z", "trace_id": "trace", "event_id": "7", "tenant": "t", "status": 201,
        });
        assert_eq!(event, expected);
        assert_eq!(parsed("START RequestId"), None);
        assert_eq!(parsed("{\"event_type\":\"x\"}"), None);
    }

    #[test]
    fn each_condition_is_checked_and_all_have_to_hold() {
        let event = event(&json!({
            "tenant": "t", "key_name": "orders", "key_id": "0a1b2c3d", "target_ref": "stock",
            "mq_target": "QM1:A", "queue": "A", "further_queues": "B,C", "outcome": "refused", "tags": "x,y",
        }));
        let some = |text: &str| Some(text.to_owned());
        for wanted in [
            Audit { key: some("orders"), ..Audit::default() },
            Audit { key: some("0a1b2c3d"), tenant: some("t"), ..Audit::default() },
            Audit { target: some("QM1:A"), ..Audit::default() },
            Audit { target: some("stock"), outcome: Some(Outcome::Refused), ..Audit::default() },
            Audit { queue: some("A"), ..Audit::default() },
            Audit { queue: some("C"), tag: some("y"), ..Audit::default() },
        ] {
            assert!(wanted.takes(&event), "{wanted:?}");
        }
        for wanted in [
            Audit { queue: some("D"), ..Audit::default() },
            Audit { key: some("orders"), outcome: Some(Outcome::Done), ..Audit::default() },
            Audit { tag: some("z"), ..Audit::default() },
        ] {
            assert!(!wanted.takes(&event), "{wanted:?}");
        }
    }

    #[test]
    fn cloudwatch_checks_what_its_patterns_can_say() {
        let tenant = Some("11111111-1111-4111-8111-111111111111".to_owned());
        let wanted = Audit { tenant, outcome: Some(Outcome::Refused), ..Audit::default() };
        let expected = "{ ($.event_type = \"request.completed\") && ($.context.tenant = \
                        \"11111111-1111-4111-8111-111111111111\") && ($.context.outcome = \"refused\") }";
        assert_eq!(wanted.pattern(), expected);
        let odd = Audit { tenant: Some("a\" || *".to_owned()), ..Audit::default() };
        assert_eq!(odd.pattern(), "{ ($.event_type = \"request.completed\") }");
    }
}
