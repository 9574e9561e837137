//! `logs/functions.log`: what the functions log, which the stand-in keeps in its CloudWatch only,
//! and only as long as it runs.
//!
//! Audit events among it go to the function `audit`, as the template's subscription filters pass
//! them. The stand-in has filters, but knows no pattern of JSON, and would invoke the function for
//! each request.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::Client;
use serde::Deserialize;
use serde_json::json;

use crate::failure::{Explain as _, Failure};
use crate::layout::Layout;

const INTERVAL: Duration = Duration::from_secs(2);
const TIMEOUT: Duration = Duration::from_secs(5);
/// Invocations that end at the same time may be recorded a little out of order.
const OVERLAP_MS: u64 = 5_000;
/// Lambda's own lines around each invocation.
const PLATFORM: [&str; 3] = ["START RequestId: ", "END RequestId: ", "REPORT RequestId: "];

/// Parts of the pattern of the template's subscription filters, as a line has them.
const COMPLETED: &str = "\"event_type\":\"request.completed\"";
const TENANT: &str = "\"tenant\":\"";
const DONE: &str = "\"outcome\":\"done\"";

/// Most events of a delivery: the function's event has a limit, as all invocations have.
const MOST_DELIVERED: usize = 1_000;

/// Copies new log events into the file, as the functions wrote them.
#[derive(Debug)]
pub(crate) struct FunctionLogs {
    http: Client,
    endpoint: String,
    /// Name of the function `audit`.
    audit: String,
    groups: Vec<Group>,
    file: File,
}

#[derive(Debug)]
struct Group {
    name: String,
    since: u64,
    /// The streams already copied; each holds one invocation.
    copied: HashSet<String>,
    /// Audit events that the function `audit` has not taken yet.
    undelivered: Vec<Event>,
}

#[derive(Debug, Deserialize)]
struct Page {
    events: Vec<Event>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    timestamp: u64,
    message: String,
    log_stream_name: String,
}

impl Event {
    /// True for the line of an audit event.
    fn is_audit(&self) -> bool {
        let has = |part| self.message.contains(part);
        has(COMPLETED) && (has(TENANT) || !has(DONE))
    }
}

impl FunctionLogs {
    /// # Errors
    /// What the file system says.
    pub(crate) fn open<'a>(
        layout: &Layout,
        endpoint: String,
        audit: &str,
        groups: impl Iterator<Item = &'a str>,
    ) -> Result<Self, Failure> {
        let path = layout.log("functions");
        let file = File::create(&path).or_explain(|| format!("write {}", path.display()))?;
        let groups = groups.map(Group::new).collect();
        Ok(Self { http: Client::new(), endpoint, audit: audit.to_owned(), groups, file })
    }

    /// Copies until dropped.
    pub(crate) async fn follow(&mut self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            self.copy().await;
        }
    }

    /// Copies what is new. Logs are a convenience: what cannot be read now is read the next time.
    pub(crate) async fn copy(&mut self) {
        for group in &mut self.groups {
            let Ok(page) = fetch(&self.http, &self.endpoint, group).await else { continue };
            let events = group.new_events(page);
            for Event { message, .. } in &events {
                let _full_disk = writeln!(self.file, "{message}");
            }
            group.undelivered.extend(events.into_iter().filter(Event::is_audit));
            if let Some(some) = group.undelivered.chunks(MOST_DELIVERED).next() {
                let url = format!("{}/2015-03-31/functions/{}/invocations", self.endpoint, self.audit);
                let count = some.len();
                // Like a subscription filter, it delivers again what may not have arrived.
                if deliver(&self.http, &url, &group.name, some).await.is_ok() {
                    group.undelivered.drain(..count);
                }
            }
        }
    }
}

impl Group {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), since: 0, copied: HashSet::new(), undelivered: Vec::new() }
    }

    fn new_events(&mut self, page: Page) -> Vec<Event> {
        let newest = page.events.iter().map(|event| event.timestamp).max();
        self.since = newest.map_or(self.since, |newest| newest.saturating_sub(OVERLAP_MS));
        let streams = page.events.iter().map(|event| event.log_stream_name.clone()).collect();
        let copied = std::mem::replace(&mut self.copied, streams);
        page.events
            .into_iter()
            .filter(|event| !copied.contains(&event.log_stream_name))
            .map(|event| Event { message: event.message.trim_end().to_owned(), ..event })
            .filter(|Event { message, .. }| {
                !message.is_empty() && !PLATFORM.iter().any(|prefix| message.starts_with(prefix))
            })
            .collect()
    }
}

async fn fetch(http: &Client, endpoint: &str, group: &Group) -> Result<Page, reqwest::Error> {
    let body = json!({"logGroupName": group.name, "startTime": group.since});
    http.post(endpoint)
        .timeout(TIMEOUT)
        .header("X-Amz-Target", "Logs_20140328.FilterLogEvents")
        .header("Content-Type", "application/x-amz-json-1.1")
        .body(body.to_string())
        .send()
        .await?
        .error_for_status()?
        .json()
        .await
}

/// Delivers events to the function `audit` in the form of a subscription filter, and does not wait
/// for it.
async fn deliver(http: &Client, url: &str, group: &str, events: &[Event]) -> Result<(), reqwest::Error> {
    let Some(data) = packed(group, events) else { return Ok(()) };
    http.post(url)
        .timeout(TIMEOUT)
        .header("X-Amz-Invocation-Type", "Event")
        .body(json!({"awslogs": {"data": data}}).to_string())
        .send()
        .await?
        .error_for_status()?;
    Ok(())
}

fn packed(group: &str, events: &[Event]) -> Option<String> {
    let event = |(number, event): (usize, &Event)| {
        let Event { timestamp, message, log_stream_name } = event;
        json!({"id": format!("{log_stream_name}-{number}"), "timestamp": timestamp, "message": message})
    };
    let delivery = json!({
        "messageType": "DATA_MESSAGE", "owner": "000000000000", "logGroup": group, "logStream": "",
        "subscriptionFilters": ["local"],
        "logEvents": events.iter().enumerate().map(event).collect::<Vec<_>>(),
    });
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(delivery.to_string().as_bytes()).ok()?;
    Some(STANDARD.encode(gzip.finish().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(timestamp: u64, stream: &str, message: &str) -> Event {
        Event { timestamp, message: message.to_owned(), log_stream_name: stream.to_owned() }
    }

    #[test]
    fn every_invocation_is_copied_once() {
        let mut group = Group::new("g");
        let first = || vec![event(10_000, "a", "START RequestId: 1"), event(10_000, "a", "one\n")];
        let lines = |events: Vec<Event>| events.into_iter().map(|event| event.message).collect::<Vec<_>>();
        assert_eq!(lines(group.new_events(Page { events: first() })), ["one"]);
        assert_eq!(group.since, 5_000);
        let mut both = first();
        both.push(event(9_999, "b", "late"));
        assert_eq!(lines(group.new_events(Page { events: both })), ["late"]);
    }

    #[test]
    fn requests_of_callers_and_refused_ones_are_audit_events() {
        let is_audit = |context: &str| {
            let line = format!("{{\"event_type\":\"request.completed\",\"context\":{{{context}}}}}");
            event(1, "a", &line).is_audit()
        };
        assert!(is_audit("\"outcome\":\"done\",\"tenant\":\"t\""));
        assert!(is_audit("\"outcome\":\"refused\""));
        assert!(!is_audit("\"outcome\":\"done\""));
        assert!(!event(1, "a", "{\"event_type\":\"order.failed\"}").is_audit());
    }
}
