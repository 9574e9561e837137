//! A load test: producers and consumers on a queue of their own. It runs while other parts of the
//! demonstration go on, because its workers have ten seconds to get ready.

use std::time::Instant;

use serde_json::{Value, json};
use uuid::Uuid;

use super::client::Client;
use super::messages::RABBITMQ;
use crate::console::say;
use crate::failure::Failure;

const TESTS: &str = "/tests";
/// A queue that no other part uses.
const QUEUE: &str = "DEV.QUEUE.2";
const RATE: u64 = 200;
const SECONDS: u64 = 4;

/// A test that runs.
#[derive(Debug)]
pub(super) struct Running {
    test_id: String,
    status: String,
    begin: Instant,
}

/// Starts a test.
pub(super) async fn start(client: &Client) -> Result<Running, Failure> {
    say(format_args!(
        "\n7. Start a load test of {SECONDS} s: {RATE} messages a second on {QUEUE}. By hand that is"
    ));
    let body = json!({
        "targetRef": RABBITMQ, "target": {"queue": QUEUE},
        "producers": {"count": 2, "ratePerSec": RATE, "messageSizeBytes": 512}, "consumers": {"count": 2},
        "durationSeconds": SECONDS,
    });
    let key = Uuid::new_v4();
    say(client.curl(TESTS, &key, &body));
    let begin = Instant::now();
    let reply = client.post(TESTS, Some(&key), &body).await?;
    let is_started = reply.status == 202 && reply.body.get("testId").is_some_and(Value::is_string);
    reply.expect("202 with a testId", is_started)?;
    let (test_id, status) = (reply.show("testId"), reply.show("status"));
    say(format_args!("   {} in {} ms: test {test_id} is {status}", reply.status, reply.milliseconds));
    say("   Its workers begin together in ten seconds, while this goes on");
    Ok(Running { test_id, status, begin })
}

/// Follows the test to its end, and prints what its report says first.
pub(super) async fn show(client: &Client, running: Running) -> Result<(), Failure> {
    say("\n13. Look at the load test");
    let path = format!("{TESTS}/{}", running.test_id);
    let (test, states) = client.finished(&path, running.status, running.begin).await?;
    say(format_args!("   {states}"));
    let summary = test.body.pointer("/report/summary").and_then(Value::as_str).unwrap_or_default();
    say(format_args!("   {summary}"));
    say(format_args!("   What is known of it, as a page: {}{path}?format=html", client.base_url()));
    let is_due = test.number_at("/report/accounting/due") == Some(RATE.saturating_mul(SECONDS));
    // A worker that began late on a busy machine leaves a hole, and then nobody knows.
    let is_whole = test.number_at("/report/accounting/lost").is_none_or(|lost| lost == 0);
    let is_received = test.number_at("/report/accounting/received").is_some_and(|received| received > 0);
    let is_right = test.show("status") == "COMPLETED" && is_due && is_whole && is_received;
    test.expect("a COMPLETED test whose messages arrived", is_right)
}
