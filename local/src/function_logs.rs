//! `logs/functions.log`: what the functions log, from the file to which the stand-in adds each log
//! event.
//!
//! Audit events among it go to the function `audit`, as the template's subscription filters pass
//! them. The stand-in has filters, but knows no pattern of JSON, and would invoke the function for
//! each request.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::Client;
use serde::Deserialize;
use serde_json::json;

use crate::components::ministack::Ministack;
use crate::failure::{Explain as _, Failure};
use crate::layout::Layout;

/// Each look may invoke the function `audit` once for each other function.
const INTERVAL: Duration = Duration::from_secs(3);
const TIMEOUT: Duration = Duration::from_secs(5);
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
    events: Events,
    /// Audit events of each function's log group that the function `audit` has not taken yet.
    undelivered: HashMap<String, Vec<Event>>,
    file: File,
}

/// The stand-in's file.
#[derive(Debug)]
struct Events {
    file: BufReader<File>,
    line: String,
}

#[derive(Debug, Deserialize)]
struct Event {
    group: String,
    stream: String,
    timestamp: u64,
    message: String,
}

impl Event {
    /// True for one of Lambda's own lines, and for an empty one.
    fn is_platform(&self) -> bool {
        self.message.is_empty() || PLATFORM.iter().any(|prefix| self.message.starts_with(prefix))
    }

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
        let events = Events::open(&Ministack::logs(layout)?)?;
        let undelivered = groups.map(|group| (group.to_owned(), Vec::new())).collect();
        Ok(Self { http: Client::new(), endpoint, audit: audit.to_owned(), events, undelivered, file })
    }

    /// Copies until dropped.
    pub(crate) async fn follow(&mut self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            self.copy().await;
        }
    }

    /// Copies what is new. Logs are a convenience: what cannot be delivered now is delivered the
    /// next time.
    pub(crate) async fn copy(&mut self) {
        while let Some(event) = self.events.read() {
            let Some(undelivered) = self.undelivered.get_mut(&event.group) else { continue };
            if event.is_platform() {
                continue;
            }
            let _full_disk = writeln!(self.file, "{}", event.message);
            if event.is_audit() {
                undelivered.push(event);
            }
        }
        let url = format!("{}/2015-03-31/functions/{}/invocations", self.endpoint, self.audit);
        for (group, undelivered) in &mut self.undelivered {
            let Some(some) = undelivered.chunks(MOST_DELIVERED).next() else { continue };
            let count = some.len();
            // Like a subscription filter, it delivers again what may not have arrived.
            if deliver(&self.http, &url, group, some).await.is_ok() {
                undelivered.drain(..count);
            }
        }
    }
}

impl Events {
    fn open(path: &Path) -> Result<Self, Failure> {
        let file = File::open(path).or_explain(|| format!("read {}", path.display()))?;
        Ok(Self { file: BufReader::new(file), line: String::new() })
    }

    /// Returns the next event. A line that is not all there yet is read the next time.
    fn read(&mut self) -> Option<Event> {
        loop {
            let count = self.file.read_line(&mut self.line).ok()?;
            if count == 0 || !self.line.ends_with('\n') {
                return None;
            }
            let line = std::mem::take(&mut self.line);
            if let Ok(event) = serde_json::from_str::<Event>(&line) {
                return Some(Event { message: event.message.trim_end().to_owned(), ..event });
            }
        }
    }
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
        let Event { stream, timestamp, message, .. } = event;
        json!({"id": format!("{stream}-{number}"), "timestamp": timestamp, "message": message})
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

    fn event(message: &str) -> Event {
        Event { group: "g".to_owned(), stream: "s".to_owned(), timestamp: 1, message: message.to_owned() }
    }

    #[test]
    fn each_line_is_read_once_when_all_of_it_is_there() {
        let mut written = tempfile::NamedTempFile::new().unwrap();
        let mut events = Events::open(written.path()).unwrap();
        let mut read = || std::iter::from_fn(|| events.read().map(|event| event.message)).collect::<Vec<_>>();
        let line = |message: &str| json!({"group": "g", "stream": "s", "timestamp": 1, "message": message});
        write!(written, "{}\nno JSON\n{}", line("one\n"), line("two")).unwrap();
        assert_eq!(read(), ["one"]);
        assert_eq!(read(), [""; 0]);
        writeln!(written).unwrap();
        assert_eq!(read(), ["two"]);
    }

    #[test]
    fn lambda_s_own_lines_are_not_copied() {
        assert!(event("START RequestId: 1").is_platform() && event("").is_platform());
        assert!(!event("one").is_platform());
    }

    #[test]
    fn requests_of_callers_and_refused_ones_are_audit_events() {
        let is_audit = |context: &str| {
            let line = format!("{{\"event_type\":\"request.completed\",\"context\":{{{context}}}}}");
            event(&line).is_audit()
        };
        assert!(is_audit("\"outcome\":\"done\",\"tenant\":\"t\""));
        assert!(is_audit("\"outcome\":\"refused\""));
        assert!(!is_audit("\"outcome\":\"done\""));
        assert!(!event("{\"event_type\":\"order.failed\"}").is_audit());
    }
}
