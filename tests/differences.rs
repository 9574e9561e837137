//! What differs between the brokers, as the same requests show it: the table of docs/brokers.md.

use end_to_end::{Answer, Gateway, On, Queue, Records, Site};
use serde_json::{Value, json};
use uuid::Uuid;

const PAGE: &str = include_str!("../docs/brokers.md");

/// A broker, and a queue with three messages `a`, `b`, `c`.
struct Stand {
    gateway: Gateway,
    site: Site,
    queue: Queue,
}

impl Stand {
    async fn on(on: On) -> Self {
        let (gateway, site) = (Gateway::new(), Site::start(on).await);
        let queue = site.queue().await;
        site.put(&queue, ["a", "b", "c"]).await;
        site.ready_becomes(&queue, 3).await;
        Self { gateway, site, queue }
    }

    async fn produce(&self, members: Value) -> Answer {
        self.gateway.produce(Uuid::new_v4(), &self.site.request(&self.queue, members)).await
    }

    async fn consume(&self, members: Value) -> Answer {
        let mut body = self.site.request(&self.queue, members);
        body["waitSeconds"] = json!(0);
        if body["maxMessages"].is_null() {
            body["maxMessages"] = json!(10);
        }
        self.gateway.consume(Uuid::new_v4(), &body).await
    }
}

/// Status and reason of a refusal, or what `show` makes of the body.
fn cell(answer: &Answer, show: impl Fn(&Value) -> String) -> String {
    if answer.status >= 400 {
        return format!("{} `{}`", answer.status, answer.reason());
    }
    format!("{}, {}", answer.status, show(&answer.json()))
}

fn bodies(answer: &Value) -> String {
    let bodies = answer["messages"].as_array().unwrap().iter();
    bodies.map(|message| message["bodyText"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

fn warnings(answer: &Value) -> &'static str {
    if answer["warnings"].as_array().unwrap().is_empty() { "no warning" } else { "a warning" }
}

async fn transactions(stand: &Stand, atomic: bool) -> String {
    let transaction = json!({"enabled": true, "txSize": 1, "atomic": atomic});
    let answer = stand.produce(json!({"batch": {"count": 2, "transaction": transaction}})).await;
    cell(&answer, |answer| format!("`atomic: {}`", answer["atomic"]))
}

async fn browsed(stand: &Stand) -> String {
    let body =
        stand.site.request(&stand.queue, json!({"browseOnly": true, "maxMessages": 10, "waitSeconds": 0}));
    let answer = stand.gateway.post("/messages/consume", &body).await;
    stand.site.ready_becomes(&stand.queue, 3).await;
    cell(&answer, |answer| format!("{}, {}", bodies(answer), warnings(answer)))
}

async fn marked(stand: &Stand) -> String {
    browsed(stand).await;
    let answer = stand.consume(json!({"maxMessages": 1})).await;
    cell(&answer, |answer| format!("`redelivered: {}`", answer["messages"][0]["redelivered"]))
}

async fn selected(stand: &Stand) -> String {
    let message = json!({"bodyText": "d", "correlIdBase64": "MTcuOQ==", "headers": {"amount": 17}});
    stand.produce(json!({"messages": [message]})).await.expect(201);
    let by = async |selector: Value| {
        let answer = stand.consume(json!({"selector": selector, "ack": "rollback"})).await;
        cell(&answer, |answer| format!("{}, {}", bodies(answer), warnings(answer)))
    };
    let [by_id, by_header] =
        [by(json!({"correlIdBase64": "MTcuOQ=="})).await, by(json!({"expression": "amount > 10"})).await];
    assert_eq!(by_id, by_header);
    by_id
}

async fn converted(stand: &Stand) -> String {
    let answer = stand.consume(json!({"convert": true, "ack": "rollback"})).await;
    cell(&answer, |answer| format!("{}, {}", bodies(answer), warnings(answer)))
}

async fn prioritized(stand: &Stand) -> String {
    let urgent = json!({"messages": [{"bodyText": "d"}], "mqProps": {"priority": 9}});
    let put = stand.produce(urgent).await.expect(201).json();
    let got = stand.consume(json!({"maxMessages": 4, "ack": "rollback"})).await;
    cell(&got, |got| format!("{}, {}", warnings(&put), bodies(got)))
}

async fn measured(stand: &Stand) -> String {
    let answer = stand.gateway.post("/queue/depth", &stand.site.request(&stand.queue, json!({}))).await;
    let members = ["currentDepth", "maxDepth", "openInputCount", "openOutputCount"];
    cell(&answer, |answer| {
        members.map(|name| if answer[name].is_null() { "unknown" } else { "known" }).join(", ")
    })
}

/// An attempt ended and left some of the messages of a move in doubt.
async fn moved(stand: &Stand) -> String {
    let (key, into) = (Uuid::new_v4(), stand.site.queue().await);
    let target = stand.site.request(&stand.queue, json!({}));
    let body = json!({"from": target, "to": {"queue": into.name}, "max": 2});
    stand.gateway.move_messages(key, &body).await.expect(200);
    let number = |number: u8| aws_sdk_dynamodb::types::AttributeValue::N(number.to_string());
    let failed = aws_sdk_dynamodb::types::AttributeValue::S("FAILED".to_owned());
    let attributes = [("status", failed), ("checkpoint", number(0)), ("inDoubt", number(2))];
    Records::open().await.set("MOVE", key, &attributes).await;
    let answer = stand.gateway.move_messages(key, &body).await;
    stand.site.delete(&into).await;
    cell(&answer, |answer| format!("`possibleDuplicates: {}`", answer["possibleDuplicates"]))
}

/// A row's request, and what it comes to.
async fn rows(on: On) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    for what in 0..9 {
        let stand = Stand::on(on).await;
        rows.push(match what {
            0 => ("produce in transactions", transactions(&stand, false).await),
            1 => ("produce in transactions, `atomic: true`", transactions(&stand, true).await),
            2 => ("browse `a`, `b`, `c`", browsed(&stand).await),
            3 => ("consume what was browsed", marked(&stand).await),
            4 => ("consume `d` by `selector`, by id or by expression", selected(&stand).await),
            5 => ("consume with `convert: true`", converted(&stand).await),
            6 => ("produce `d` with priority 9 behind `a`, `b`, `c`; consume", prioritized(&stand).await),
            7 => ("depth: current, maximum, inputs, outputs", measured(&stand).await),
            _ => ("move, after an attempt that left two messages in doubt", moved(&stand).await),
        });
        stand.site.delete(&stand.queue).await;
    }
    rows
}

#[tokio::test]
async fn the_table_of_differences_says_what_the_brokers_answer() {
    let (rabbitmq, ibm_mq) = tokio::join!(rows(On::RabbitMq), rows(On::IbmMq));
    let mut table = "| request | RabbitMQ | IBM MQ |\n|---|---|---|\n".to_owned();
    for ((what, on_rabbitmq), (_, on_ibm_mq)) in rabbitmq.into_iter().zip(ibm_mq) {
        assert_ne!(on_rabbitmq, on_ibm_mq, "{what}: no difference");
        table += &format!("| {what} | {on_rabbitmq} | {on_ibm_mq} |\n");
    }
    let (_, rest) = PAGE.split_once("<!-- differences -->\n").unwrap();
    let (documented, _) = rest.split_once("<!-- end -->").unwrap();
    assert_eq!(documented, table, "docs/brokers.md has another table; this is right:\n{table}");
}
