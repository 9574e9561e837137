//! Tests of consume: the response has the messages that an independent client put, and they stay or
//! are removed as the request says.

use std::collections::BTreeMap;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::{Fact, Gateway, Message, On, Site};
use serde_json::json;
use uuid::Uuid;

end_to_end::on_both! {
    a_commit_returns_the_messages_in_order_and_removes_them,
    another_client_s_message_is_shown_with_everything_it_has,
    rollback_and_browse_leave_the_messages,
    ack_none_removes_at_once_and_says_what_that_means,
    an_empty_queue_answers_after_the_wait_and_a_late_message_ends_it,
    what_does_not_fit_into_the_answer_stays_on_the_queue,
    a_message_that_can_never_fit_is_refused_and_stays,
}

async fn a_commit_returns_the_messages_in_order_and_removes_them(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let queue = site.queue_with((0..7).map(|n| format!("message {n}"))).await;
    let body = site.request(&queue, json!({"maxMessages": 5}));
    let answer = gateway.consume(Uuid::new_v4(), &body).await.expect(200).json();
    assert_eq!(
        (&answer["count"], &answer["ack"], &answer["truncated"]),
        (&json!(5), &json!("commit"), &json!(false))
    );
    assert_eq!(answer["deliveryInDoubt"], false);
    for (n, message) in answer["messages"].as_array().unwrap().iter().enumerate() {
        assert_eq!(message["bodyText"], format!("message {n}"));
        assert_eq!(message["bodyBase64"], STANDARD.encode(format!("message {n}")));
    }
    site.ready_becomes(&queue, 2).await;
    site.delete(&queue).await;
}

async fn another_client_s_message_is_shown_with_everything_it_has(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let queue = site.queue().await;
    let headers = [("text", json!("ação")), ("number", json!(-7)), ("flag", json!(true))];
    let message = Message {
        id: Some(site.id("foreign-1")),
        correlation_id: Some(STANDARD.encode("c-1")),
        is_persistent: true,
        priority: 3,
        expiry_ms: Some(600_000),
        reply_to: Some("REPLIES".to_owned()),
        content_type: Some("application/xml".to_owned()),
        content_encoding: Some("x-none".to_owned()),
        kind: Some("order".to_owned()),
        app_id: Some("shop".to_owned()),
        headers: BTreeMap::from(headers.map(|(name, value)| (name.to_owned(), value))),
        body: vec![0xff, 0x01],
    };
    site.put_message(&queue, &message).await;
    site.ready_becomes(&queue, 1).await;
    let answer = gateway.consume(Uuid::new_v4(), &site.request(&queue, json!({}))).await.expect(200).json();
    let shown = &answer["messages"][0];
    assert!(shown.get("bodyText").is_none(), "not UTF-8: {shown}");
    let expected = json!({
        "msgIdBase64": message.id, "correlIdBase64": site.id("c-1"),
        "bodyBase64": STANDARD.encode([0xff, 0x01]), "headers": message.headers,
        "persistence": "persistent", "priority": 3, "replyTo": "REPLIES",
        "contentType": "application/xml", "contentEncoding": "x-none", "type": "order", "appId": "shop",
        "group": null, "redelivered": false, "backoutCount": 0, "deaths": [],
    });
    for (member, value) in expected.as_object().unwrap() {
        assert_eq!(&shown[member], value, "{member}");
    }
    // IBM MQ counts it down.
    let expiry = shown["expiryMs"].as_u64().unwrap();
    assert!((1..=600_000).contains(&expiry), "{expiry}");
    site.delete(&queue).await;
}

async fn rollback_and_browse_leave_the_messages(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let queue = site.queue_with(["a", "b", "c"]).await;
    let rolled_back = site.request(&queue, json!({"maxMessages": 2, "ack": "rollback"}));
    let answer = gateway.consume(Uuid::new_v4(), &rolled_back).await.expect(200).json();
    assert_eq!((&answer["count"], &answer["ack"]), (&json!(2), &json!("rollback")));
    site.ready_becomes(&queue, 3).await;
    let browse = site.request(&queue, json!({"maxMessages": 10, "browseOnly": true, "waitSeconds": 0}));
    let answer = gateway.post("/messages/consume", &browse).await.expect(200).json();
    assert_eq!(answer["count"], 3);
    let warns = !answer["warnings"].as_array().unwrap().is_empty();
    assert_eq!(warns, on.has(Fact::LooksRedeliver), "{answer}");
    site.ready_becomes(&queue, 3).await;
    site.delete(&queue).await;
}

async fn ack_none_removes_at_once_and_says_what_that_means(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let queue = site.queue_with(["a", "b", "c"]).await;
    let body = site.request(&queue, json!({"maxMessages": 2, "ack": "none"}));
    let answer = gateway.consume(Uuid::new_v4(), &body).await.expect(200).json();
    assert_eq!(answer["count"], 2);
    assert!(!answer["warnings"].as_array().unwrap().is_empty(), "{answer}");
    assert_eq!(site.ready(&queue).await, 1);
    site.delete(&queue).await;
}

async fn an_empty_queue_answers_after_the_wait_and_a_late_message_ends_it(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let queue = site.queue().await;
    let waiting = site.request(&queue, json!({"waitSeconds": 1}));
    let started = Instant::now();
    let answer = gateway.consume(Uuid::new_v4(), &waiting).await.expect(200).json();
    assert_eq!((&answer["count"], &answer["waitSecondsApplied"]), (&json!(0), &json!(1)));
    assert!(started.elapsed().as_millis() >= 1_000);

    let patient = site.request(&queue, json!({"waitSeconds": 15}));
    let (consumer, patient_gateway) = (Uuid::new_v4(), gateway.clone());
    let waiting = tokio::spawn(async move { patient_gateway.consume(consumer, &patient).await });
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    site.put(&queue, ["late"]).await;
    let answer = waiting.await.unwrap().expect(200).json();
    assert_eq!(answer["count"], 1);
    assert!(answer["durationMs"].as_u64().unwrap() < 10_000, "{answer}");
    assert_eq!(site.ready(&queue).await, 0);
    site.delete(&queue).await;
}

async fn what_does_not_fit_into_the_answer_stays_on_the_queue(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let queue = site.queue_with(vec![vec![0xfe; 1_000_000]; 6]).await;
    let body = site.request(&queue, json!({"maxMessages": 6}));
    let answer = gateway.consume(Uuid::new_v4(), &body).await.expect(200).json();
    let count = usize::try_from(answer["count"].as_u64().unwrap()).unwrap();
    assert!(answer["truncated"] == true && (1..6).contains(&count), "{count}");
    site.ready_becomes(&queue, 6 - count).await;
    site.delete(&queue).await;
}

/// Checks that a consume refuses a message whose body would exceed the response, and leaves it on
/// the queue. A text body is in a response twice, so 3,000,000 bytes are too many.
async fn a_message_that_can_never_fit_is_refused_and_stays(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let queue = site.queue_with([vec![b'x'; 3_000_000]]).await;
    let answer = gateway.consume(Uuid::new_v4(), &site.request(&queue, json!({}))).await;
    answer.expect_problem(422, "MESSAGE_TOO_LARGE");
    site.ready_becomes(&queue, 1).await;
    site.delete(&queue).await;
}
