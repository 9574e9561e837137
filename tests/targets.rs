//! A caller reaches what profiles and the allow-list cover, and nothing else.

use std::time::Duration;

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

#[tokio::test]
async fn a_secret_that_was_rotated_is_read_again_when_the_broker_refuses_it() {
    let (gateway, access, broker) = (Gateway::new(), Access::open().await, Broker::connect().await);
    let queue = broker.queue().await;
    let amqp = Url::parse(&variable("AMQP_URL")).unwrap();
    let sdk = aws::Sdk::from_environment().await.single_attempt(Duration::from_secs(20));
    let secrets = aws_sdk_secretsmanager::Client::new(&sdk);
    let operations =
        ["/connections/test", "/queue/depth", "/messages/produce", "/messages/consume", "/messages/move"];
    for operation in operations {
        let secret = format!("local/rotated-{}", Uuid::new_v4());
        secrets.create_secret().name(&secret).secret_string("not-yet").send().await.unwrap();
        let auth = json!({"user": amqp.username(), "passwordRef": format!("secret://{secret}")});
        let target = json!({"broker": "rabbitmq", "connName": variable("RABBIT_CONN_NAME"), "queue": queue.name,
                            "auth": auth});
        let target_ref = access.profile_of(TENANT_A, &target).await;
        let body = json!({"targetRef": target_ref});
        let refused = gateway.post("/queue/depth", &body).await;
        refused.expect_problem(502, "AUTHENTICATION_FAILED");
        let password = amqp.password().unwrap();
        secrets.put_secret_value().secret_id(&secret).secret_string(password).send().await.unwrap();
        let answer = match operation {
            "/queue/depth" | "/connections/test" => gateway.post(operation, &body).await,
            "/messages/move" => {
                let moving = json!({"from": body, "to": "origin", "max": 1});
                gateway.post_once(operation, Uuid::new_v4(), &moving).await
            }
            operation => gateway.post_once(operation, Uuid::new_v4(), &body).await,
        };
        let answer = answer.expect(if operation == "/messages/produce" { 201 } else { 200 }).json();
        if operation == "/connections/test" {
            assert_eq!(answer["ok"], json!(true), "{answer}");
        }
    }
    broker.delete(&queue).await;
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
