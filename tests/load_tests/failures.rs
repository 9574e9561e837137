//! Tests of load tests that cannot begin or continue. Each report says why, and messages of others
//! stay on their queue.

use std::time::Duration;

use end_to_end::{Message, On};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use uuid::Uuid;

use super::{Stand, about, ended, failure};

end_to_end::on_both! {
    messages_of_others_stay_and_end_the_test,
    messages_of_others_are_taken_if_that_is_asked_for,
    a_target_that_cannot_be_used_ends_the_test,
}

async fn messages_of_others_stay_and_end_the_test(on: On) {
    let stand = Stand::start(on).await;
    let body = stand.body(json!({
        "producers": {"ratePerSec": 50, "messageSizeBytes": 100}, "consumers": {}, "durationSeconds": 600,
    }));
    stand.site.put(&stand.queue, ["there before"]).await;
    stand.site.ready_becomes(&stand.queue, 1).await;
    let reason = failure(&stand.tests.run(&body).await);
    assert!(reason.contains(&stand.queue.name) && reason.contains("1 message"), "{reason}");
    let kept = stand.site.drain(&stand.queue).await;
    assert_eq!(kept.iter().map(Message::text).collect::<Vec<_>>(), ["there before"]);

    // One that comes in between.
    let test_id = stand.tests.started(&body).await;
    let runs = |test: &Value| test["report"]["accounting"]["received"].as_u64() > Some(0);
    stand.tests.becomes(&test_id, runs).await;
    stand.site.put(&stand.queue, ["in between"]).await;
    let test = stand.tests.finished(&test_id).await;
    let reason = failure(&test);
    assert!(reason.contains(&stand.queue.name), "{reason}");
    let fates = ended(&test, "FAILED");
    assert!(fates.count("received") > 0 && fates.count("foreignTaken") == 0, "{test}");
    // RabbitMQ puts it back once it notices that the consumer is gone.
    for _ in 0..100 {
        if stand.site.ready(&stand.queue).await > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let left = stand.site.drain(&stand.queue).await;
    assert!(left.iter().any(|message| message.body == b"in between"), "{left:?}");
    stand.end().await;
}

async fn messages_of_others_are_taken_if_that_is_asked_for(on: On) {
    let stand = Stand::start(on).await;
    stand.site.put(&stand.queue, (0..30).map(|n| format!("message {n}"))).await;
    stand.site.ready_becomes(&stand.queue, 30).await;
    let body = stand.body(json!({
        "consumers": {"transaction": {"enabled": true, "txSize": 10}}, "foreign": "take",
        "durationSeconds": 50, "stopWhen": "empty",
    }));
    let test = stand.tests.run(&body).await;
    let fates = ended(&test, "COMPLETED");
    assert_eq!((fates.count("foreignTaken"), fates.count("due")), (30, 0), "{test}");
    assert_eq!(stand.site.ready(&stand.queue).await, 0);
    stand.end().await;
}

async fn a_target_that_cannot_be_used_ends_the_test(on: On) {
    let stand = Stand::start(on).await;
    let changed = |pointer: &str, value: &str| {
        let mut target = stand.site.inline(&stand.queue);
        *target.pointer_mut(pointer).unwrap() = json!(value);
        target
    };
    let missing = stand.site.missing_queue().name;
    let away = match on {
        On::RabbitMq => "127.0.0.1:1 refuses connections",
        On::IbmMq => "IBM MQ gave no connection",
    };
    for (target, said) in [
        (changed("/auth/passwordRef", "secret://local/wrong"), stand.site.product()),
        (changed("/auth/passwordRef", "secret://local/absent"), "secret://local/absent"),
        (changed("/queue", &missing), missing.as_str()),
        (changed("/connName", "127.0.0.1:1"), away),
    ] {
        let body = about(&target, json!({"producers": {"ratePerSec": 50}, "durationSeconds": 4}));
        let test = stand.tests.run(&body).await;
        let reason = failure(&test);
        assert!(reason.contains(said), "{said} is not in {reason}");
        assert!(test["report"]["summary"].as_str().unwrap().contains(&reason), "{test}");
        assert_eq!(ended(&test, "FAILED").count("sent"), 0, "{test}");
        assert_ne!(test["passed"], json!(true), "{test}");
    }
    assert_eq!(stand.site.ready(&stand.queue).await, 0);
    stand.end().await;
}

/// Checks that a tenant's unfinished tests together have no more workers than one test may have.
/// The broker of the first test accepts connections but never responds.
#[tokio::test]
async fn a_tenant_has_no_more_workers_than_one_test_may_have() {
    let stand = Stand::start(On::RabbitMq).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut target = stand.site.inline(&stand.queue);
    target["connName"] = json!(silent.local_addr().unwrap().to_string());
    let of = |target: &Value, count: u64| {
        about(target, json!({"producers": {"count": count, "ratePerSec": 1}, "durationSeconds": 4}))
    };
    let limit = limit(&stand).await;
    let test_id = stand.tests.started(&of(&target, limit)).await;
    let one = of(&stand.site.inline(&stand.queue), 1);
    let busy = stand.tests.start(Uuid::new_v4(), &one).await.expect_problem(429, "TENANT_RATE_LIMIT");
    assert!(busy.header("retry-after").is_some(), "{busy:?}");
    drop(silent);
    let test = stand.tests.finished(&test_id).await;
    failure(&test);
    // Its workers are free again.
    let begun = stand.tests.started(&one).await;
    stand.tests.end(&begun).await;
    stand.end().await;
}

/// Returns the maximum number of workers of a test, as the refusal of a larger test states it.
async fn limit(stand: &Stand) -> u64 {
    let body = stand.body(json!({"producers": {"count": 10_000}, "durationSeconds": 4}));
    let refused = stand.tests.start(Uuid::new_v4(), &body).await;
    let text = refused.expect_problem(422, "EXCEEDS_TEST_LIMIT").json().to_string();
    let (_, rest) = text.split_once("a test may have ").unwrap_or_else(|| panic!("{text}"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}
