//! Messages moved through the API arrive as an independent client put them, and leave only then.

use amqprs::{BasicProperties, FieldTable, FieldValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::{Access, Answer, Broker, Gateway, Queue, READONLY_KEY, TENANT_A};
use serde_json::{Value, json};
use uuid::Uuid;

fn text(text: &str) -> FieldValue {
    FieldValue::S(text.to_owned().try_into().unwrap())
}

/// A request to move from a queue.
fn from(queue: &Queue, members: Value) -> Value {
    let mut body = json!({"from": queue.target()});
    let Value::Object(members) = members else { panic!("members are an object") };
    body.as_object_mut().unwrap().extend(members);
    body
}

fn to(queue: &Queue) -> Value {
    json!({"queue": queue.name})
}

/// A queue whose messages go to `dead` when they expire.
async fn dying_to(broker: &Broker, dead: &Queue) -> Queue {
    let arguments = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text(&dead.name))];
    broker.queue_with(&arguments).await
}

/// Publishes a message that expires at once.
async fn dies(broker: &Broker, queue: &Queue, body: &str) {
    let properties =
        BasicProperties::default().with_expiration("0").with_message_id(&format!("id of {body}")).finish();
    broker.publish(queue, properties, body).await;
}

async fn put(broker: &Broker, queue: &Queue, count: usize) {
    for n in 0..count {
        let properties = BasicProperties::default().with_message_id(&format!("id-{n}")).finish();
        broker.publish(queue, properties, format!("message {n}")).await;
    }
}

async fn ready_becomes(broker: &Broker, queue: &Queue, expected: usize) {
    for _ in 0..200 {
        if broker.ready(queue).await == expected {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(broker.ready(queue).await, expected);
}

fn reasons(answer: &Value) -> Vec<Value> {
    answer["messages"].as_array().unwrap().iter().map(|message| message["reason"].clone()).collect()
}

async fn moved(gateway: &Gateway, body: &Value) -> Value {
    gateway.move_messages(Uuid::new_v4(), body).await.expect(200).json()
}

#[tokio::test]
async fn messages_arrive_with_everything_that_they_had() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let (old, new) = (broker.queue().await, broker.queue().await);
    let mut headers = FieldTable::new();
    headers.insert("text".try_into().unwrap(), text("ação"));
    let properties = BasicProperties::default()
        .with_message_id("foreign-1")
        .with_correlation_id("c-1")
        .with_reply_to("answers")
        .with_content_type("application/xml")
        .with_content_encoding("x-none")
        .with_persistence(true)
        .with_priority(3)
        .with_timestamp(1_700_000_000)
        .with_message_type("order")
        .with_app_id("shop")
        .with_headers(headers)
        .finish();
    broker.publish(&old, properties.clone(), vec![0xff, 0x01]).await;
    ready_becomes(&broker, &old, 1).await;
    let answer = moved(&gateway, &from(&old, json!({"to": to(&new)}))).await;
    assert_eq!(
        (&answer["moved"], &answer["possibleDuplicates"], &answer["remaining"]),
        (&json!(1), &json!(0), &json!(0)),
        "{answer}"
    );
    assert_eq!(answer["destinations"], json!([{"queue": new.name, "moved": 1}]));
    assert_eq!(answer["messages"][0]["msgIdBase64"], STANDARD.encode("foreign-1"));
    let (arrived, body) = broker.get(&new).await.unwrap();
    assert_eq!((arrived.to_string(), body), (properties.to_string(), vec![0xff, 0x01]));
    assert_eq!(broker.ready(&old).await, 0);
    broker.delete(&old).await;
    broker.delete(&new).await;
}

#[tokio::test]
async fn a_retry_gets_the_same_answer_and_moves_nothing_more() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let (old, new) = (broker.queue().await, broker.queue().await);
    put(&broker, &old, 7).await;
    ready_becomes(&broker, &old, 7).await;
    let (key, body) = (Uuid::new_v4(), from(&old, json!({"to": to(&new), "max": 5})));
    let first = gateway.move_messages(key, &body).await.expect(200);
    let retry = gateway.move_messages(key, &body).await.expect(200);
    assert_eq!((retry.header("idempotent-replay"), &retry.bytes), (Some("true"), &first.bytes));
    assert_eq!((first.json()["moved"].as_u64(), first.json()["remaining"].as_u64()), (Some(5), Some(2)));
    let other = from(&old, json!({"to": to(&new), "max": 6}));
    gateway.move_messages(key, &other).await.expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");
    let arrived: Vec<_> =
        broker.drain(&new).await.into_iter().map(|(_, body)| String::from_utf8(body).unwrap()).collect();
    assert_eq!(arrived, ["message 0", "message 1", "message 2", "message 3", "message 4"]);
    assert_eq!(broker.ready(&old).await, 2);
    broker.delete(&old).await;
    broker.delete(&new).await;
}

#[tokio::test]
async fn dead_letters_go_back_to_where_they_died_and_strangers_stay() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let dead = broker.queue().await;
    let (orders, payments) = (dying_to(&broker, &dead).await, dying_to(&broker, &dead).await);
    dies(&broker, &orders, "an order").await;
    ready_becomes(&broker, &dead, 1).await;
    dies(&broker, &payments, "a payment").await;
    ready_becomes(&broker, &dead, 2).await;
    broker.publish(&dead, BasicProperties::default(), "a stranger").await;
    ready_becomes(&broker, &dead, 3).await;
    let origin = from(&dead, json!({"to": "origin"}));
    let mut dry = origin.clone();
    dry["dryRun"] = json!(true);
    let reader = gateway.with_key(READONLY_KEY);
    let preview = reader.post("/messages/move", &dry).await.expect(200).json();
    assert_eq!(
        (&preview["dryRun"], &preview["moved"], &preview["stayed"]),
        (&json!(true), &json!(2), &json!(1))
    );
    assert_eq!((broker.ready(&orders).await, broker.ready(&payments).await), (0, 0));
    ready_becomes(&broker, &dead, 3).await;
    let answer = moved(&gateway, &origin).await;
    assert_eq!(reasons(&answer), [json!(null), json!(null), json!("NO_ORIGIN")]);
    assert_eq!(answer["messages"].as_array().unwrap()[0]["deaths"], 1);
    for (queue, body) in [(&orders, "an order"), (&payments, "a payment")] {
        let (properties, arrived) = broker.get(queue).await.unwrap();
        assert_eq!(arrived, body.as_bytes());
        assert_eq!(properties.message_id().unwrap(), &format!("id of {body}"));
        assert!(properties.headers().unwrap().get(&"x-death".try_into().unwrap()).is_some());
    }
    ready_becomes(&broker, &dead, 1).await;
    for queue in [dead, orders, payments] {
        broker.delete(&queue).await;
    }
}

#[tokio::test]
async fn messages_are_selected_by_id() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let (old, new) = (broker.queue().await, broker.queue().await);
    put(&broker, &old, 4).await;
    ready_becomes(&broker, &old, 4).await;
    let ids: Vec<_> = ["id-1", "id-3"].iter().map(|id| STANDARD.encode(id)).collect();
    let answer =
        moved(&gateway, &from(&old, json!({"to": to(&new), "selector": {"msgIdsBase64": ids}}))).await;
    assert_eq!((&answer["moved"], &answer["examined"]), (&json!(2), &json!(4)));
    ready_becomes(&broker, &old, 2).await;
    assert_eq!(broker.drain(&new).await.len(), 2);
    let left: Vec<_> = broker.drain(&old).await.into_iter().map(|(_, body)| body).collect();
    assert_eq!(left, [b"message 0", b"message 2"]);
    broker.delete(&old).await;
    broker.delete(&new).await;
}

#[tokio::test]
async fn a_queue_that_does_not_exist_is_named_and_nothing_is_moved() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let old = broker.queue().await;
    put(&broker, &old, 1).await;
    ready_becomes(&broker, &old, 1).await;
    let absent = Queue { name: format!("test.{}", Uuid::new_v4()) };
    for body in [from(&old, json!({"to": to(&absent)})), from(&absent, json!({"to": to(&old)}))] {
        let answer =
            gateway.move_messages(Uuid::new_v4(), &body).await.expect_problem(404, "QUEUE_NOT_FOUND");
        assert!(answer.json()["detail"].as_str().unwrap().contains(&absent.name));
    }
    let same = gateway.move_messages(Uuid::new_v4(), &from(&old, json!({"to": to(&old)}))).await;
    assert_eq!(same.expect_problem(400, "SCHEMA_VIOLATION").json()["errors"][0]["pointer"], "/to/queue");
    assert_eq!(broker.ready(&old).await, 1);
    broker.delete(&old).await;
}

/// A profile that covers the dead-letter queue and one of the queues that its messages came from.
#[tokio::test]
async fn both_queues_have_to_be_allowed() {
    let (gateway, broker, access) = (Gateway::new(), Broker::connect().await, Access::open().await);
    let dead = broker.queue().await;
    let (mine, others) = (dying_to(&broker, &dead).await, dying_to(&broker, &dead).await);
    let profile = access.limited_profile(TENANT_A, &[&dead.name, &mine.name]).await;
    let of = |queue: &Queue, members: Value| {
        let mut body = from(queue, members);
        body["from"]["targetRef"] = json!(profile);
        body
    };
    let send = async |body: Value| -> Answer { gateway.move_messages(Uuid::new_v4(), &body).await };
    send(of(&dead, json!({"to": to(&others)}))).await.expect_problem(403, "TARGET_NOT_ALLOWED");
    send(of(&others, json!({"to": to(&dead)}))).await.expect_problem(403, "TARGET_NOT_ALLOWED");
    let dry = of(&dead, json!({"to": to(&others), "dryRun": true}));
    gateway.post("/messages/move", &dry).await.expect_problem(403, "TARGET_NOT_ALLOWED");
    dies(&broker, &others, "of others").await;
    ready_becomes(&broker, &dead, 1).await;
    dies(&broker, &mine, "mine").await;
    ready_becomes(&broker, &dead, 2).await;
    let answer = send(of(&dead, json!({"to": "origin"}))).await.expect(200).json();
    assert_eq!(reasons(&answer), [json!("NOT_ALLOWED"), json!(null)], "{answer}");
    assert_eq!((broker.ready(&others).await, broker.ready(&mine).await), (0, 1));
    ready_becomes(&broker, &dead, 1).await;
    for queue in [dead, mine, others] {
        broker.delete(&queue).await;
    }
}
