//! Measuring queues and testing connections.

use end_to_end::{Fact, Gateway, On, Site};
use serde_json::{Value, json};

end_to_end::on_both! {
    depth_counts_ready_messages,
    a_connection_test_goes_through_every_step,
    a_connection_test_says_which_step_failed,
    a_target_by_itself_is_the_whole_body,
}

fn step<'a>(report: &'a Value, name: &str) -> &'a Value {
    report["steps"].as_array().unwrap().iter().find(|step| step["name"] == name).unwrap()
}

async fn depth_counts_ready_messages(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let queue = site.queue_with(["one"]).await;
    let report = gateway.post("/queue/depth", &site.request(&queue, json!({}))).await.expect(200).json();
    assert_eq!((&report["currentDepth"], &report["queue"]), (&json!(1), &json!(queue.name)));
    assert_eq!((&report["openInputCount"], &report["target"]), (&json!(0), &json!(site.shown(&queue))));
    let whole = if on.has(Fact::WholeDepth) { (json!(5000), json!(0)) } else { (Value::Null, Value::Null) };
    assert_eq!((&report["maxDepth"], &report["openOutputCount"]), (&whole.0, &whole.1), "{report}");
    assert!(report["measuredAt"].as_str().unwrap().ends_with('Z'));
    site.delete(&queue).await;
}

async fn a_connection_test_goes_through_every_step(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let body = json!({"targetRef": site.profile()});
    let report = gateway.post("/connections/test", &body).await.expect(200).json();
    assert_eq!((&report["ok"], &report["broker"]["product"]), (&json!(true), &json!(site.product())));
    assert!(
        report["broker"]["version"].is_string() && report["latencyMs"].as_f64().unwrap() > 0.0,
        "{report}"
    );
    for name in ["resolve", "connect", "authenticate", "openQueue"] {
        assert_eq!(step(&report, name)["ok"], true, "{name}: {report}");
    }
    assert_eq!(step(&report, "tls")["skipped"], true);
}

async fn a_connection_test_says_which_step_failed(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let queue = site.queue().await;
    let with = |pointer: &str, value: &str| {
        let mut target = site.inline(&queue);
        *target.pointer_mut(pointer).unwrap() = json!(value);
        json!({ "target": target })
    };
    for (body, failing, code) in [
        (with("/connName", "127.0.0.1:1"), "connect", "BROKER_UNREACHABLE"),
        (with("/auth/passwordRef", "secret://local/wrong"), "authenticate", "AUTHENTICATION_FAILED"),
        (with("/auth/passwordRef", "secret://local/absent"), "authenticate", "SECRET_UNREADABLE"),
        (with("/queue", &site.missing_queue().name), "openQueue", "QUEUE_NOT_FOUND"),
    ] {
        let report = gateway.post("/connections/test", &body).await.expect(200).json();
        assert_eq!(report["ok"], false);
        let step = step(&report, failing);
        assert_eq!((&step["ok"], &step["code"]), (&json!(false), &json!(code)), "{report}");
        assert!(step["detail"].is_string(), "{report}");
    }
    site.delete(&queue).await;
}

async fn a_target_by_itself_is_the_whole_body(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let queue = site.queue().await;
    let mut body = site.inline(&queue);
    let report = gateway.post("/connections/test", &body).await.expect(200).json();
    assert_eq!(report["ok"], true, "{report}");
    let depth = gateway.post("/queue/depth", &body).await.expect(200).json();
    assert_eq!(depth["target"], site.shown(&queue));
    body.as_object_mut().unwrap().remove("connName");
    let problem = gateway.post("/queue/depth", &body).await.expect_problem(400, "SCHEMA_VIOLATION").json();
    assert_eq!(problem["errors"][0]["pointer"], "/connName");
    site.delete(&queue).await;
}
