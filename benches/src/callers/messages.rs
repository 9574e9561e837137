//! Puts messages, gets them again and accounts for each of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Caller, KEY, expect};
use crate::error::Error;
use crate::http_client::{Answer, Call};

pub(crate) const PRODUCE: &str = "/messages/produce";
pub(crate) const CONSUME: &str = "/messages/consume";
const MOST: usize = 8;
/// Maximum number of consume requests with which a caller tries to get all its messages.
const LOOKS: u32 = 5;

/// Number of received copies of each message, by the message's body.
type Seen = BTreeMap<String, usize>;

pub(crate) async fn put_and_get(caller: &Caller, queue: &str, cycle: usize) -> Result<(), Error> {
    let count = 1 + cycle % MOST;
    let bodies: Vec<_> = (0..count).map(|index| body(cycle, index)).collect();
    let messages: Vec<_> = bodies.iter().map(|body| json!({"bodyText": body})).collect();
    let produce = request(PRODUCE, KEY, queue, json!({"messages": messages})).with_new_key();
    let produced = caller.call("produce", &produce, 201).await?;
    expect("enqueued", &number(&produced.json(), "/enqueued"), &count)?;
    let mut duplicates = number(&produced.json(), "/possibleDuplicates");
    let replayed = caller.call("produce, replayed", &produce, 201).await?;
    same(&replayed, &produced)?;

    if duplicates == 0 {
        depth(caller, queue, count).await?;
    }
    let browse = json!({"browseOnly": true, "waitSeconds": 0, "maxMessages": 2 * count});
    let browsed = caller.call("browse", &request(CONSUME, KEY, queue, browse), 200).await?;
    account(&bodies, &seen(&browsed.json()), duplicates)?;

    let mut got = Seen::new();
    for _ in 0..LOOKS {
        let consume = json!({"maxMessages": 2 * count, "waitSeconds": 1, "ack": "commit"});
        let consume = request(CONSUME, KEY, queue, consume).with_new_key();
        let consumed = caller.call("consume", &consume, 200).await?;
        let answer = consumed.json();
        for (body, times) in seen(&answer) {
            *got.entry(body).or_default() += times;
        }
        if answer.pointer("/deliveryInDoubt") == Some(&Value::Bool(true)) {
            duplicates += number(&answer, "/count");
        }
        same(&caller.call("consume, replayed", &consume, 200).await?, &consumed)?;
        if got.len() == count && depth(caller, queue, 0).await.is_ok() {
            break;
        }
    }
    account(&bodies, &got, duplicates)
}

/// Removes the messages that a failed cycle left on the queue, so that later cycles do not count
/// them.
pub(crate) async fn empty(caller: &Caller, queue: &str) {
    for _ in 0..LOOKS {
        let consume = json!({"maxMessages": 1000, "waitSeconds": 0, "ack": "commit"});
        let consume = request(CONSUME, KEY, queue, consume).with_new_key();
        if caller.call("clean-up", &consume, 200).await.is_ok_and(|answer| seen(&answer.json()).is_empty()) {
            return;
        }
    }
}

fn body(cycle: usize, index: usize) -> String {
    let padding = "x".repeat((cycle * 37 + index * 211) % 2000);
    format!("{cycle}/{index}/{padding}")
}

/// Builds a request about a queue, with the target profile of the local broker.
pub(crate) fn request(path: &str, api_key: &str, queue: &str, members: Value) -> Call {
    let mut body = json!({"targetRef": "local-rabbit", "target": {"queue": queue}});
    if let (Some(body), Value::Object(members)) = (body.as_object_mut(), members) {
        body.extend(members);
    }
    Call::post(path, api_key, body.to_string())
}

async fn depth(caller: &Caller, queue: &str, expected: usize) -> Result<(), Error> {
    let answer = caller.call("depth", &request("/queue/depth", KEY, queue, json!({})), 200).await?;
    expect("currentDepth", &number(&answer.json(), "/currentDepth"), &expected)
}

/// Checks that every message was received at least once. `duplicates` is the number of extra copies
/// that the gateway announced; more are an error.
fn account(bodies: &[String], seen: &Seen, duplicates: usize) -> Result<(), Error> {
    let missing = bodies.iter().filter(|body| !seen.contains_key(*body)).count();
    expect("messages that are missing", &missing, &0)?;
    expect("messages of others", &(seen.len() - (bodies.len() - missing)), &0)?;
    let more = seen.values().sum::<usize>() - bodies.len();
    if more > duplicates {
        return Err(format!("{more} messages are there twice, {duplicates} labelled").into());
    }
    Ok(())
}

fn seen(answer: &Value) -> Seen {
    let mut seen = Seen::new();
    for message in answer.pointer("/messages").and_then(Value::as_array).into_iter().flatten() {
        let body = message.pointer("/bodyText").and_then(Value::as_str).unwrap_or_default();
        *seen.entry(body.to_owned()).or_default() += 1;
    }
    seen
}

pub(crate) fn number(answer: &Value, pointer: &str) -> usize {
    let number = answer.pointer(pointer).and_then(Value::as_u64);
    number.and_then(|number| usize::try_from(number).ok()).unwrap_or_default()
}

/// Checks that a replayed response has the first response's body and the header `Idempotent-Replay:
/// true`.
pub(crate) fn same(replayed: &Answer, first: &Answer) -> Result<(), Error> {
    expect("Idempotent-Replay", &replayed.header("idempotent-replay"), &Some("true"))?;
    expect("a replay's body", &replayed.body, &first.body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen_as(bodies: &[&str]) -> Seen {
        let messages: Vec<_> = bodies.iter().map(|body| json!({"bodyText": body})).collect();
        seen(&json!({"messages": messages}))
    }

    #[test]
    fn every_message_is_accounted_for() {
        let put = ["a".to_owned(), "b".to_owned()];
        account(&put, &seen_as(&["b", "a"]), 0).unwrap();
        account(&put, &seen_as(&["b", "a", "a"]), 1).unwrap();
        for wrong in [&["a"][..], &["a", "b", "b"], &["a", "b", "c"], &["a", "c"], &[]] {
            assert!(account(&put, &seen_as(wrong), 0).is_err(), "{wrong:?}");
        }
    }
}
