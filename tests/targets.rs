//! A caller reaches what profiles and the allow-list cover, and nothing else.

use end_to_end::{Broker, Gateway, variable};
use serde_json::json;
use url::Url;
use uuid::Uuid;

#[tokio::test]
async fn an_allowed_inline_target_works_like_a_profile() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    let user = Url::parse(&variable("AMQP_URL")).unwrap().username().to_owned();
    let (host, port) =
        variable("RABBIT_CONN_NAME").rsplit_once(':').map(|(h, p)| (h.to_owned(), p.to_owned())).unwrap();
    let target = |conn_name: String| {
        json!({"target": {"broker": "rabbitmq", "connName": conn_name, "queue": queue.name,
                          "auth": {"user": user, "passwordRef": "secret://local/rabbit"}}})
    };
    for conn_name in [format!("{host}:{port}"), format!("{host}({port})"), format!("{host}:1,{host}:{port}")]
    {
        let answer = gateway.produce(Uuid::new_v4(), &target(conn_name)).await.expect(201).json();
        assert_eq!(answer["target"], format!("/:{}", queue.name));
    }
    assert_eq!(broker.drain(&queue).await.len(), 3);
    broker.delete(&queue).await;
}

#[tokio::test]
async fn no_request_sends_secrets_to_another_host() {
    let gateway = Gateway::new();
    for (body, reason) in [
        (
            json!({"target": {"broker": "rabbitmq", "connName": "evil.example:5672", "queue": "Q"}}),
            "TARGET_NOT_ALLOWED",
        ),
        (
            json!({"targetRef": "local-rabbit", "target": {"connName": "evil.example:5672"}}),
            "TARGET_NOT_ALLOWED",
        ),
        (json!({"targetRef": "local-rabbit", "target": {"connName": "127.0.0.1:1"}}), "TARGET_NOT_ALLOWED"),
        (
            json!({"targetRef": "local-rabbit", "target": {"auth": {"passwordRef": "secret://prod/rabbit"}}}),
            "SECRET_NOT_ALLOWED",
        ),
        (
            json!({"target": {"broker": "rabbitmq", "connName": "127.0.0.1:5672", "queue": "Q",
                           "auth": {"user": "u", "passwordRef": "ssm://prod/rabbit"}}}),
            "SECRET_NOT_ALLOWED",
        ),
    ] {
        gateway.post("/queue/depth", &body).await.expect_problem(403, reason);
        gateway.post("/connections/test", &body).await.expect_problem(403, reason);
        gateway.produce(Uuid::new_v4(), &body).await.expect_problem(403, reason);
    }
}

#[tokio::test]
async fn ibm_mq_is_not_served_yet_and_says_so() {
    let gateway = Gateway::new();
    let body = json!({"target": {"queueManager": "QM1", "queue": "DEV.QUEUE.1", "channel": "DEV.APP.SVRCONN", "connName": "127.0.0.1(1414)"}});
    gateway.produce(Uuid::new_v4(), &body).await.expect_problem(422, "UNSUPPORTED_BY_BROKER");
    gateway.post("/queue/depth", &body).await.expect_problem(422, "UNSUPPORTED_BY_BROKER");
}
