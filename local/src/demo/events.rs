//! A receiver of events: the events of batches, as a rule of the bus delivered them to a queue.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use runtime::Sdk;
use serde_json::Value;

use super::variable;
use crate::components::ministack::{ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY};
use crate::console::say;
use crate::env_file::Variables;
use crate::failure::{Explain as _, Failure};

/// Time that the events may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most that a receive takes.
const AT_ONCE: i32 = 10;

const RECEIVED: &str = "integrahub.batch.received";
/// The last event of a batch that nothing happens to.
const FINAL: &str = "integrahub.batch.final";

/// Prints the events of a batch that was loaded and replayed, and of one that was dropped into S3,
/// and takes all others off the queue. Returns the ids of those that it printed.
pub(super) async fn show(
    variables: &Variables,
    replayed: &str,
    dropped: &str,
) -> Result<BTreeSet<String>, Failure> {
    say("\n14. Read the events of the first batch, which was final twice, and of the dropped file");
    let queue_url = variable(variables, "EVENTS_QUEUE_URL")?;
    let sdk =
        Sdk::at(variable(variables, "AWS_ENDPOINT_URL")?, REGION, ACCESS_KEY_ID, SECRET_ACCESS_KEY).await;
    let sqs = aws_sdk_sqs::Client::new(sdk.standard());
    let mut missing = vec![
        (replayed, RECEIVED),
        (replayed, FINAL),
        (replayed, FINAL),
        (dropped, RECEIVED),
        (dropped, FINAL),
    ];
    let (begin, mut ids) = (Instant::now(), BTreeSet::new());
    while !missing.is_empty() {
        if begin.elapsed() > PATIENCE {
            return Err(Failure::new(format!(
                "The demonstration failed: these events did not arrive: {missing:?}"
            )));
        }
        for event in receive(&sqs, queue_url).await? {
            let text = |path| event.pointer(path).and_then(Value::as_str).unwrap_or_default();
            let (batch_id, of_type) = (text("/detail/data/batch_id"), text("/detail/type"));
            if ![replayed, dropped].contains(&batch_id) {
                continue;
            }
            if ids.insert(text("/detail/id").to_owned()) {
                let place = missing.iter().position(|one| *one == (batch_id, of_type));
                place.map(|place| missing.swap_remove(place));
            }
            say(format_args!("   {of_type}: {}", event.get("detail").unwrap_or(&Value::Null)));
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
