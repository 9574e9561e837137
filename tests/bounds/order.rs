//! Tests that every work order fits into one invocation of `mq-access`, whatever the contract
//! allows. A work order has no more bytes than its request's body, except for its target and its
//! claim.

use front::Action;
use orders::{Work, WorkOrder};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::bounds::operations::plan;

/// Maximum size in bytes of a request's JSON body.
const MAX_BODY: usize = api::body::MAX_JSON;
/// Maximum size in bytes of the payload of a synchronous Lambda invocation.
const MAX_INVOCATION: usize = 6 * 1024 * 1024;
/// Maximum number of bytes of a work order beyond its messages.
const FRAME: usize = 4 * 1024;

/// Returns the work order of an example event. The tests use its target and its claim.
fn sample() -> WorkOrder {
    serde_json::from_str(include_str!("../../events/gateway/mq-access/produce-too-late.json")).unwrap()
}

/// Returns the work order that the function `produce` makes of this body.
fn order(body: &[u8]) -> WorkOrder {
    let WorkOrder { trace_id, tenant, work } = sample();
    let Work::Change { target, execution, .. } = work else { panic!("a produce") };
    let plan = plan::<produce::ProduceRequest>(body).unwrap();
    let Action::Change(_, change) = plan.action else { panic!("a change") };
    WorkOrder { trace_id, tenant, work: Work::Change { target, execution, change } }
}

/// Returns the size in bytes of the work order for `body`. Checks that `mq-access` reads the order
/// as it was written.
fn carried(body: &[u8]) -> usize {
    let order = order(body);
    let sent = serde_json::to_vec(&order).unwrap();
    let arrived: WorkOrder = serde_json::from_slice(&sent).unwrap();
    assert!(arrived == order, "the order changes on its way");
    sent.len()
}

fn messages(number: usize, message: &str) -> String {
    let messages = vec![message; number].join(",");
    format!(r#"{{"targetRef":"a","messages":[{messages}]}}"#)
}

fn text(length: usize) -> String {
    format!(r#"{{"bodyText":"{}"}}"#, "x".repeat(length))
}

/// Returns the number by which these tests divide the maximum body size, to save time: 8, or
/// `ORDER_PARTS`, which `.ci/nightly` sets to test the largest body itself.
fn parts() -> usize {
    std::env::var("ORDER_PARTS").map_or(8, |parts| parts.parse().unwrap())
}

#[test]
fn an_order_of_any_shape_is_no_longer_than_its_request() {
    const { assert!(MAX_BODY + FRAME <= MAX_INVOCATION) };
    let parts = parts();
    let messages = |number: usize, message: &str| messages(number / parts, message);
    let filled = |with: &str| {
        let text = with.repeat(4_190_000 / parts / with.len());
        messages(parts, &format!(r#"{{"bodyText":"{text}"}}"#))
    };
    for (name, body) in [
        ("80,000 messages of 20 bytes", messages(80_000, &text(20))),
        ("34,500 messages of 100 bytes", messages(34_500, &text(100))),
        ("as many of the smallest as there may be", messages(100_000, r#"{"bodyText":""}"#)),
        ("as many of the smallest binary ones", messages(100_000, r#"{"bodyBase64":""}"#)),
        ("messages of bytes", messages(40_000, &format!(r#"{{"bodyBase64":"{}"}}"#, "AAAA".repeat(20)))),
        ("headers in each message", messages(90_000, r#"{"bodyText":"","headers":{"a":"b"}}"#)),
        ("empty headers in each message", messages(100_000, r#"{"bodyText":"","headers":{}}"#)),
        ("empty tables of headers", messages(60_000, r#"{"bodyText":"","headers":{"a":{},"b":[]}}"#)),
        ("floating-point headers", messages(50_000, r#"{"bodyText":"","headers":{"a":{"float64":"1e15"}}}"#)),
        ("wrapped tables", messages(40_000, r#"{"bodyText":"","headers":{"a":{"table":{"base64":"A"}}}}"#)),
        ("integers", messages(60_000, r#"{"bodyText":"","headers":{"a":{"int8":"1"},"b":1}}"#)),
        ("a reply-to in each message", messages(90_000, r#"{"bodyText":"","replyTo":""}"#)),
        ("a priority in each message", messages(90_000, r#"{"bodyText":"","priority":1}"#)),
        ("a time in each message", messages(50_000, r#"{"bodyText":"","timestamp":"2026-11-22T17:00:00Z"}"#)),
        (
            "a group in each message",
            messages(50_000, r#"{"bodyText":"","group":{"id":"","sequence":1,"last":true}}"#),
        ),
        ("unset properties", messages(90_000, r#"{"bodyText":"","report":null}"#)),
        (
            "every property in each message",
            messages(
                12_000,
                r#"{"bodyText":"","persistence":"persistent","priority":9,"expiryMs":1,"replyTo":"r","replyToQueueManager":"q","messageType":"reply","contentType":"c","contentEncoding":"e","type":"t","appId":"a","group":{"id":{"base64":"AAAA"}},"report":1,"feedback":2}"#,
            ),
        ),
        ("correlation ids", messages(90_000, r#"{"bodyText":"","correlIdBase64":"AAAA"}"#)),
        ("empty correlation ids", messages(90_000, r#"{"bodyText":"","correlIdBase64":""}"#)),
        ("control characters", filled(r"\u0001")),
        ("line ends", filled(r"\n")),
        ("quotes", filled(r#"\""#)),
        ("what needs no escape", filled("\u{7f}")),
        ("wide characters", filled("😀")),
        ("escaped wide characters", filled(r"\ud83d\ude00")),
        (
            "a fixed body",
            json!({"payload": {"mode": "fixed", "fixedBase64": "A".repeat(4_190_000 / parts / 4 * 4)}})
                .to_string(),
        ),
        (
            "a template",
            json!({"payload": {"mode": "template", "template": "\n".repeat(2_090_000 / parts)}}).to_string(),
        ),
    ] {
        let sizes = MAX_BODY / parts / 3..=MAX_BODY / parts;
        assert!(sizes.contains(&body.len()), "{name}: {}", body.len());
        let carried = carried(body.as_bytes());
        assert!(carried <= body.len() + FRAME, "{name}: {} bytes become {carried}", body.len());
    }
}

fn headers() -> impl Strategy<Value = Value> {
    let value = prop_oneof![
        TEXT.prop_map(Value::from),
        (-9_007_199_254_740_991_i64..=9_007_199_254_740_991).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
        any::<i64>().prop_map(|value| json!({"int64": value.to_string()})),
        any::<f64>().prop_map(|value| json!({"float64": value.to_string()})),
        (0..4_000_000_000_u64).prop_map(|seconds| {
            json!({"time": jiff::Timestamp::from_second(seconds.try_into().unwrap()).unwrap().to_string()})
        }),
        "[a-z]{1,3}".prop_map(|name| json!({ "table": { name: "base64" } })),
    ];
    let value = value.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{0,3}", inner, 2..4).prop_map(|table| json!(table)),
        ]
    });
    prop::collection::btree_map("[a-z]{1,5}", value, 0..3).prop_map(|headers| json!(headers))
}

const TEXT: &str = "[\\x00-\\x1f\"\\\\/a-zé€😀]{0,30}";

fn bodies() -> impl Strategy<Value = Value> {
    let own = (prop::option::of(TEXT), prop::option::of(0..=9), prop::option::of(1..=999_999_999));
    let message = (TEXT, any::<bool>(), headers(), any::<bool>(), own).prop_map(
        |(text, is_binary, headers, has_id, (reply_to, priority, sequence))| {
            let mut message = json!({
                "headers": headers, "replyTo": reply_to, "priority": priority,
                "group": {"id": "g", "sequence": sequence},
            });
            if is_binary {
                message["bodyBase64"] = json!(mq::Base64Bytes::encode(text.as_bytes()));
            } else {
                message["bodyText"] = json!(text);
            }
            if has_id {
                message["correlIdBase64"] = json!("AAAA");
            }
            message
        },
    );
    prop::collection::vec(message, 1..20).prop_map(|messages| json!({"targetRef": "a", "messages": messages}))
}

proptest! {
    #[test]
    fn any_messages_arrive_as_they_were_sent(body in bodies()) {
        let body = body.to_string();
        prop_assert!(carried(body.as_bytes()) <= body.len() + FRAME);
    }
}
