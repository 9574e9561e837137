//! The bodies of answers.

use std::time::Duration;

use api::Reply;
use jiff::Timestamp;
use mq::{
    Ack, AckMode, Base64Bytes, ConsumeCommand, Consumed, DepthReport, PoolReport, ProduceCommand,
    ProduceReport, QueueName, Target, TestReport,
};
use serde_json::{Value, json};

use crate::secrets::Unusable;

pub(crate) fn produced(
    target: &Target,
    command: &ProduceCommand,
    report: &ProduceReport,
    (resumed_from, possible_duplicates): (u64, u64),
    took: Duration,
) -> Reply {
    let warnings: Vec<_> = command.warnings.iter().chain(&report.warnings).collect();
    let id = |id: &Option<Vec<u8>>| id.as_deref().map(Base64Bytes::encode);
    let body = json!({
        "target": target.to_string(),
        "enqueued": resumed_from + report.enqueued,
        "bytes": report.bytes,
        "transactions": report.transactions,
        "atomic": report.atomic,
        "resumedFrom": resumed_from,
        "possibleDuplicates": possible_duplicates,
        "durationMs": millis(took),
        "latencyMs": report.latency,
        "firstMsgIdBase64": id(&report.first_id),
        "lastMsgIdBase64": id(&report.last_id),
        "warnings": warnings,
    });
    Reply::json(201, &body)
}

pub(crate) fn consumed(
    target: &Target,
    command: &ConsumeCommand,
    consumed: &Consumed,
    took: Duration,
) -> Reply {
    let warnings: Vec<_> = command.warnings.iter().chain(&consumed.warnings).collect();
    let body = json!({
        "target": target.to_string(),
        "count": consumed.messages.len(),
        "ack": ack(command.mode),
        "deliveryInDoubt": false,
        "truncated": consumed.truncated,
        "waitSecondsApplied": consumed.wait_seconds_applied,
        "durationMs": millis(took),
        "warnings": warnings,
        "messages": consumed.messages,
    });
    Reply::json(200, &body)
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
