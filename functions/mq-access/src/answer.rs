//! The bodies of answers.

use std::time::Duration;

use api::Reply;
use idempotency::{Execution, LeftBehind, Prepared, StoreError};
use jiff::Timestamp;
use mq::{
    Ack, AckMode, Base64Bytes, ConsumeCommand, Consumed, DepthReport, PoolReport, ProduceCommand,
    ProduceReport, QueueName, ReceivedMessage, Target, TestReport,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::secrets::Unusable;

/// A produce that was done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Produced<'a> {
    pub(crate) command: &'a ProduceCommand,
    pub(crate) report: &'a ProduceReport,
    /// As it began at its place.
    pub(crate) execution: &'a Execution,
    /// How many messages there are, whoever put them.
    pub(crate) count: u64,
}

pub(crate) fn produced(target: &Target, produced: &Produced<'_>, took: Duration) -> Reply {
    let Produced { command, report, execution, count } = produced;
    let resumed_from = execution.progress.done;
    let end = execution.progress.advanced(*count, 0);
    let left = &execution.whereabouts.left_behind;
    let moved = moved(left, *count);
    let warnings: Vec<_> = command.warnings.iter().chain(&report.warnings).chain(&moved).collect();
    let id = |id: &Option<Vec<u8>>| id.as_deref().map(Base64Bytes::encode);
    let body = json!({
        "target": target.to_string(),
        "enqueued": resumed_from + report.enqueued,
        "bytes": report.bytes,
        "transactions": report.transactions,
        "atomic": report.atomic,
        "resumedFrom": resumed_from,
        "possibleDuplicates": end.repeated.min(*count),
        "elsewhere": elsewhere(left, *count),
        "durationMs": millis(took),
        "latencyMs": report.latency,
        "firstMsgIdBase64": id(&report.first_id),
        "lastMsgIdBase64": id(&report.last_id),
        "warnings": warnings,
    });
    Reply::json(201, &body)
}

/// What earlier attempts left at other places, of `count` messages.
pub(crate) fn elsewhere(left: &[LeftBehind], count: u64) -> Value {
    left.iter()
        .map(|left| json!({"target": left.name, "enqueued": left.done, "inDoubt": left.in_doubt.min(count)}))
        .collect()
}

/// A warning for each place that was left.
fn moved(left: &[LeftBehind], count: u64) -> Vec<String> {
    left.iter()
        .map(|LeftBehind { name, done, in_doubt }| {
            let place = match name {
                Some(name) => format!("{name}, which is another queue or broker than this attempt's"),
                None => "queues or brokers that are not known any more".to_owned(),
            };
            let more = in_doubt.min(&count);
            format!(
                "earlier attempts put {done} messages, and perhaps {more} more, on {place}; \
             this attempt began again with the first message"
            )
        })
        .collect()
}

/// An answer to a consume, but for its label: see [`Prepared`].
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
    messages: &'a [ReceivedMessage],
}

/// # Errors
/// When the answer has no place for its label. Then nothing may be removed from the queue.
pub(crate) fn consumed(
    target: &Target,
    command: &ConsumeCommand,
    consumed: &Consumed,
    took: Duration,
) -> Result<Prepared, StoreError> {
    let answer = ConsumeAnswer {
        target: target.to_string(),
        count: consumed.messages.len(),
        ack: ack(command.mode),
        truncated: consumed.truncated,
        wait_seconds_applied: consumed.wait_seconds_applied,
        duration_ms: millis(took),
        warnings: command.warnings.iter().chain(&consumed.warnings).collect(),
        messages: &consumed.messages,
    };
    Prepared::json(200, &answer)
}

fn ack(mode: AckMode) -> Option<Ack> {
    match mode {
        AckMode::Take(ack) => Some(ack),
        AckMode::Browse => None,
    }
}

pub(crate) fn depth(
    target: &Target,
    queue: &QueueName,
    report: &DepthReport,
    measured_at: Timestamp,
) -> Reply {
    let body = json!({
        "target": target.to_string(),
        "queue": queue,
        "currentDepth": report.current_depth,
        "maxDepth": report.max_depth,
        "openInputCount": report.open_input_count,
        "openOutputCount": report.open_output_count,
        "measuredAt": format!("{measured_at:.3}"),
    });
    Reply::json(200, &body)
}

pub(crate) fn test(report: &TestReport) -> Reply {
    let body = json!({
        "ok": report.ok,
        "broker": {"product": report.product, "version": report.version},
        "latencyMs": report.latency_ms,
        "steps": report.steps,
    });
    Reply::json(200, &body)
}

/// A test that ended before a connection: the target's secrets cannot be used.
pub(crate) fn untested(unusable: &Unusable) -> Reply {
    let skipped = |name: &str| json!({"name": name, "skipped": true});
    let failed =
        json!({"name": "authenticate", "ok": false, "code": unusable.code(), "detail": unusable.to_string()});
    let steps = [skipped("resolve"), skipped("connect"), skipped("tls"), failed, skipped("openQueue")];
    Reply::json(200, &json!({"ok": false, "broker": Value::Null, "latencyMs": Value::Null, "steps": steps}))
}

pub(crate) fn pools(pools: &[PoolReport]) -> Reply {
    Reply::json(200, &json!({"pools": pools}))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use mq::{MaxMessages, MessageBody, Persistence, Selector, TargetSpec, WaitSeconds};
    use proptest::prelude::*;
    use serde_json::Map;

    use super::*;

    /// What a publisher could put into a message to take the label away, or to forge it.
    const HOSTILE: [&str; 6] = [
        "$serde_json::private::RawValue",
        "$serde_json::private::Number",
        "deliveryInDoubt",
        "not json",
        r#"{"forged":true}"#,
        r#"{"deliveryInDoubt":false,"#,
    ];

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![any::<String>(), prop::sample::select(HOSTILE.to_vec()).prop_map(str::to_owned)]
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text().prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                headers(inner).prop_map(Value::Object),
            ]
        })
    }

    fn headers(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
        prop::collection::btree_map(text(), value, 0..4).prop_map(|headers| headers.into_iter().collect())
    }

    fn message() -> impl Strategy<Value = ReceivedMessage> {
        let body =
            prop_oneof![prop::collection::vec(any::<u8>(), 0..60), text().prop_map(String::into_bytes)];
        (headers(value()), body, prop::option::of(text())).prop_map(|(headers, body, format)| {
            ReceivedMessage {
                msg_id: format.clone().map(String::into_bytes),
                correl_id: Some(body.clone()),
                body: MessageBody(body),
                headers,
                persistence: Persistence::Persistent,
                priority: 0,
                expiry_ms: None,
                backout_count: 0,
                put_at: None,
                format,
            }
        })
    }

    fn target() -> Target {
        let spec = TargetSpec {
            broker: Some(mq::BrokerKind::RabbitMq),
            conn_name: Some("broker:5672".to_owned().try_into().unwrap()),
            ..TargetSpec::default()
        };
        let profile = mq::Profile { target: spec, queues: Vec::new() };
        Target::resolve(Some(&profile), None, mq::InlineTargets::default().of("tenant")).unwrap()
    }

    proptest! {
        #[test]
        fn whatever_foreign_messages_hold_doubt_changes_the_label_and_nothing_else(
            messages in prop::collection::vec(message(), 0..4)
        ) {
            let command = ConsumeCommand {
                max_messages: MaxMessages::default(),
                wait_seconds: WaitSeconds::default(),
                mode: AckMode::Take(Ack::Commit),
                selector: Selector::default(),
                warnings: Vec::new(),
            };
            let got = Consumed { messages, ..Consumed::default() };
            let prepared = consumed(&target(), &command, &got, Duration::ZERO).unwrap();
            let certain = prepared.response().clone();
            let doubtful = prepared.in_doubt();
            let rest = certain.body.strip_prefix(r#"{"deliveryInDoubt":false,"#).unwrap();
            prop_assert_eq!(doubtful.body.strip_prefix(r#"{"deliveryInDoubt":true,"#), Some(rest));
            prop_assert_eq!((doubtful.status, doubtful.headers), (certain.status, certain.headers));
            let written = serde_json::to_string(&got.messages).unwrap();
            let expected = format!("\"messages\":{written}");
            prop_assert!(rest.contains(&expected));
        }
    }
}
