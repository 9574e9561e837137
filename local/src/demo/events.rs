//! Whoever comes next: the events of a batch, as a rule of the bus delivered them to a queue.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use aws::Sdk;
use serde_json::Value;

use super::variable;
use crate::components::ministack::{ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY};
use crate::console::say;
use crate::env_file::Variables;
use crate::failure::{Explain as _, Failure};

/// How long the events may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most that a receive takes.
const AT_ONCE: i32 = 10;

/// The last event of a batch that nothing happens to.
const FINAL: &str = "integrahub.batch.final";

/// Prints the events of a batch that was loaded and replayed, and takes all others off the queue.
/// Returns the ids of the batch's.
pub(super) async fn show(variables: &Variables, batch_id: &str) -> Result<BTreeSet<String>, Failure> {
    say("\n12. Read the events of the first batch, which was final twice");
    let queue_url = variable(variables, "EVENTS_QUEUE_URL")?;
    let sdk =
        Sdk::at(variable(variables, "AWS_ENDPOINT_URL")?, REGION, ACCESS_KEY_ID, SECRET_ACCESS_KEY).await;
    let sqs = aws_sdk_sqs::Client::new(sdk.standard());
    let begin = Instant::now();
    let (mut finals, mut ids) = (0, BTreeSet::new());
    while finals < 2 {
        if begin.elapsed() > PATIENCE {
            return Err(Failure::new(format!(
                "The demonstration failed: {finals} of 2 events {FINAL} of the batch {batch_id} arrived"
            )));
        }
        for event in receive(&sqs, queue_url).await? {
            let is_ours = event.pointer("/detail/data/batch_id").and_then(Value::as_str) == Some(batch_id);
            if is_ours {
                let of_type = event.pointer("/detail/type").and_then(Value::as_str).unwrap_or_default();
                finals += u32::from(of_type == FINAL);
                let id = event.pointer("/detail/id").and_then(Value::as_str).unwrap_or_default();
                ids.insert(id.to_owned());
                say(format_args!("   {of_type}: {}", event.get("detail").unwrap_or(&Value::Null)));
            }
        }
    }
    Ok(ids)
}

/// Takes messages off the queue, as EventBridge put them there.
async fn receive(sqs: &aws_sdk_sqs::Client, queue_url: &str) -> Result<Vec<Value>, Failure> {
    let explain = || "read the queue of events".to_owned();
    let receive = sqs.receive_message().queue_url(queue_url).max_number_of_messages(AT_ONCE);
    let received = receive.wait_time_seconds(1).send().await.or_explain(explain)?;
    let mut events = Vec::new();
    for message in received.messages.unwrap_or_default() {
        events.push(serde_json::from_str(message.body().unwrap_or_default()).or_explain(explain)?);
        let receipt = message.receipt_handle().unwrap_or_default();
        let delete = sqs.delete_message().queue_url(queue_url).receipt_handle(receipt);
        delete.send().await.or_explain(explain)?;
    }
    Ok(events)
}
