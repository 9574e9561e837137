//! Measuring queues and testing connections.

use amqprs::BasicProperties;
use end_to_end::{Broker, Gateway, variable};
use serde_json::{Value, json};
use url::Url;

fn step<'a>(report: &'a Value, name: &str) -> &'a Value {
    report["steps"].as_array().unwrap().iter().find(|step| step["name"] == name).unwrap()
}

#[tokio::test]
async fn depth_counts_ready_messages() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    broker.publish(&queue, BasicProperties::default(), "one").await;
    let mut report = Value::Null;
    for _ in 0..100 {
        report = gateway.post("/queue/depth", &queue.target()).await.expect(200).json();
        if report["currentDepth"] == 1 {
            break;
        }
    }
    assert_eq!((&report["currentDepth"], &report["queue"]), (&json!(1), &json!(queue.name)));
    assert_eq!((&report["openInputCount"], &report["openOutputCount"]), (&json!(0), &Value::Null));
    assert_eq!((&report["maxDepth"], &report["target"]), (&Value::Null, &json!(format!("/:{}", queue.name))));
    assert!(report["measuredAt"].as_str().unwrap().ends_with('Z'));
    broker.delete(&queue).await;
}

#[tokio::test]
async fn a_connection_test_goes_through_every_step() {
    let gateway = Gateway::new();
    let report =
        gateway.post("/connections/test", &json!({"targetRef": "local-rabbit"})).await.expect(200).json();
    assert_eq!((&report["ok"], &report["broker"]["product"]), (&json!(true), &json!("RabbitMQ")));
    assert!(
        report["broker"]["version"].is_string() && report["latencyMs"].as_f64().unwrap() > 0.0,
        "{report}"
    );
    for name in ["resolve", "connect", "authenticate", "openQueue"] {
        assert_eq!(step(&report, name)["ok"], true, "{name}: {report}");
    }
    assert_eq!(step(&report, "tls")["skipped"], true);
}

#[tokio::test]
async fn a_connection_test_says_which_step_failed() {
    let gateway = Gateway::new();
    let rabbit = variable("RABBIT_CONN_NAME");
    let user = Url::parse(&variable("AMQP_URL")).unwrap().username().to_owned();
    let inline = |conn_name: &str, secret: &str, queue: &str| json!({"target": {"broker": "rabbitmq", "connName": conn_name, "queue": queue, "auth": {"user": user, "passwordRef": secret}}});
    for (body, failing, code) in [
        (inline("127.0.0.1:1", "secret://local/rabbit", "DEV.QUEUE.1"), "connect", "BROKER_UNREACHABLE"),
        (inline(&rabbit, "secret://local/wrong", "DEV.QUEUE.1"), "authenticate", "AUTHENTICATION_FAILED"),
        (inline(&rabbit, "secret://local/absent", "DEV.QUEUE.1"), "authenticate", "SECRET_UNREADABLE"),
        (inline(&rabbit, "secret://local/rabbit", "NO.SUCH.QUEUE"), "openQueue", "QUEUE_NOT_FOUND"),
    ] {
        let report = gateway.post("/connections/test", &body).await.expect(200).json();
        assert_eq!(report["ok"], false);
        let step = step(&report, failing);
        assert_eq!((&step["ok"], &step["code"]), (&json!(false), &json!(code)), "{report}");
        assert!(step["detail"].is_string(), "{report}");
    }
}

#[tokio::test]
async fn a_target_by_itself_is_the_whole_body() {
    let gateway = Gateway::new();
    let user = Url::parse(&variable("AMQP_URL")).unwrap().username().to_owned();
    let auth = json!({"user": user, "passwordRef": "secret://local/rabbit"});
    let conn_name = variable("RABBIT_CONN_NAME");
    let mut body = json!({
        "broker": "rabbitmq", "queueManager": "/", "queue": "DEV.QUEUE.1", "connName": conn_name, "auth": auth,
    });
    let report = gateway.post("/connections/test", &body).await.expect(200).json();
    assert_eq!(report["ok"], true, "{report}");
    let depth = gateway.post("/queue/depth", &body).await.expect(200).json();
    assert_eq!(depth["target"], "/:DEV.QUEUE.1");
    body.as_object_mut().unwrap().remove("connName");
    let problem = gateway.post("/queue/depth", &body).await.expect_problem(400, "SCHEMA_VIOLATION").json();
    assert_eq!(problem["errors"][0]["pointer"], "/connName");
}
