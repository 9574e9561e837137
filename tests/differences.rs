//! Measures how the brokers differ in their responses to the same requests. The result is the table
//! in docs/brokers.md, and the [`Fact`]s on which the tests for both brokers rely.

use aws_sdk_dynamodb::types::AttributeValue;
use end_to_end::{Answer, Fact, Gateway, On, Queue, Records, Site};
use serde_json::{Value, json};
use uuid::Uuid;

const PAGE: &str = include_str!("../docs/brokers.md");

/// Broker of one measurement, with the gateway and a queue that has three messages `a`, `b` and
/// `c`.
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

/// Row of the table in docs/brokers.md: the result of one request on one broker.
struct Row {
    request: &'static str,
    /// Status and reason of the response if it is a refusal, otherwise its status and what it
    /// shows.
    cell: String,
    /// True if the response shows that the row's [`Fact`] holds on this broker.
    holds: bool,
}

impl Row {
    /// Makes a row from a response. A refusal means that the fact does not hold. From any other
    /// response `show` returns the text for the table, and whether the fact holds.
    fn new(request: &'static str, answer: &Answer, show: impl Fn(&Value) -> (String, bool)) -> Self {
        if answer.status >= 400 {
            let cell = format!("{} `{}`", answer.status, answer.reason());
            return Self { request, cell, holds: false };
        }
        let (shown, holds) = show(&answer.json());
        Self { request, cell: format!("{}, {shown}", answer.status), holds }
    }
}

fn bodies(answer: &Value) -> String {
    let bodies = answer["messages"].as_array().unwrap().iter();
    bodies.map(|message| message["bodyText"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

fn warns(answer: &Value) -> bool {
    !answer["warnings"].as_array().unwrap().is_empty()
}

fn warnings(answer: &Value) -> &'static str {
    if warns(answer) { "a warning" } else { "no warning" }
}

async fn transactions(stand: &Stand, request: &'static str, atomic: bool) -> Row {
    let transaction = json!({"enabled": true, "txSize": 1, "atomic": atomic});
    let answer = stand.produce(json!({"batch": {"count": 2, "transaction": transaction}})).await;
    Row::new(request, &answer, |answer| (format!("`atomic: {}`", answer["atomic"]), answer["atomic"] == true))
}

async fn browse(stand: &Stand) -> Answer {
    let body =
        stand.site.request(&stand.queue, json!({"browseOnly": true, "maxMessages": 10, "waitSeconds": 0}));
    let answer = stand.gateway.post("/messages/consume", &body).await;
    stand.site.ready_becomes(&stand.queue, 3).await;
    answer
}

async fn browsed(stand: &Stand) -> Row {
    Row::new("browse `a`, `b`, `c`", &browse(stand).await, |answer| {
        (format!("{}, {}", bodies(answer), warnings(answer)), warns(answer))
    })
}

async fn marked(stand: &Stand) -> Row {
    browse(stand).await;
    let answer = stand.consume(json!({"maxMessages": 1})).await;
    Row::new("consume what was browsed", &answer, |answer| {
        let redelivered = &answer["messages"][0]["redelivered"];
        (format!("`redelivered: {redelivered}`"), redelivered == true)
    })
}

async fn selected(stand: &Stand, request: &'static str, selector: Value) -> Row {
    let answer = stand.consume(json!({"selector": selector, "ack": "rollback"})).await;
    Row::new(request, &answer, |answer| {
        (format!("{}, {}", bodies(answer), warnings(answer)), bodies(answer) == "d")
    })
}

async fn converted(stand: &Stand) -> Row {
    let answer = stand.consume(json!({"convert": true, "ack": "rollback"})).await;
    Row::new("consume with `convert: true`", &answer, |answer| {
        (format!("{}, {}", bodies(answer), warnings(answer)), true)
    })
}

async fn prioritized(stand: &Stand) -> Row {
    let urgent = json!({"messages": [{"bodyText": "d"}], "mqProps": {"priority": 9}});
    let put = stand.produce(urgent).await.expect(201).json();
    let answer = stand.consume(json!({"maxMessages": 4, "ack": "rollback"})).await;
    Row::new("produce `d` with priority 9 behind `a`, `b`, `c`; consume", &answer, |got| {
        (format!("{}, {}", warnings(&put), bodies(got)), !warns(&put) && bodies(got).starts_with('d'))
    })
}

async fn measured(stand: &Stand) -> Row {
    let answer = stand.gateway.post("/queue/depth", &stand.site.request(&stand.queue, json!({}))).await;
    let members = ["currentDepth", "maxDepth", "openInputCount", "openOutputCount"];
    Row::new("depth: current, maximum, inputs, outputs", &answer, |answer| {
        let shown = members.map(|name| if answer[name].is_null() { "unknown" } else { "known" });
        (shown.join(", "), !shown.contains(&"unknown"))
    })
}

/// Measures the retry of a produce whose earlier attempt put all messages and left them in doubt.
async fn put_again(stand: &Stand) -> Row {
    let key = Uuid::new_v4();
    let body = stand.site.request(&stand.queue, json!({"batch": {"count": 2}}));
    stand.gateway.produce(key, &body).await.expect(201);
    left_in_doubt("PRODUCE", key, 2).await;
    let answer = stand.gateway.produce(key, &body).await;
    let there = stand.site.drain(&stand.queue).await.len() - 3;
    Row::new("produce, after an attempt that put two messages and left them in doubt", &answer, |answer| {
        let possible = &answer["possibleDuplicates"];
        (format!("`possibleDuplicates: {possible}`, {there} on the queue"), possible == 0)
    })
}

/// Changes a record as if its attempt had failed and left this number of messages in doubt.
async fn left_in_doubt(operation: &str, key: Uuid, messages: u8) {
    let number = |number: u8| AttributeValue::N(number.to_string());
    let failed = AttributeValue::S("FAILED".to_owned());
    let attributes = [("status", failed), ("checkpoint", number(0)), ("inDoubt", number(messages))];
    Records::open().await.set(operation, key, &attributes).await;
}

/// Measures the retry of a move whose earlier attempt left two messages in doubt.
async fn moved(stand: &Stand) -> Row {
    let (key, into) = (Uuid::new_v4(), stand.site.queue().await);
    let target = stand.site.request(&stand.queue, json!({}));
    let body = json!({"from": target, "to": {"queue": into.name}, "max": 2});
    stand.gateway.move_messages(key, &body).await.expect(200);
    left_in_doubt("MOVE", key, 2).await;
    let answer = stand.gateway.move_messages(key, &body).await;
    stand.site.delete(&into).await;
    Row::new("move, after an attempt that left two messages in doubt", &answer, |answer| {
        let possible = &answer["possibleDuplicates"];
        (format!("`possibleDuplicates: {possible}`"), possible == 0)
    })
}

/// Measures the move of one message by its id, which is behind three others on the queue.
async fn moved_by_id(stand: &Stand) -> Row {
    let put = stand.produce(json!({"messages": [{"bodyText": "d"}]})).await.expect(201).json();
    let (into, target) = (stand.site.queue().await, stand.site.request(&stand.queue, json!({})));
    let selector = json!({"msgIdsBase64": [put["firstMsgIdBase64"]]});
    let body = json!({"from": target, "to": {"queue": into.name}, "selector": selector});
    let answer = stand.gateway.move_messages(Uuid::new_v4(), &body).await;
    stand.site.delete(&into).await;
    Row::new("move `d` by its id from behind `a`, `b`, `c`", &answer, |answer| {
        assert_eq!(answer["moved"], 1, "{answer}");
        (format!("`examined: {}`", answer["examined"]), answer["examined"] == 1)
    })
}

/// Puts one message on the emptied queue. Returns the response of a consume, or of the produce if
/// that is refused.
async fn put(stand: &Stand, message: Value) -> Result<Answer, Answer> {
    stand.site.drain(&stand.queue).await;
    let answer = stand.produce(json!({ "messages": [message] })).await;
    if answer.status >= 400 { Err(answer) } else { Ok(stand.consume(json!({})).await) }
}

async fn shown(
    stand: &Stand,
    request: &'static str,
    message: Value,
    (member, holds): (&str, fn(&Value) -> bool),
) -> Row {
    let answer = put(stand, message).await.unwrap_or_else(|refused| refused);
    Row::new(request, &answer, |answer| {
        let value = &answer["messages"][0][member];
        (format!("`{member}: {value}`"), holds(value))
    })
}

/// Measures a fact on one broker. Returns the rows that show it.
async fn rows(fact: Fact, stand: &Stand) -> Vec<Row> {
    match fact {
        Fact::UnitsOfWork => vec![
            transactions(stand, "produce in transactions", false).await,
            transactions(stand, "produce in transactions, `atomic: true`", true).await,
        ],
        Fact::LooksRedeliver => vec![browsed(stand).await, marked(stand).await],
        Fact::Selectors => {
            let message = json!({"bodyText": "d", "correlIdBase64": "MTcuOQ==", "headers": {"amount": 17}});
            stand.produce(json!({"messages": [message]})).await.expect(201);
            let by_id = json!({"correlIdBase64": "MTcuOQ=="});
            let by_header = json!({"expression": "amount > 10"});
            vec![
                selected(stand, "consume `d` by its correlation id", by_id).await,
                selected(stand, "consume `d` by an expression", by_header).await,
            ]
        }
        Fact::Conversion => vec![converted(stand).await],
        Fact::Priorities => vec![prioritized(stand).await],
        Fact::WholeDepth => vec![measured(stand).await],
        Fact::FoundPuts => vec![put_again(stand).await],
        Fact::CertainMoves => vec![moved(stand).await],
        Fact::MovesById => vec![moved_by_id(stand).await],
        Fact::DefaultContentType => {
            let text = json!({"bodyText": "a"});
            vec![
                shown(
                    stand,
                    "produce without `contentType`; consume",
                    text,
                    ("contentType", |it| !it.is_null()),
                )
                .await,
            ]
        }
        Fact::FractionsOfSeconds => {
            let message = json!({"bodyText": "a", "timestamp": "2026-11-22T17:00:00.9Z"});
            vec![
                shown(
                    stand,
                    "produce with a `timestamp` of 17:00:00.9; consume",
                    message,
                    ("timestamp", |it| it.as_str().unwrap().contains(".9")),
                )
                .await,
            ]
        }
        Fact::BinaryCorrelationIds => {
            let message = json!({"bodyText": "a", "correlIdBase64": BINARY});
            vec![
                shown(
                    stand,
                    "produce with a `correlIdBase64` that is not UTF-8; consume",
                    message,
                    ("correlIdBase64", |it| it == BINARY),
                )
                .await,
            ]
        }
    }
}

/// Correlation id of 24 bytes that are not UTF-8, in base64.
const BINARY: &str = "////////////////////////////////";

/// Measures every fact on a broker, and returns all rows. Panics if a row contradicts [`On::has`].
async fn all(on: On) -> Vec<Row> {
    let mut all = Vec::new();
    for fact in Fact::ALL {
        let stand = Stand::on(on).await;
        let rows = rows(fact, &stand).await;
        assert!(!rows.is_empty(), "{fact:?} has no line");
        for row in &rows {
            assert_eq!(row.holds, on.has(fact), "{fact:?} on {on:?}: {}: {}", row.request, row.cell);
        }
        all.extend(rows);
        stand.site.delete(&stand.queue).await;
    }
    all
}

#[tokio::test]
async fn the_table_of_differences_says_what_the_brokers_answer() {
    let (rabbitmq, ibm_mq) = tokio::join!(all(On::RabbitMq), all(On::IbmMq));
    let mut table = "| request | RabbitMQ | IBM MQ |\n|---|---|---|\n".to_owned();
    for (on_rabbitmq, on_ibm_mq) in rabbitmq.into_iter().zip(ibm_mq) {
        let what = on_rabbitmq.request;
        assert_ne!(on_rabbitmq.cell, on_ibm_mq.cell, "{what}: no difference");
        table += &format!("| {what} | {} | {} |\n", on_rabbitmq.cell, on_ibm_mq.cell);
    }
    let (_, rest) = PAGE.split_once("<!-- differences -->\n").unwrap();
    let (documented, _) = rest.split_once("<!-- end -->").unwrap();
    assert_eq!(documented, table, "docs/brokers.md has another table; this is right:\n{table}");
}
