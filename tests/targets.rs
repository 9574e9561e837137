//! A caller reaches what profiles and the allow-list cover, and nothing else.

use end_to_end::{Access, Answer, Broker, Gateway, TENANT_A, variable};
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

/// The secret holds a password and no user.
#[tokio::test]
async fn a_password_without_a_user_is_told_of_whoever_names_it() {
    let (gateway, access) = (Gateway::new(), Access::open().await);
    let target = json!({"broker": "rabbitmq", "connName": variable("RABBIT_CONN_NAME"), "queue": "Q",
                        "auth": {"passwordRef": "secret://local/rabbit"}});
    let pointer = |answer: Answer| answer.json()["errors"][0]["pointer"].clone();
    let wrapped = gateway.post("/queue/depth", &json!({ "target": target })).await;
    assert_eq!(pointer(wrapped.expect_problem(400, "SCHEMA_VIOLATION")), "/target/auth/user");
    let bare = gateway.post("/queue/depth", &target).await;
    assert_eq!(pointer(bare.expect_problem(400, "SCHEMA_VIOLATION")), "/auth/user");

    let name = access.profile_of(TENANT_A, &target).await;
    let body = json!({"targetRef": name});
    let answer = gateway.post("/queue/depth", &body).await.expect_problem(502, "AUTHENTICATION_FAILED");
    let detail = format!("neither the profile {name} nor its secret names a user");
    assert_eq!((&answer.json()["detail"], answer.json().get("errors")), (&json!(detail), None));
    let produced = gateway.produce(Uuid::new_v4(), &body).await;
    produced.expect_problem(502, "AUTHENTICATION_FAILED");
    let tested = gateway.post("/connections/test", &body).await.expect(200).json();
    assert_eq!((&tested["ok"], &tested["steps"][3]["code"]), (&json!(false), &json!("USER_REQUIRED")));
}

#[tokio::test]
async fn a_profile_that_contradicts_itself_is_no_fault_of_the_request() {
    let (gateway, access) = (Gateway::new(), Access::open().await);
    let target = json!({"broker": "rabbitmq", "connName": "h:1", "ccdtUrl": "file:///x", "queue": "Q"});
    let name = access.profile_of(TENANT_A, &target).await;
    let answer = gateway.post("/queue/depth", &json!({"targetRef": name})).await;
    let answer = answer.expect_problem(503, "STORE_UNAVAILABLE");
    assert_eq!(answer.json()["detail"], "the profile names both connName and ccdtUrl");
}

#[tokio::test]
async fn ibm_mq_is_not_served_yet_and_says_so() {
    let gateway = Gateway::new();
    let body = json!({"target": {"queueManager": "QM1", "queue": "DEV.QUEUE.1", "channel": "DEV.APP.SVRCONN", "connName": "127.0.0.1(1414)"}});
    gateway.produce(Uuid::new_v4(), &body).await.expect_problem(422, "UNSUPPORTED_BY_BROKER");
    gateway.post("/queue/depth", &body).await.expect_problem(422, "UNSUPPORTED_BY_BROKER");
}
