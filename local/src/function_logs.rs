//! `logs/functions.log`: what the functions log, which the stand-in keeps in its CloudWatch only,
//! and only as long as it runs.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

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

/// Copies new log events into the file, as the functions wrote them.
#[derive(Debug)]
pub(crate) struct FunctionLogs {
    http: Client,
    endpoint: String,
    groups: Vec<Group>,
    file: File,
}

#[derive(Debug)]
struct Group {
    name: String,
    since: u64,
    /// The streams already copied; each holds one invocation.
    copied: HashSet<String>,
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

impl FunctionLogs {
    /// # Errors
    /// What the file system says.
    pub(crate) fn open<'a>(
        layout: &Layout,
        endpoint: String,
        groups: impl Iterator<Item = &'a str>,
    ) -> Result<Self, Failure> {
        let path = layout.log("functions");
        let file = File::create(&path).or_explain(|| format!("write {}", path.display()))?;
        let groups =
            groups.map(|name| Group { name: name.to_owned(), since: 0, copied: HashSet::new() }).collect();
        Ok(Self { http: Client::new(), endpoint, groups, file })
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
            for line in group.new_lines(page) {
                let _full_disk = writeln!(self.file, "{line}");
            }
        }
    }
}

impl Group {
    fn new_lines(&mut self, page: Page) -> Vec<String> {
        let newest = page.events.iter().map(|event| event.timestamp).max();
        self.since = newest.map_or(self.since, |newest| newest.saturating_sub(OVERLAP_MS));
        let streams = page.events.iter().map(|event| event.log_stream_name.clone()).collect();
        let copied = std::mem::replace(&mut self.copied, streams);
        page.events
            .into_iter()
            .filter(|event| !copied.contains(&event.log_stream_name))
            .map(|event| event.message.trim_end().to_owned())
            .filter(|line| !line.is_empty() && !PLATFORM.iter().any(|prefix| line.starts_with(prefix)))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn event(timestamp: u64, stream: &str, message: &str) -> Event {
        Event { timestamp, message: message.to_owned(), log_stream_name: stream.to_owned() }
    }

    #[test]
    fn every_invocation_is_copied_once() {
        let mut group = Group { name: "g".to_owned(), since: 0, copied: HashSet::new() };
        let first = || vec![event(10_000, "a", "START RequestId: 1"), event(10_000, "a", "one\n")];
        assert_eq!(group.new_lines(Page { events: first() }), ["one"]);
        assert_eq!(group.since, 5_000);
        let mut both = first();
        both.push(event(9_999, "b", "late"));
        assert_eq!(group.new_lines(Page { events: both }), ["late"]);
    }
}
