//! The message gateway: what is put is counted once however often the request is repeated, on
//! either broker.

use serde_json::{Value, json};
use uuid::Uuid;

use super::client::{Client, Reply};
use crate::console::say;
use crate::failure::Failure;
use crate::targets::Given;

const COUNT: u64 = 1_000;
const TAKEN: u64 = 3;

pub(super) const RABBITMQ: &str = "local-rabbit";
const IBM_MQ: &str = "local-qm1";

pub(super) async fn show(client: &Client, given: &Given) -> Result<(), Failure> {
    let produce = json!({
        "targetRef": RABBITMQ,
        "batch": {"count": COUNT, "messageSizeBytes": 2_048, "transaction": {"enabled": true, "txSize": 100}},
        "payload": {"mode": "random"},
    });
    let idempotency_key = Uuid::new_v4();
    let first = put(client, &idempotency_key, &produce).await?;
    count(client, RABBITMQ, COUNT, "That is how many are on the queue").await?;
    take(client).await?;
    repeat(client, &idempotency_key, &produce, &first).await?;
    misuse(client, &idempotency_key, produce).await?;
    say("\n5. List the targets by name, and test the connection to one");
    list_targets(client).await?;
    test_connection(client, RABBITMQ).await?;
    match &given.ibm_mq_library {
        None => on_ibm_mq(client).await,
        Some(library) => {
            say(format_args!("\n6. IBM MQ is reached by {}: its queues are left alone", library.display()));
            Ok(())
        }
    }
}

/// The same routes with another profile, and what RabbitMQ cannot do.
async fn on_ibm_mq(client: &Client) -> Result<(), Failure> {
    say("\n6. The same on IBM MQ, here a stand-in: only the profile differs");
    test_connection(client, IBM_MQ).await?;
    let produce = json!({
        "targetRef": IBM_MQ,
        "batch": {
            "count": COUNT, "messageSizeBytes": 2_048,
            "transaction": {"enabled": true, "txSize": 100, "atomic": true},
        },
        "payload": {"mode": "random"},
        "mqProps": {"correlIdMode": "echoMsgId"},
    });
    let reply = client.post("/messages/produce", Some(&Uuid::new_v4()), &produce).await?;
    let is_atomic = reply.body.get("atomic") == Some(&Value::Bool(true));
    reply.expect(
        "201 with all messages enqueued, each transaction whole or not at all",
        reply.status == 201 && reply.number("enqueued") == Some(COUNT) && is_atomic,
    )?;
    say(format_args!("   {} in {} ms: atomic {}", reply.status, reply.milliseconds, reply.show("atomic")));
    count(client, IBM_MQ, COUNT, "That is how many are on the queue").await?;

    let last = reply.body.get("lastMsgIdBase64").cloned().unwrap_or_default();
    let select = json!({"targetRef": IBM_MQ, "selector": {"correlIdBase64": last}, "waitSeconds": 2});
    let reply = client.post("/messages/consume", Some(&Uuid::new_v4()), &select).await?;
    let is_last = reply.body.pointer("/messages/0/msgIdBase64") == Some(&last);
    reply.expect("200 with the last message", reply.status == 200 && is_last)?;
    say("   Taken the last one first, by its correlation id");
    let left = COUNT.saturating_sub(1);
    count(client, IBM_MQ, left, "Left on the queue").await?;
    rolled_back(client, left).await
}

/// Shows two reads that leave the queue as it is: a consume that is rolled back, which counts, and
/// a browse.
async fn rolled_back(client: &Client, left: u64) -> Result<(), Failure> {
    let body = json!({"targetRef": IBM_MQ, "maxMessages": TAKEN, "waitSeconds": 2, "ack": "rollback"});
    let reply = client.post("/messages/consume", Some(&Uuid::new_v4()), &body).await?;
    let is_shown = reply.status == 200 && reply.number("count") == Some(TAKEN);
    reply.expect(&format!("200 with {TAKEN} messages"), is_shown)?;
    say(format_args!("   Taken {TAKEN} with \"ack\": \"rollback\", which backs them out"));
    count(client, IBM_MQ, left, "Still on the queue").await?;

    let body = json!({"targetRef": IBM_MQ, "maxMessages": TAKEN, "waitSeconds": 0, "browseOnly": true});
    let reply = client.post("/messages/consume", None, &body).await?;
    let backed_out = |message: &Value| message.get("backoutCount") == Some(&json!(1));
    let messages = reply.body.get("messages").and_then(Value::as_array);
    let is_counted =
        messages.is_some_and(|found| u64::try_from(found.len()) == Ok(TAKEN) && found.iter().all(backed_out));
    reply.expect(
        &format!("200 with {TAKEN} messages that were backed out once"),
        reply.status == 200 && is_counted,
    )?;
    say(format_args!("   Browsed the same {TAKEN}: their backoutCount is 1, and nothing was taken"));
    count(client, IBM_MQ, left, "Still on the queue").await
}

async fn put(client: &Client, key: &Uuid, body: &Value) -> Result<Reply, Failure> {
    say("\n1. Put 1,000 messages of 2 KiB on DEV.QUEUE.1, 100 to a transaction. By hand that is");
    say(client.curl("/messages/produce", key, body));
    let reply = client.post("/messages/produce", Some(key), body).await?;
    reply.expect(
        "201 with all messages enqueued",
        reply.status == 201 && reply.number("enqueued") == Some(COUNT),
    )?;
    say(format_args!(
        "   {} in {} ms: {} messages, {} bytes, {} transactions",
        reply.status,
        reply.milliseconds,
        reply.show("enqueued"),
        reply.show("bytes"),
        reply.show("transactions"),
    ));
    Ok(reply)
}

async fn count(client: &Client, profile: &str, expected: u64, comment: &str) -> Result<(), Failure> {
    let reply = client.post("/queue/depth", None, &json!({"targetRef": profile})).await?;
    let depth = reply.number("currentDepth");
    reply
        .expect(&format!("200 with a depth of {expected}"), reply.status == 200 && depth == Some(expected))?;
    say(format_args!("   {comment}: {expected}"));
    Ok(())
}

async fn take(client: &Client) -> Result<(), Failure> {
    say(format_args!("\n2. Take {TAKEN} of them"));
    let body = json!({"targetRef": RABBITMQ, "maxMessages": TAKEN, "waitSeconds": 2});
    let reply = client.post("/messages/consume", Some(&Uuid::new_v4()), &body).await?;
    let taken = reply.status == 200 && reply.number("count") == Some(TAKEN);
    reply.expect(&format!("200 with {TAKEN} messages"), taken)?;
    for message in reply.body.pointer("/messages").and_then(Value::as_array).into_iter().flatten() {
        let headers = message.get("headers").cloned().unwrap_or_default();
        say(format_args!("   a message with the properties {headers}"));
    }
    count(client, RABBITMQ, COUNT.saturating_sub(TAKEN), "Left on the queue").await
}

async fn repeat(client: &Client, key: &Uuid, body: &Value, first: &Reply) -> Result<(), Failure> {
    say("\n3. Send the first request again, as a client does whose network failed");
    let reply = client.post("/messages/produce", Some(key), body).await?;
    let replayed = reply.header("idempotent-replay") == Some("true") && reply.status == 201;
    reply.expect("the stored 201 with Idempotent-Replay: true", replayed && reply.text == first.text)?;
    say(format_args!(
        "   {} in {} ms with Idempotent-Replay: true, the same answer byte for byte",
        reply.status, reply.milliseconds
    ));
    count(client, RABBITMQ, COUNT.saturating_sub(TAKEN), "Nothing was put twice, the queue still has").await
}

async fn misuse(client: &Client, key: &Uuid, mut body: Value) -> Result<(), Failure> {
    say("\n4. Use the same key for another request");
    if let Some(count) = body.pointer_mut("/batch/count") {
        *count = json!(5);
    }
    let reply = client.post("/messages/produce", Some(key), &body).await?;
    let reason = reply.body.get("reason").and_then(Value::as_str);
    let refused = reply.status == 409 && reason == Some("CONFLICTING_IDEMPOTENT_REQUEST");
    reply.expect("409 CONFLICTING_IDEMPOTENT_REQUEST", refused)?;
    say(format_args!("   409 CONFLICTING_IDEMPOTENT_REQUEST: {}", reply.show("detail")));
    Ok(())
}

async fn list_targets(client: &Client) -> Result<(), Failure> {
    let reply = client.get("/targets").await?;
    let targets = reply.body.get("targets").and_then(Value::as_array).into_iter().flatten();
    let names: Vec<_> = targets.filter_map(|target| target.get("name")?.as_str()).collect();
    reply.expect("200 with the stack's profile", reply.status == 200 && names.contains(&RABBITMQ))?;
    say(format_args!("   {}", names.join(", ")));
    Ok(())
}

async fn test_connection(client: &Client, profile: &str) -> Result<(), Failure> {
    let reply = client.post("/connections/test", None, &json!({"targetRef": profile})).await?;
    let works = reply.body.get("ok") == Some(&Value::Bool(true));
    reply.expect("200 with \"ok\":true", reply.status == 200 && works)?;
    let broker = |member| reply.body.pointer(member).and_then(Value::as_str).unwrap_or_default();
    say(format_args!("   {} {}: {}", broker("/broker/product"), broker("/broker/version"), steps(&reply)));
    Ok(())
}

/// Returns the steps of a connection test as text, with their durations or the reasons of their
/// failures.
pub(super) fn steps(reply: &Reply) -> String {
    let steps = reply.body.get("steps").and_then(Value::as_array).into_iter().flatten().map(|step| {
        let text = |member: &str| step.get(member).and_then(Value::as_str).unwrap_or_default();
        let name = text("name");
        match (step.get("durationMs").and_then(Value::as_f64), step.get("ok")) {
            (_, Some(Value::Bool(false))) => {
                format!("{name} failed with {}: {}", text("code"), text("detail"))
            }
            (Some(duration), _) => format!("{name} {duration:.1} ms"),
            (None, Some(_)) => name.to_owned(),
            (None, None) => format!("{name} skipped"),
        }
    });
    steps.collect::<Vec<_>>().join(", ")
}
