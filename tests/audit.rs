//! Tests of the audit log: it has an event of each request of a caller, also of a refused one.

use std::time::{Duration, Instant};

use end_to_end::{Access, CommandLine, Gateway, On, Site, TENANT_A};
use serde_json::{Value, json};
use uuid::Uuid;

/// Maximum time until an event is in the audit log, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until the audit log has `number` events that match the command-line option `condition`,
/// such as `--tag` with its value. Returns them, or what there is after [`PATIENCE`].
async fn events(condition: [&str; 2], number: usize) -> Vec<Value> {
    let program = CommandLine::new();
    let end = Instant::now() + PATIENCE;
    loop {
        let arguments = [&["audit", "--since", "5m", "-o", "json"][..], &condition].concat();
        let events = program.run(&arguments).json()["events"].as_array().unwrap().clone();
        if events.len() >= number || Instant::now() > end {
            return events;
        }
        // The local stack delivers audit events every ten seconds.
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
}

/// Returns the first of the events with this value in this field. Panics if there is none.
fn one<'a>(events: &'a [Value], field: &str, value: &str) -> &'a Value {
    events.iter().find(|event| event[field] == value).unwrap_or_else(|| panic!("{value} of {events:?}"))
}

#[tokio::test]
async fn the_trace_context_of_a_request_is_on_its_messages() {
    let (gateway, site, key) = (Gateway::new(), Site::start(On::RabbitMq).await, Uuid::new_v4().to_string());
    let queue = site.queue().await;
    let body = site.request(&queue, json!({"batch": {"count": 1}}));
    let context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let headers = [("idempotency-key", key.as_str()), ("traceparent", context)];
    let answer = gateway.post_with("/messages/produce", &headers, &body).await.expect(201);
    assert_eq!(answer.header("x-trace-id"), Some(context));
    let messages = site.drain(&queue).await;
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].headers["traceparent"], context);
}

#[tokio::test]
async fn a_request_and_its_replay_are_in_the_audit_log_with_caller_target_and_tags() {
    let (gateway, site, key) = (Gateway::new(), Site::start(On::RabbitMq).await, Uuid::new_v4());
    let queue = site.queue().await;
    let tag = format!("tag-{key}");
    let body = site.request(&queue, json!({"batch": {"count": 1}, "tags": ["nightly", tag]}));
    let trace_id = format!("trace-{key}");
    let send = async || {
        let (key, trace_id) = (key.to_string(), trace_id.as_str());
        let headers = [("idempotency-key", key.as_str()), ("x-trace-id", trace_id)];
        gateway.post_with("/messages/produce", &headers, &body).await.expect(201)
    };
    send().await;
    send().await;

    let events = events(["--tag", &tag], 2).await;
    assert_eq!(events.len(), 2, "{events:?}");
    for (outcome, replay) in [("done", false), ("replayed", true)] {
        let event = one(&events, "outcome", outcome);
        assert_eq!((&event["tenant"], &event["trace_id"]), (&json!(TENANT_A), &json!(trace_id)));
        assert_eq!(event["operation"], "POST /messages/produce");
        assert_eq!((&event["queue"], &event["mq_target"]), (&json!(queue.name), &json!(site.shown(&queue))));
        assert_eq!(
            (&event["outcome"], &event["replay"], &event["status"]),
            (&json!(outcome), &json!(replay), &json!(201))
        );
        assert_eq!(event["tags"], format!("nightly,{tag}"));
        assert!(event["key_name"].is_string() && event["event_id"].is_string(), "{event}");
    }

    // The message says where it comes from.
    let messages = site.drain(&queue).await;
    assert_eq!(messages.len(), 1);
    let headers = &messages[0].headers;
    assert_eq!(headers["tags"], format!("nightly,{tag}"));
    let origin = ["traceId", "tenant", "target"].map(|name| headers[name].clone());
    assert_eq!(origin, [json!(trace_id), json!(TENANT_A), json!(site.shown(&queue))]);

    let target = site.shown(&queue);
    let listed = CommandLine::new().run(&["requests", "--target", &target, "-o", "json"]).json();
    let requests = listed["requests"].as_array().unwrap();
    assert_eq!(requests.len(), 1, "{listed}");
    assert_eq!(
        (&requests[0]["operation"], &requests[0]["key"]),
        (&json!("PRODUCE"), &json!(key.to_string()))
    );
    let other = CommandLine::new().run(&[
        "requests",
        "--target",
        &target,
        "--tenant",
        &Uuid::new_v4().to_string(),
        "-o",
        "json",
    ]);
    assert_eq!(other.json()["requests"], json!([]));
    site.delete(&queue).await;
}

#[tokio::test]
async fn what_was_refused_is_in_the_audit_log_with_the_target_as_asked_for() {
    let access = Access::open().await;
    let name = format!("prober {}", Uuid::new_v4());
    let api_key = access.key(TENANT_A, &["mq:read"], json!({"name": name})).await;
    let gateway = Gateway::new().with_key(&api_key);
    let target = json!({
        "broker": "rabbitmq", "queueManager": "/", "queue": "PAYROLL", "connName": "mq.bank.example:5671",
        "auth": {"user": "somebody", "passwordRef": "secret://theirs"},
    });
    gateway.post("/queue/depth", &json!({"target": target})).await.expect_problem(403, "TARGET_NOT_ALLOWED");
    gateway.post_once("/messages/produce", Uuid::new_v4(), &json!({"target": target})).await.expect(403);

    let events = events(["--key", &name], 2).await;
    assert_eq!(events.len(), 2, "{events:?}");
    let depth = one(&events, "operation", "POST /queue/depth");
    assert_eq!(depth["outcome"], "refused");
    assert_eq!((&depth["status"], &depth["reason"]), (&json!(403), &json!("TARGET_NOT_ALLOWED")));
    assert_eq!((&depth["queue"], &depth["mq_target"]), (&json!("PAYROLL"), &json!("/:PAYROLL")));
    assert_eq!(depth["conn_name"], "mq.bank.example:5671");
    // The key lacks the scope, so nothing of the body was read.
    let produce = one(&events, "operation", "POST /messages/produce");
    assert_eq!((&produce["reason"], &produce["queue"]), (&json!("SCOPE_REQUIRED"), &Value::Null));
    let all = json!(events).to_string();
    assert!(!all.contains("somebody") && !all.contains("theirs") && !all.contains(&api_key), "{all}");
}
