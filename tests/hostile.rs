//! Test of a tenant that names its own listener as a broker, to receive secrets of other tenants.

use std::io::ErrorKind;
use std::net::TcpListener;

use end_to_end::{Access, Gateway, QueueManager, TENANT_A, targeted, variable};
use serde_json::{Value, json};
use uuid::Uuid;

/// Loopback address of the tenant's listener, which is not in the local stack's own allow-list.
const ITS_HOST: &str = "127.0.0.4";

#[tokio::test]
async fn a_tenant_s_own_listener_gets_no_secret_of_others() {
    let listener = TcpListener::bind((ITS_HOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let conn_name = listener.local_addr().unwrap().to_string();
    let (access, tenant) = (Access::open().await, Uuid::new_v4().to_string());
    access.targets(&tenant, &[format!("rabbitmq://{conn_name}/*?tls=optional").as_str()]).await;
    let api_key = access.key(&tenant, &["mq:read", "mq:write", "mq:admin"], json!({})).await;
    let gateway = Gateway::new().with_key(&api_key);
    let at = |conn_name: &str, secret: &str| {
        json!({
            "broker": "rabbitmq", "queueManager": "/", "queue": "Q", "connName": conn_name,
            "auth": {"user": "app", "passwordRef": secret},
        })
    };
    // What an operator wrote, for this tenant and for another one.
    let brokers = at(&variable("RABBIT_CONN_NAME"), "secret://mq/app");
    let its_profile = access.profile_of(&tenant, &brokers).await;
    let their_profile = access.profile_of(TENANT_A, &brokers).await;
    let elsewhere = |profile: &str| json!({"targetRef": profile, "target": {"connName": conn_name}});
    let inline = |secret: &str| json!({"target": at(&conn_name, secret)});
    let attempts: [(Value, u16, &str); 5] = [
        (inline("secret://mq/app"), 403, "SECRET_NOT_ALLOWED"),
        (inline("secret://local/rabbit"), 403, "SECRET_NOT_ALLOWED"),
        (elsewhere(&its_profile), 403, "TARGET_NOT_ALLOWED"),
        (elsewhere(&their_profile), 404, "TARGET_REF_NOT_FOUND"),
        (json!({"targetRef": their_profile}), 404, "TARGET_REF_NOT_FOUND"),
    ];
    for (body, status, reason) in &attempts {
        for operation in targeted() {
            let answer = gateway.operate(operation, body).await.expect_problem(*status, reason);
            let text = String::from_utf8_lossy(&answer.bytes);
            assert!(!text.contains(&QueueManager::password()), "{operation} {body}");
        }
    }
    let accepted = listener.accept();
    assert!(
        matches!(&accepted, Err(error) if error.kind() == ErrorKind::WouldBlock),
        "the listener was called: {accepted:?}"
    );
}
