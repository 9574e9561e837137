//! Tests of moves through the API: messages arrive as an independent client put them, and leave
//! their queue only then. `tests/rabbitmq/dead_letters.rs` has the moves back to where messages
//! died.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::{Fact, Gateway, Message, On, Queue, READONLY_KEY, Site};
use serde_json::{Value, json};
use uuid::Uuid;

end_to_end::on_both! {
    messages_arrive_with_everything_that_they_had,
    a_retry_gets_the_same_answer_and_moves_nothing_more,
    a_dry_run_says_what_would_be_moved,
    messages_are_selected_by_id,
    a_message_without_an_origin_stays,
    a_queue_that_does_not_exist_is_named_and_nothing_is_moved,
    both_queues_have_to_be_allowed,
}

/// Builds the body of a move from a queue, with these further members.
fn from(site: &Site, queue: &Queue, members: Value) -> Value {
    let mut body = json!({"from": site.request(queue, json!({}))});
    let Value::Object(members) = members else { panic!("members are an object") };
    body.as_object_mut().unwrap().extend(members);
    body
}

fn to(queue: &Queue) -> Value {
    json!({"queue": queue.name})
}

/// Returns a queue with `count` messages that have the ids `id-0`, `id-1` and so on.
async fn queue_of(site: &Site, count: usize) -> Queue {
    let queue = site.queue().await;
    for n in 0..count {
        let id = Some(site.id(&format!("id-{n}")));
        site.put_message(&queue, &Message { id, ..Message::of(format!("message {n}")) }).await;
    }
    site.ready_becomes(&queue, count).await;
    queue
}

fn texts(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(Message::text).collect()
}

async fn moved(gateway: &Gateway, body: &Value) -> Value {
    gateway.move_messages(Uuid::new_v4(), body).await.expect(200).json()
}

async fn messages_arrive_with_everything_that_they_had(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let (old, new) = (site.queue().await, site.queue().await);
    let headers = [("text", json!("ação")), ("number", json!(7)), ("flag", json!(false))];
    let message = Message {
        id: Some(site.id("foreign-1")),
        correlation_id: Some(STANDARD.encode("c-1")),
        is_persistent: true,
        priority: 3,
        expiry_ms: None,
        reply_to: Some("answers".to_owned()),
        content_type: Some("application/xml".to_owned()),
        content_encoding: Some("x-none".to_owned()),
        kind: Some("order".to_owned()),
        app_id: Some("shop".to_owned()),
        headers: BTreeMap::from(headers.map(|(name, value)| (name.to_owned(), value))),
        body: vec![0xff, 0x01],
    };
    site.put_message(&old, &message).await;
    site.ready_becomes(&old, 1).await;
    let answer = moved(&gateway, &from(&site, &old, json!({"to": to(&new)}))).await;
    assert_eq!(
        (&answer["moved"], &answer["possibleDuplicates"], &answer["remaining"]),
        (&json!(1), &json!(0), &json!(0)),
        "{answer}"
    );
    assert_eq!(answer["destinations"], json!([{"queue": new.name, "moved": 1}]));
    assert_eq!(answer["messages"][0]["msgIdBase64"], json!(message.id));
    assert_eq!((site.drain(&new).await, site.ready(&old).await), (vec![message], 0));
    site.delete(&old).await;
    site.delete(&new).await;
}

async fn a_retry_gets_the_same_answer_and_moves_nothing_more(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let (old, new) = (queue_of(&site, 7).await, site.queue().await);
    let (key, body) = (Uuid::new_v4(), from(&site, &old, json!({"to": to(&new), "max": 5})));
    let first = gateway.move_messages(key, &body).await.expect(200);
    let retry = gateway.move_messages(key, &body).await.expect(200);
    assert_eq!((retry.header("idempotent-replay"), &retry.bytes), (Some("true"), &first.bytes));
    assert_eq!((first.json()["moved"].as_u64(), first.json()["remaining"].as_u64()), (Some(5), Some(2)));
    let other = from(&site, &old, json!({"to": to(&new), "max": 6}));
    gateway.move_messages(key, &other).await.expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");
    let arrived = site.drain(&new).await;
    assert_eq!(texts(&arrived), ["message 0", "message 1", "message 2", "message 3", "message 4"]);
    assert_eq!(site.ready(&old).await, 2);
    site.delete(&old).await;
    site.delete(&new).await;
}

async fn a_dry_run_says_what_would_be_moved(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let (old, new) = (queue_of(&site, 3).await, site.queue().await);
    let dry = from(&site, &old, json!({"to": to(&new), "max": 2, "dryRun": true}));
    let shown = gateway.with_key(READONLY_KEY).post("/messages/move", &dry).await.expect(200).json();
    assert_eq!((&shown["moved"], &shown["dryRun"]), (&json!(2), &json!(true)), "{shown}");
    site.ready_becomes(&old, 3).await;
    assert_eq!(site.ready(&new).await, 0);
    site.delete(&old).await;
    site.delete(&new).await;
}

async fn messages_are_selected_by_id(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let (old, new) = (queue_of(&site, 4).await, site.queue().await);
    let (absent, wanted) = (site.id("absent"), [site.id("id-1"), site.id("absent"), site.id("id-3")]);
    let members = json!({"to": to(&new), "selector": {"msgIdsBase64": wanted}});
    let answer = moved(&gateway, &from(&site, &old, members)).await;
    let not_found = format!("no message was found for 1 of the ids in msgIdsBase64: {absent}");
    assert_eq!(answer["warnings"], json!([not_found]));
    let examined = if on.has(Fact::MovesById) { 2 } else { 4 };
    assert_eq!((&answer["moved"], &answer["examined"]), (&json!(2), &json!(examined)));
    site.ready_becomes(&old, 2).await;
    assert_eq!(texts(&site.drain(&new).await), ["message 1", "message 3"]);
    assert_eq!(texts(&site.drain(&old).await), ["message 0", "message 2"]);
    site.delete(&old).await;
    site.delete(&new).await;
}

async fn a_message_without_an_origin_stays(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let old = queue_of(&site, 1).await;
    let answer = moved(&gateway, &from(&site, &old, json!({"to": "origin"}))).await;
    assert_eq!((&answer["moved"], &answer["messages"][0]["reason"]), (&json!(0), &json!("NO_ORIGIN")));
    site.ready_becomes(&old, 1).await;
    site.delete(&old).await;
}

async fn a_queue_that_does_not_exist_is_named_and_nothing_is_moved(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let (old, absent) = (queue_of(&site, 1).await, site.missing_queue());
    for (source, destination) in [(&old, &absent), (&absent, &old)] {
        let body = from(&site, source, json!({"to": to(destination)}));
        let answer =
            gateway.move_messages(Uuid::new_v4(), &body).await.expect_problem(404, "QUEUE_NOT_FOUND");
        assert!(answer.json()["detail"].as_str().unwrap().contains(&absent.name));
    }
    let same = from(&site, &old, json!({"to": to(&old)}));
    let same = gateway.move_messages(Uuid::new_v4(), &same).await.expect_problem(400, "SCHEMA_VIOLATION");
    assert_eq!(same.json()["errors"][0]["pointer"], "/to/queue");
    assert_eq!(site.ready(&old).await, 1);
    site.delete(&old).await;
}

/// Checks that a move is refused unless the profile allows both of its queues. Here it allows one
/// of two.
async fn both_queues_have_to_be_allowed(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let (mine, others) = (queue_of(&site, 1).await, queue_of(&site, 1).await);
    let profile = site.limited_profile(&mine).await;
    let of = |queue: &Queue, members: Value| {
        let mut body = from(&site, queue, members);
        body["from"] = json!({"targetRef": profile, "target": {"queue": queue.name}});
        body
    };
    for body in [of(&mine, json!({"to": to(&others)})), of(&others, json!({"to": to(&mine)}))] {
        let answer = gateway.move_messages(Uuid::new_v4(), &body).await;
        answer.expect_problem(403, "TARGET_NOT_ALLOWED");
    }
    let dry = of(&mine, json!({"to": to(&others), "dryRun": true}));
    gateway.post("/messages/move", &dry).await.expect_problem(403, "TARGET_NOT_ALLOWED");
    assert_eq!((site.ready(&mine).await, site.ready(&others).await), (1, 1));
    site.delete(&mine).await;
    site.delete(&others).await;
}
