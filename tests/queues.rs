//! Tests of the depth of queues and of connection tests.

use end_to_end::{Fact, Gateway, On, Site};
use serde_json::{Value, json};

end_to_end::on_both! {
    depth_counts_ready_messages,
    a_hundred_queues_are_measured_by_one_request,
    no_queue_is_measured_unless_all_of_them_are_allowed,
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

async fn a_hundred_queues_are_measured_by_one_request(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let (two, empty) = (site.queue_with(["one", "two"]).await, site.queue().await);
    let mut names = vec![two.name.clone(), empty.name.clone()];
    names.extend((0..98).map(|_| site.missing_queue().name));
    let mut body = json!({"target": site.inline(&two), "queues": names});
    let report = gateway.post("/queue/depth", &body).await.expect(200).json();
    assert_eq!(report["target"], site.inline(&two)["queueManager"]);
    let queues = report["queues"].as_array().unwrap();
    let shown: Vec<_> = queues.iter().map(|queue| queue["queue"].as_str().unwrap()).collect();
    assert_eq!(shown, names);
    assert_eq!((&queues[0]["currentDepth"], &queues[1]["currentDepth"]), (&json!(2), &json!(0)), "{report}");
    assert!(queues[0]["measuredAt"].is_string() && queues[0].get("error").is_none(), "{report}");
    for queue in &queues[2..] {
        let error = &queue["error"];
        assert_eq!(
            (&error["reason"], queue.get("currentDepth")),
            (&json!("QUEUE_NOT_FOUND"), None),
            "{queue}"
        );
        assert_eq!(error["broker"]["product"], site.product());
        assert!(error["detail"].as_str().unwrap().contains("check the name"), "{error}");
    }
    body["queues"].as_array_mut().unwrap().push(json!("ONE.MORE"));
    let refused = gateway.post("/queue/depth", &body).await.expect_problem(400, "SCHEMA_VIOLATION");
    assert_eq!(refused.json()["errors"][0]["pointer"], "/queues");
    for queue in [&two, &empty] {
        site.delete(queue).await;
    }
}

async fn no_queue_is_measured_unless_all_of_them_are_allowed(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let (mine, other) = (site.queue().await, site.queue().await);
    let profile = site.limited_profile(&mine).await;
    let depths = async |names: &[&str]| {
        gateway.post("/queue/depth", &json!({"targetRef": profile, "queues": names})).await
    };
    depths(&[&mine.name]).await.expect(200);
    let refused = depths(&[&mine.name, &other.name]).await.expect_problem(403, "TARGET_NOT_ALLOWED").json();
    assert!(refused["detail"].as_str().unwrap().contains(&other.name), "{refused}");
    // The place itself is at fault, and no single queue.
    let mut away = site.inline(&mine);
    away["connName"] = json!("127.0.0.1:1");
    let body = json!({"target": away, "queues": [mine.name, other.name]});
    gateway.post("/queue/depth", &body).await.expect_problem(503, "BROKER_UNREACHABLE");
    for queue in [&mine, &other] {
        site.delete(queue).await;
    }
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
