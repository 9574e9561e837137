//! Bodies of responses.

use std::time::Duration;

use api::Reply;
use broker_access::SecretError;
use idempotency::{AbandonedProgress, Execution, Prepared, StoreError};
use jiff::Timestamp;
use mq::{
    Ack, AckMode, Base64Bytes, ConsumeCommand, Consumed, DepthReport, Latency, PoolReport, ProduceReport,
    QueueName, ReceivedMessage, ShownMessage, StoredBody, Target, TestReport,
};
use serde::Serialize;
use serde_json::{Value, json};

/// Maximum number of bytes of the name of a queue or exchange in a problem response.
const MAX_NAME_IN_A_PROBLEM: usize = 100;
/// Maximum number of bytes of the member `elsewhere` in a problem response. Extension members may
/// have 1000 bytes, of which `enqueued`, `resumedFrom` and `messagesInDoubt` take less than 120.
const MAX_IN_A_PROBLEM: usize = 850;

/// Result of a completed produce, from which its response is built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Produced<'a> {
    /// Warnings about the request, which the response repeats.
    pub(crate) warnings: &'a [String],
    pub(crate) report: &'a ProduceReport,
    /// Execution of the request (its claimed idempotency record), as it was before this attempt put
    /// its messages.
    pub(crate) execution: &'a Execution,
    /// Number of messages that all attempts at the request together have put.
    pub(crate) count: u64,
}

/// Body of the response to a produce, with its members in alphabetical order, as in other
/// responses.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProduceAnswer<'a> {
    atomic: bool,
    bytes: u64,
    duration_ms: u64,
    elsewhere: Value,
    enqueued: u64,
    first_msg_id_base64: Option<String>,
    last_msg_id_base64: Option<String>,
    latency_ms: Latency,
    possible_duplicates: u64,
    resumed_from: u64,
    target: String,
    transactions: u64,
    warnings: Vec<&'a String>,
}

pub(crate) fn produced(target: &Target, produced: &Produced<'_>, took: Duration) -> Reply {
    let Produced { warnings, report, execution, count } = produced;
    let resumed_from = execution.progress.done;
    let end = execution.progress.advanced(*count, 0);
    let left = &execution.whereabouts.left_behind;
    let moved = moved(left, *count);
    let id = |id: &Option<Vec<u8>>| id.as_deref().map(Base64Bytes::encode);
    let body = ProduceAnswer {
        atomic: report.atomic,
        bytes: report.bytes,
        duration_ms: millis(took),
        elsewhere: elsewhere(left, *count),
        enqueued: resumed_from + report.enqueued,
        first_msg_id_base64: id(&report.first_id),
        last_msg_id_base64: id(&report.last_id),
        latency_ms: report.latency,
        possible_duplicates: end.repeated.min(*count),
        resumed_from,
        target: target.to_string(),
        transactions: report.transactions,
        warnings: warnings.iter().chain(report.warnings.iter()).chain(&moved).collect(),
    };
    Reply::json(201, &body)
}

/// Lists the other queues or brokers on which earlier attempts put messages: each with the number
/// that is known, and the number that may be there in addition, at most `count`.
pub(crate) fn elsewhere(left: &[AbandonedProgress], count: u64) -> Value {
    left.iter()
        .map(|left| json!({"target": left.name, "enqueued": left.done, "inDoubt": left.in_doubt.min(count)}))
        .collect()
}

/// Lists the messages that earlier attempts put on other queues or brokers, within the limited size
/// of a problem response: names are cut, and the last entry adds up all that do not fit.
pub(crate) fn elsewhere_in_a_problem(left: &[AbandonedProgress], count: u64) -> Value {
    let cut = |name: &String| api::cut(name, MAX_NAME_IN_A_PROBLEM).into_owned();
    let mut told: Vec<_> = left
        .iter()
        .map(|left| AbandonedProgress { name: left.name.as_ref().map(cut), ..left.clone() })
        .collect();
    loop {
        let list = elsewhere(&told, count);
        if list.to_string().len() <= MAX_IN_A_PROBLEM {
            return list;
        }
        let (Some(rest), Some(last)) = (told.pop(), told.last_mut()) else { return list };
        last.name = None;
        last.done = last.done.saturating_add(rest.done);
        last.in_doubt = last.in_doubt.saturating_add(rest.in_doubt);
    }
}

/// Returns the text of a warning about messages that earlier attempts left at another queue or
/// broker: the known number, the number of possible further ones (at most `most`), `preposition`,
/// and the place.
pub(crate) fn left_behind(left: &AbandonedProgress, most: u64, preposition: &str) -> String {
    let AbandonedProgress { name, done, in_doubt } = left;
    let place = match name {
        Some(name) => format!("`{name}`, which is another queue or broker than this attempt's"),
        None => "queues or brokers that are not known any more".to_owned(),
    };
    let more = in_doubt.min(&most);
    format!("{done} messages, and perhaps {more} more, {preposition} {place}")
}

/// Builds a warning for each other queue or broker on which earlier attempts put messages.
fn moved(left: &[AbandonedProgress], count: u64) -> Vec<String> {
    let warning = |left| {
        let messages = left_behind(left, count, "on");
        format!("earlier attempts put {messages}; this attempt began again with the first message")
    };
    left.iter().map(warning).collect()
}

/// Body of the response to a consume, without the member `deliveryInDoubt` that [`Prepared`] adds.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConsumeAnswer<'a> {
    target: String,
    count: usize,
    ack: Option<Ack>,
    truncated: bool,
    wait_seconds_applied: u32,
    duration_ms: u64,
    warnings: Vec<&'a String>,
    messages: Messages<'a>,
}

/// Messages in the response to a consume: all with their bodies, or a single message whose body is
/// stored in S3.
#[derive(Serialize)]
#[serde(untagged)]
enum Messages<'a> {
    Whole(&'a [ReceivedMessage]),
    Stored(Vec<ShownMessage<'a>>),
}

/// Consumed messages, and the location of the stored body if a single message is too large for a
/// response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InHand<'a> {
    pub(crate) consumed: &'a Consumed,
    pub(crate) stored: Option<&'a StoredBody>,
}

/// Builds the response to a consume.
///
/// # Errors
/// If the response cannot be built with the member `deliveryInDoubt` (see [`Prepared`]). The caller
/// must then remove no message from the queue.
pub(crate) fn consumed(
    target: &Target,
    command: &ConsumeCommand,
    InHand { consumed, stored }: InHand<'_>,
    took: Duration,
) -> Result<Prepared, StoreError> {
    let messages = match stored {
        None => Messages::Whole(&consumed.messages),
        Some(body) => {
            Messages::Stored(consumed.messages.iter().map(|message| message.with_stored_body(body)).collect())
        }
    };
    // The queue behind a stored message was not read.
    let may_have_left_more = stored.is_some() && command.max_messages.get() > 1;
    let answer = ConsumeAnswer {
        target: target.to_string(),
        count: consumed.messages.len(),
        ack: match command.mode {
            AckMode::Take(ack) => Some(ack),
            AckMode::Browse => None,
        },
        truncated: consumed.truncated || may_have_left_more,
        wait_seconds_applied: consumed.wait_seconds_applied,
        duration_ms: millis(took),
        warnings: command.warnings.iter().chain(consumed.warnings.iter()).collect(),
        messages,
    };
    Prepared::json(200, &answer)
}

pub(crate) fn depth(
    target: &Target,
    queue: &QueueName,
    report: &DepthReport,
    measured_at: Timestamp,
) -> Reply {
    let mut body = measured(queue, report, measured_at);
    if let Some(members) = body.as_object_mut() {
        members.insert("target".to_owned(), target.to_string().into());
    }
    Reply::json(200, &body)
}

/// Returns the depth of one queue as JSON, without its target.
pub(crate) fn measured(queue: &QueueName, report: &DepthReport, measured_at: Timestamp) -> Value {
    json!({
        "queue": queue,
        "currentDepth": report.current_depth,
        "maxDepth": report.max_depth,
        "openInputCount": report.open_input_count,
        "openOutputCount": report.open_output_count,
        "measuredAt": format!("{measured_at:.3}"),
    })
}

pub(crate) fn test(report: &TestReport) -> Reply {
    let body = json!({
        "ok": report.ok,
        "broker": {"product": report.product, "version": report.version},
        "latencyMs": report.latency_ms,
        "blocked": report.blocked,
        "steps": report.steps,
    });
    Reply::json(200, &body)
}

/// Builds the result of a connection test that could not connect, because the target's secrets
/// cannot be used.
pub(crate) fn untested(unusable: &SecretError) -> Reply {
    let step = |name: &str| match name == unusable.step() {
        true => json!({"name": name, "ok": false, "code": unusable.code(), "detail": unusable.to_string()}),
        false => json!({"name": name, "skipped": true}),
    };
    let steps = ["resolve", "connect", "tls", "authenticate", "openQueue"].map(step);
    let body = json!({
        "ok": false,
        "broker": Value::Null,
        "latencyMs": Value::Null,
        "blocked": Value::Null,
        "steps": steps,
    });
    Reply::json(200, &body)
}

pub(crate) fn pools(pools: &[PoolReport]) -> Reply {
    Reply::json(200, &json!({"pools": pools}))
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use api::{Problem, Reason, TraceId};

    use super::*;
    use crate::produce::with_elsewhere;

    /// Uses sixteen names of the maximum length, with multi-byte characters and characters that
    /// JSON escapes.
    #[test]
    fn a_problem_tells_of_every_place_however_long_the_names_are() {
        for letter in ["q", "é", "😀", "\"", "\\"] {
            let name = letter.repeat(511 / letter.len());
            let left: Vec<_> = (0..16)
                .map(|_| AbandonedProgress { name: Some(name.clone()), done: 99_999, in_doubt: 7 })
                .collect();
            let problem = Problem::new(Reason::OutcomeInDoubt, "no answer")
                .extension("enqueued", json!(u64::MAX))
                .extension("resumedFrom", json!(u64::MAX))
                .extension("messagesInDoubt", json!(u64::MAX))
                .extension("msgIdsInDoubtBase64", json!(vec!["a".repeat(64); 1000]));
            let body = with_elsewhere(problem, &left, 100_000).to_reply(&TraceId::new()).body;
            let body: Value = serde_json::from_str(&body).unwrap();
            assert_eq!((&body["enqueued"], &body["messagesInDoubt"]), (&json!(u64::MAX), &json!(u64::MAX)));
            let told = body["elsewhere"].as_array().unwrap();
            let sum = |member: &str| told.iter().map(|left| left[member].as_u64().unwrap()).sum::<u64>();
            assert_eq!((sum("enqueued"), sum("inDoubt")), (16 * 99_999, 16 * 7), "{body}");
            let (rest, named) = told.split_last().unwrap();
            assert!(rest["target"].is_null() && named.len() >= 4, "{body}");
            for left in named {
                let target = left["target"].as_str().unwrap();
                let start = target.strip_suffix('…').unwrap();
                assert!(name.starts_with(start) && (45..=100).contains(&start.len()), "{target}");
            }
        }
    }

    #[test]
    fn places_with_short_names_are_all_told_by_name() {
        let left: Vec<_> = (0..8)
            .map(|n| AbandonedProgress { name: Some(format!("/:ORDERS.{n}")), done: n, in_doubt: u64::MAX })
            .collect();
        assert_eq!(elsewhere_in_a_problem(&left, 100), elsewhere(&left, 100));
    }
}
