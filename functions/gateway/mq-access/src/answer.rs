//! Builds the bodies of the responses of `mq-access`.

use std::time::Duration;

use api::Reply;
use broker_access::SecretError;
use idempotency::{Execution, Prepared, ProgressLeftBehind, StoreError};
use jiff::Timestamp;
use mq::{
    Ack, AckMode, Base64Bytes, ConnectionCounts, ConsumeCommand, Consumed, DepthReport, Latency,
    ProduceReport, QueueName, ReceivedMessage, ShownMessage, StoredBody, Target, TestReport,
};
use serde::Serialize;
use serde_json::{Value, json};

/// Maximum number of bytes of the name of a queue or exchange in a problem response. A longer name
/// is cut.
const MAX_NAME_IN_A_PROBLEM: usize = 100;
/// Maximum number of bytes of the member `elsewhere` in a problem response. All extension members
/// together may have 1000 bytes, of which `enqueued`, `resumedFrom` and `messagesInDoubt` take less
/// than 120.
const MAX_IN_A_PROBLEM: usize = 850;

/// Result of a completed produce, from which its response is built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Produced<'a> {
    /// Warnings about the members of the request, which the response repeats.
    pub(crate) warnings: &'a [String],
    pub(crate) report: &'a ProduceReport,
    /// Claimed idempotency record of the request, with the progress of earlier attempts, as it was
    /// before this attempt put its messages.
    pub(crate) execution: &'a Execution,
    /// Number of messages of the produce. All of them have been put on the target of this attempt.
    pub(crate) message_count: u64,
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
    let Produced { warnings, report, execution, message_count } = produced;
    let resumed_from = execution.progress.done;
    let end = execution.progress.advanced(*message_count, 0);
    let left = &execution.place_history.left_behind;
    let moved = moved(left, *message_count);
    let id = |id: &Option<Vec<u8>>| id.as_deref().map(Base64Bytes::encode);
    let body = ProduceAnswer {
        atomic: report.atomic,
        bytes: report.bytes,
        duration_ms: millis(took),
        elsewhere: elsewhere(left, *message_count),
        enqueued: resumed_from + report.enqueued,
        first_msg_id_base64: id(&report.first_id),
        last_msg_id_base64: id(&report.last_id),
        latency_ms: report.latency,
        possible_duplicates: end.repeated.min(*message_count),
        resumed_from,
        target: target.to_string(),
        transactions: report.transactions,
        warnings: warnings.iter().chain(report.warnings.iter()).chain(&moved).collect(),
    };
    Reply::json(201, &body)
}

/// Lists `left` as JSON: the other queues or brokers at which earlier attempts at a produce or move
/// worked. Each entry has the number of messages that were put or moved there for certain, and the
/// number of further ones in doubt, at most `count`.
pub(crate) fn elsewhere(left: &[ProgressLeftBehind], count: u64) -> Value {
    left.iter()
        .map(|left| json!({"target": left.name, "enqueued": left.done, "inDoubt": left.in_doubt.min(count)}))
        .collect()
}

/// Builds the list of [`elsewhere`] from the same arguments for a problem response, whose size is
/// limited. Long names are cut. If not all entries fit, the last one has no name and adds up those
/// that do not fit.
pub(crate) fn elsewhere_in_a_problem(left: &[ProgressLeftBehind], count: u64) -> Value {
    let cut = |name: &String| api::cut(name, MAX_NAME_IN_A_PROBLEM).into_owned();
    let mut told: Vec<_> = left
        .iter()
        .map(|left| ProgressLeftBehind { name: left.name.as_ref().map(cut), ..left.clone() })
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

/// Returns a part of a warning: how many messages earlier attempts put on, or moved from, another
/// queue or broker. The text has the number that is certain, the number in doubt (at most `most`),
/// `preposition` (`on` or `from`), and the name of the queue or broker if it is still known.
pub(crate) fn left_behind(left: &ProgressLeftBehind, most: u64, preposition: &str) -> String {
    let ProgressLeftBehind { name, done, in_doubt } = left;
    let place = match name {
        Some(name) => format!("`{name}`, which is another queue or broker than this attempt's"),
        None => "queues or brokers that are not known any more".to_owned(),
    };
    let more = in_doubt.min(&most);
    format!("{done} messages, and perhaps {more} more, {preposition} {place}")
}

/// Builds the warnings of a produce response: one for each other queue or broker on which earlier
/// attempts put messages (`left`). `count` is the number of messages of the produce.
fn moved(left: &[ProgressLeftBehind], count: u64) -> Vec<String> {
    let warning = |left| {
        let messages = left_behind(left, count, "on");
        format!("earlier attempts put {messages}; this attempt began again with the first message")
    };
    left.iter().map(warning).collect()
}

/// Body of the response to a consume or browse, without the member `deliveryInDoubt` that
/// [`Prepared`] adds.
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

/// Member `messages` of the response to a consume: all messages with their bodies, or a single
/// message whose body is stored in S3.
#[derive(Serialize)]
#[serde(untagged)]
enum Messages<'a> {
    Whole(&'a [ReceivedMessage]),
    Stored(Vec<ShownMessage<'a>>),
}

/// Messages of a consume or browse, from which its response is built. `stored` locates the body in
/// S3 of a single message that is too large for a response; otherwise it is `None`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InHand<'a> {
    pub(crate) consumed: &'a Consumed,
    pub(crate) stored: Option<&'a StoredBody>,
}

/// Builds the response to a consume or browse, which took the time `took`.
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

/// Returns the depth of one queue as JSON, without the member `target`.
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

pub(crate) fn pools(pools: &[ConnectionCounts]) -> Reply {
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

    /// Builds a problem with sixteen queue names of the maximum length, with multi-byte characters
    /// and characters that JSON escapes.
    #[test]
    fn a_problem_tells_of_every_place_however_long_the_names_are() {
        for letter in ["q", "é", "😀", "\"", "\\"] {
            let name = letter.repeat(511 / letter.len());
            let left: Vec<_> = (0..16)
                .map(|_| ProgressLeftBehind { name: Some(name.clone()), done: 99_999, in_doubt: 7 })
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
            .map(|n| ProgressLeftBehind { name: Some(format!("/:ORDERS.{n}")), done: n, in_doubt: u64::MAX })
            .collect();
        assert_eq!(elsewhere_in_a_problem(&left, 100), elsewhere(&left, 100));
    }
}
