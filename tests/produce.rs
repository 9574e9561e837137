//! Tests of produce: the messages on the queue are as the request asked for.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::{Fact, Gateway, Message, On, Records, Site};
use serde_json::{Value, json};
use uuid::Uuid;

end_to_end::on_both! {
    every_message_of_a_batch_is_on_the_queue_in_order_and_complete,
    templates_are_rendered_for_each_message,
    explicit_messages_keep_their_own_bodies_headers_and_correlation_ids,
    a_resend_after_a_failure_is_the_same_message,
    what_a_broker_cannot_do_is_refused_before_anything_is_put,
    a_full_queue_is_told_apart_and_keeps_what_it_took,
    the_pace_is_kept,
}

async fn every_message_of_a_batch_is_on_the_queue_in_order_and_complete(on: On) {
    let (gateway, site, key) = (Gateway::new(), Site::start(on).await, Uuid::new_v4());
    let queue = site.queue().await;
    let members = json!({
        "batch": {"count": 250, "messageSizeBytes": 2048, "transaction": {"enabled": true, "txSize": 100}},
        "mqProps": {"persistence": "persistent", "expiryMs": 600_000, "correlIdMode": "echoMsgId"},
        "headers": {"k1": "v1", "Straße": "ü"}
    });
    let answer = gateway.produce(key, &site.request(&queue, members)).await.expect(201).json();
    assert_eq!(answer["target"], site.shown(&queue));
    assert_eq!((&answer["enqueued"], &answer["bytes"]), (&json!(250), &json!(250 * 2048)));
    assert_eq!((&answer["transactions"], &answer["atomic"]), (&json!(3), &json!(on.has(Fact::UnitsOfWork))));
    assert_eq!((&answer["resumedFrom"], &answer["possibleDuplicates"]), (&json!(0), &json!(0)));
    assert!(answer["latencyMs"]["p99"].as_f64().unwrap() > 0.0);

    let messages = site.drain(&queue).await;
    assert_eq!(messages.len(), 250);
    for (sequence, message) in (0_i64..).zip(&messages) {
        assert_eq!((message.body.len(), message.sequence()), (2048, Some(sequence)));
        assert_eq!(message.headers["idempotencyKey"], key.to_string());
        assert_eq!((&message.headers["k1"], &message.headers["Straße"]), (&json!("v1"), &json!("ü")));
        assert_eq!((message.is_persistent, message.expiry_ms), (true, Some(600_000)));
    }
    let mut bodies: Vec<_> = messages.iter().map(|message| &message.body).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 250, "every random body is another");
    let id = |index: usize| json!(messages[index].id);
    assert_eq!((&answer["firstMsgIdBase64"], &answer["lastMsgIdBase64"]), (&id(0), &id(249)));
    site.delete(&queue).await;
}

async fn templates_are_rendered_for_each_message(on: On) {
    let (gateway, site, key) = (Gateway::new(), Site::start(on).await, Uuid::new_v4());
    let queue = site.queue().await;
    let template =
        "{\"n\":{{seq}},\"id\":\"{{uuid}}\",\"at\":\"{{now}}\",\"key\":\"{{key}}\",\"r\":\"{{random(12)}}\"}";
    let members = json!({"batch": {"count": 3}, "payload": {"mode": "template", "template": template}});
    gateway.produce(key, &site.request(&queue, members)).await.expect(201);
    let rendered: Vec<Value> = site
        .drain(&queue)
        .await
        .iter()
        .map(|message| serde_json::from_slice(&message.body).unwrap())
        .collect();
    assert_eq!(rendered.len(), 3);
    for (n, message) in rendered.iter().enumerate() {
        assert_eq!((&message["n"], &message["key"]), (&json!(n), &json!(key.to_string())));
        assert!(Uuid::try_parse(message["id"].as_str().unwrap()).is_ok());
        assert_eq!(message["r"].as_str().unwrap().len(), 12);
        assert_eq!(message["at"], rendered[0]["at"]);
    }
    assert_ne!(rendered[0]["id"], rendered[1]["id"]);
    assert_ne!(rendered[0]["r"], rendered[1]["r"]);
    site.delete(&queue).await;
}

async fn explicit_messages_keep_their_own_bodies_headers_and_correlation_ids(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let queue = site.queue().await;
    let body = site.request(&queue, json!({
        "messages": [
            {"bodyText": "olá\u{0}\n", "headers": {"k": "own"}, "correlIdBase64": STANDARD.encode("order-1")},
            {"bodyBase64": STANDARD.encode([0xff, 0x00, 0x80])}
        ],
        "headers": {"k": "common"},
        "mqProps": {"persistence": "nonpersistent", "priority": 4, "correlIdMode": "fixed", "fixedCorrelIdBase64": STANDARD.encode("batch")}
    }));
    let answer = gateway.produce(Uuid::new_v4(), &body).await.expect(201).json();
    assert_eq!((&answer["enqueued"], &answer["transactions"]), (&json!(2), &json!(0)));
    let of_priority = answer["warnings"].to_string().contains("x-max-priority");
    assert_eq!(of_priority, !on.has(Fact::Priorities), "{answer}");
    let messages = site.drain(&queue).await;
    let [first, second] = messages.as_slice() else { panic!("two messages") };
    assert_eq!((first.text(), second.body.as_slice()), ("olá\u{0}\n", &[0xff, 0x00, 0x80][..]));
    assert_eq!((&first.headers["k"], &second.headers["k"]), (&json!("own"), &json!("common")));
    assert_eq!(first.correlation_id, Some(STANDARD.encode("order-1")));
    assert_eq!(second.correlation_id, Some(STANDARD.encode("batch")));
    assert_eq!((first.is_persistent, first.priority, first.expiry_ms), (false, 4, None));
    site.delete(&queue).await;
}

async fn a_resend_after_a_failure_is_the_same_message(on: On) {
    let (gateway, site, key) = (Gateway::new(), Site::start(on).await, Uuid::new_v4());
    let queue = site.queue().await;
    // Slow enough for a checkpoint, which notes the place: a retry continues nowhere else.
    let batch = json!({"count": 5, "messageSizeBytes": 64, "rateLimitPerSec": 3});
    let body = site.request(&queue, json!({"batch": batch, "tags": ["nightly"]}));
    gateway.produce(key, &body).await.expect(201);
    let first = site.drain(&queue).await;

    let number = |n: i64| aws_sdk_dynamodb::types::AttributeValue::N(n.to_string());
    let status = aws_sdk_dynamodb::types::AttributeValue::S("FAILED".to_owned());
    let attributes = [("status", status), ("checkpoint", number(2)), ("inDoubt", number(1))];
    Records::open().await.set("PRODUCE", key, &attributes).await;

    let answer = gateway.produce(key, &body).await.expect(201).json();
    assert_eq!((&answer["enqueued"], &answer["resumedFrom"]), (&json!(5), &json!(2)));
    assert_eq!(answer["possibleDuplicates"], 1);
    // Also the trace id, which is that of the first request and not of the one that resumed it.
    let whole = |messages: &[Message]| -> Vec<_> {
        let parts = |message: &Message| (message.id.clone(), message.body.clone(), message.headers.clone());
        messages.iter().map(parts).collect()
    };
    assert_eq!(whole(&site.drain(&queue).await), whole(&first[2..]));
    assert!(first[0].headers["traceId"].is_string() && first[0].headers["tags"] == "nightly", "{first:?}");
    site.delete(&queue).await;
}

async fn what_a_broker_cannot_do_is_refused_before_anything_is_put(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let queue = site.queue().await;
    let not_text = STANDARD.encode([0xff, 0xfe]);
    for (members, fact) in [
        (json!({"batch": {"transaction": {"enabled": true, "atomic": true}}}), Fact::UnitsOfWork),
        (
            json!({"mqProps": {"correlIdMode": "fixed", "fixedCorrelIdBase64": not_text}}),
            Fact::BinaryCorrelationIds,
        ),
    ] {
        let answer = gateway.produce(Uuid::new_v4(), &site.request(&queue, members)).await;
        if on.has(fact) {
            answer.expect(201);
            assert_eq!(site.drain(&queue).await.len(), 1);
        } else {
            answer.expect_problem(422, "UNSUPPORTED_BY_BROKER");
            assert_eq!(site.ready(&queue).await, 0);
        }
    }
    site.delete(&queue).await;
}

async fn a_full_queue_is_told_apart_and_keeps_what_it_took(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let queue = site.queue_of_three().await;
    let body = site.request(&queue, json!({"batch": {"count": 10, "messageSizeBytes": 100}}));
    let problem = gateway.produce(Uuid::new_v4(), &body).await.expect(502).json();
    assert!(["QUEUE_FULL", "BROKER_REJECTED"].contains(&problem["reason"].as_str().unwrap()), "{problem}");
    assert_eq!(problem["broker"]["product"], site.product());
    // A unit of work that does not fit is not there at all.
    let kept = if on.has(Fact::UnitsOfWork) { 0 } else { 3 };
    assert_eq!(site.ready(&queue).await, kept);
    site.delete(&queue).await;
}

async fn the_pace_is_kept(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let queue = site.queue().await;
    let body = site.request(&queue, json!({"batch": {"count": 21, "rateLimitPerSec": 20}}));
    let answer = gateway.produce(Uuid::new_v4(), &body).await.expect(201).json();
    assert!(answer["durationMs"].as_u64().unwrap() >= 950, "{answer}");
    site.delete(&queue).await;
}
