//! Tests of load tests that run to their end, or are stopped before.

use end_to_end::{LoadTests, On, Queue, Site};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Stand, ended};
use crate::products::conforms;

end_to_end::on_both! {
    every_message_of_a_test_is_accounted_for,
    without_consumers_the_messages_stay_on_the_queue,
    a_stop_ends_a_test_with_a_report_of_what_was_done,
    queues_stages_and_a_backlog_go_together,
}

async fn every_message_of_a_test_is_accounted_for(on: On) {
    let stand = Stand::start(on).await;
    let body = stand.body(json!({
        "producers": {"count": 2, "ratePerSec": 100, "messageSizeBytes": 256},
        "consumers": {"count": 2}, "durationSeconds": 6, "warmUpSeconds": 1,
        "expect": {"throughputPerSec": 1, "endToEndLatencyUs": {"p99": 120_000_000}, "doubled": 1_000},
    }));
    let key = Uuid::new_v4();
    let started = stand.tests.start(key, &body).await.expect(202);
    let (test_id, status) = (LoadTests::id(&started), started.json()["status"].clone());
    let path = LoadTests::path(&test_id);
    assert_eq!((started.header("location"), status), (Some(path.as_str()), json!("PENDING")));
    assert!(started.json()["estimate"]["estimateUsd"].as_f64().unwrap() > 0.0, "{}", started.json());

    let again = stand.tests.start(key, &body).await.expect(202);
    assert_eq!((again.header("idempotent-replay"), &again.bytes), (Some("true"), &started.bytes));
    let mut other = body;
    other["durationSeconds"] = json!(7);
    stand.tests.start(key, &other).await.expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");

    let test = stand.tests.finished(&test_id).await;
    let fates = ended(&test, "COMPLETED");
    assert_eq!(fates.count("due"), 600, "{test}");
    fates.nothing_was_lost();
    let report = &test["report"];
    assert_eq!(
        (&report["target"], &report["failure"]),
        (&json!(stand.site.shown(&stand.queue)), &Value::Null)
    );
    assert_eq!((&report["rates"]["askedPerSec"], &report["setup"]["consumers"]), (&json!(100.0), &json!(2)));
    // The second of the warm-up is in the accounting, and not in the percentiles.
    let measured = report["endToEndLatencyUs"]["count"].as_u64().unwrap();
    assert!(0 < measured && measured <= 500, "{report}");
    let criteria = report["expect"]["criteria"].as_array().unwrap();
    assert!(criteria.len() == 3 && criteria.iter().all(|own| own["outcome"] == "met"), "{report}");
    let sum = |name: &str| -> u64 {
        report["series"][name].as_array().unwrap().iter().map(|point| point.as_u64().unwrap()).sum()
    };
    assert_eq!(sum("confirmed"), fates.count("confirmed"), "{report}");
    assert_eq!(stand.site.ready(&stand.queue).await, 0);

    page(&stand, &format!("{path}?format=html"), &test_id).await;
    compared(&stand, &path, &test_id).await;
    let shown = stand.gateway.get("/tests").await.expect(200).json();
    conforms("LoadTestList", &shown);
    let [listed] = shown["tests"].as_array().unwrap().as_slice() else { panic!("{shown}") };
    assert_eq!((&listed["testId"], &listed["status"]), (&json!(test_id), &json!("COMPLETED")));
    assert_eq!((&listed["summary"], &listed["passed"]), (&report["summary"], &test["passed"]), "{listed}");

    stand.tests.delete(&test_id).await.expect(204);
    stand.tests.get(&test_id).await.expect_problem(404, "TEST_NOT_FOUND");
    stand.tests.delete(&test_id).await.expect_problem(404, "TEST_NOT_FOUND");
    let none = stand.gateway.get("/tests").await.expect(200).json();
    assert_eq!(none["tests"], json!([]));
    stand.end().await;
}

/// Checks that the report as an HTML page is complete, has no script, and loads nothing from
/// elsewhere.
async fn page(stand: &Stand, path: &str, test_id: &str) {
    let page = stand.gateway.get(path).await.expect(200);
    assert!(page.header("content-type").is_some_and(|kind| kind.starts_with("text/html")), "{page:?}");
    let text = String::from_utf8(page.bytes).unwrap();
    assert!(text.starts_with("<!doctype html>") && text.trim_end().ends_with("</html>"), "{text}");
    assert!(text.contains(test_id) && text.contains("<svg"), "{text}");
    for foreign in ["<script", "http://", "https://", "<link", "<img", "@import"] {
        assert!(!text.contains(foreign), "{foreign} in {text}");
    }
}

/// Compares a load test with itself as the baseline, and checks that no value differs.
async fn compared(stand: &Stand, path: &str, test_id: &str) {
    let test = stand.gateway.get(&format!("{path}?baseline={test_id}")).await.expect(200).json();
    let comparison = &test["report"]["comparison"];
    assert_eq!(comparison["baselineId"], test_id, "{test}");
    let deltas = comparison["deltas"].as_array().unwrap();
    assert!(deltas.len() > 20 && deltas.iter().all(|delta| delta["change"] == "same"), "{comparison}");
    page(stand, &format!("{path}?format=html&baseline={test_id}"), test_id).await;
}

async fn without_consumers_the_messages_stay_on_the_queue(on: On) {
    let stand = Stand::start(on).await;
    let body = stand.body(json!({
        "producers": {
            "ratePerSec": 60, "payload": {"mode": "template", "template": "n={{seq}}"}, "headers": {"k": "v"},
            "mqProps": {"persistence": "nonpersistent"}, "transaction": {"enabled": true, "txSize": 10},
        },
        "messages": 120,
    }));
    let test = stand.tests.run(&body).await;
    let fates = ended(&test, "COMPLETED");
    assert_eq!((fates.count("due"), fates.count("received")), (120, 0), "{test}");
    assert_eq!(fates.count("retained"), fates.count("confirmed"), "{test}");
    let report = &test["report"];
    assert_eq!(
        (&report["setup"]["txSize"], &report["setup"]["persistence"]),
        (&json!(10), &json!("nonpersistent"))
    );
    assert_eq!((&report["endToEndLatencyUs"], &report["accounting"]["lost"]), (&Value::Null, &Value::Null));
    assert_eq!(report["putLatencyUs"]["count"].as_u64(), Some(fates.count("confirmed")));

    let messages = stand.site.drain(&stand.queue).await;
    assert_eq!(u64::try_from(messages.len()), Ok(fates.count("retained")), "{test}");
    let test_id = test["testId"].as_str().unwrap();
    for message in messages {
        let sequence = message.sequence().unwrap();
        assert_eq!((message.text(), message.is_persistent), (format!("n={sequence}").as_str(), false));
        assert_eq!(message.headers["k"], "v");
        let of_test = message.headers["testId"].as_str().unwrap();
        assert!(of_test.starts_with(test_id), "{message:?}");
    }
    stand.end().await;
}

async fn a_stop_ends_a_test_with_a_report_of_what_was_done(on: On) {
    let stand = Stand::start(on).await;
    let producers = json!({"ratePerSec": 50, "messageSizeBytes": 100});
    let body = stand.body(json!({"producers": producers, "consumers": {}, "durationSeconds": 600}));
    let test_id = stand.tests.started(&body).await;
    let runs = |test: &Value| test["report"]["accounting"]["received"].as_u64() > Some(50);
    let running = stand.tests.becomes(&test_id, runs).await;
    assert_eq!((&running["status"], &running["report"]["status"]), (&json!("RUNNING"), &json!("RUNNING")));
    conforms("LoadTest", &running);
    page(&stand, &format!("/tests/{test_id}?format=html"), &test_id).await;
    stand.tests.delete(&test_id).await.expect_problem(409, "TEST_NOT_FINAL");

    let key = Uuid::new_v4();
    let stopped = stand.tests.stop(&test_id, key).await.expect(202);
    assert_eq!(stopped.json()["status"], "STOPPING");
    let again = stand.tests.stop(&test_id, key).await.expect(202);
    assert_eq!((again.header("idempotent-replay"), again.json()), (Some("true"), stopped.json()));
    stand.tests.stop(&test_id, Uuid::new_v4()).await.expect(202);

    let test = stand.tests.finished(&test_id).await;
    let fates = ended(&test, "STOPPED");
    fates.nothing_was_lost();
    assert!(fates.count("received") > 50 && fates.count("due") < 600 * 50, "{test}");
    assert!(test["report"]["summary"].as_str().unwrap().starts_with("The test was stopped"), "{test}");
    let late = stand.tests.stop(&test_id, Uuid::new_v4()).await.expect(202);
    assert_eq!(late.json()["status"], "STOPPED");
    // What was sent and not received is still there.
    let left = u64::try_from(stand.site.ready(&stand.queue).await).unwrap();
    assert!(
        left <= fates.count("retained") + fates.count("inDoubt") + fates.count("unrecorded"),
        "{left}: {test}"
    );
    stand.end().await;
}

/// Checks that a load test which is stopped before its start time is over at once. Its workers
/// begin later, and have nothing to do.
#[tokio::test]
async fn a_test_that_is_stopped_before_its_start_is_over_before_its_workers_come() {
    let stand = Stand::start(On::RabbitMq).await;
    let producers = json!({"ratePerSec": 50, "messageSizeBytes": 100});
    let body = stand.body(json!({"producers": producers, "consumers": {}, "durationSeconds": 600}));
    let test_id = stand.tests.started(&body).await;
    stand.tests.stop(&test_id, Uuid::new_v4()).await.expect(202);
    let test = stand.tests.finished(&test_id).await;
    let fates = ended(&test, "STOPPED");
    assert_eq!((fates.count("due"), fates.count("sent")), (0, 0), "{test}");
    stand.tests.delete(&test_id).await.expect(204);
    assert_eq!(stand.site.ready(&stand.queue).await, 0);
    stand.end().await;
}

/// Returns a pattern of queue names with a number, and two queues whose names match it.
async fn numbered(stand: &Stand) -> (String, [Queue; 2]) {
    match &stand.site {
        Site::RabbitMq(broker) => {
            let queues = ["1", "2"].map(|number| Queue { name: format!("{}-{number}", stand.queue.name) });
            for queue in &queues {
                broker.declare(&queue.name, &[]).await;
            }
            (format!("{}-%d", stand.queue.name), queues)
        }
        Site::IbmMq(..) => ("DEV.QUEUE.%d".to_owned(), [stand.queue.clone(), stand.site.queue().await]),
    }
}

async fn queues_stages_and_a_backlog_go_together(on: On) {
    let stand = Stand::start(on).await;
    let (pattern, queues) = numbered(&stand).await;
    let stages =
        [(50, 2), (0, 1), (100, 1)].map(|(rate, seconds)| json!({"ratePerSec": rate, "seconds": seconds}));
    let body = stand.body(json!({
        "queues": {"pattern": pattern, "from": 1, "to": 2},
        "producers": {"count": 2, "confirmsInFlight": 10}, "consumers": {"count": 2, "ackEvery": 5, "prefetch": 20},
        "stages": stages, "backlog": {"messages": 20},
    }));
    let test = stand.tests.run(&body).await;
    let fates = ended(&test, "COMPLETED");
    assert_eq!(fates.count("due"), 200, "{test}");
    fates.nothing_was_lost();
    assert_eq!(test["report"]["setup"]["confirmsInFlight"], 10);
    for queue in &queues {
        assert_eq!(stand.site.ready(queue).await, 0, "{test}");
        stand.site.delete(queue).await;
    }
    if matches!(stand.site, Site::RabbitMq(_)) {
        stand.end().await;
    }
}
