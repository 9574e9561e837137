//! Tests that a caller reaches only targets that profiles and allow-lists permit.

use std::time::Duration;

use end_to_end::{Access, Answer, Gateway, On, QueueManager, Site, TENANT_A, operations, targeted};
use serde_json::{Value, json};
use uuid::Uuid;

end_to_end::on_both! {
    an_allowed_inline_target_works_like_a_profile,
    no_request_sends_secrets_to_another_host,
    a_secret_that_was_rotated_is_read_again_when_the_broker_refuses_it,
    a_password_without_a_user_is_told_of_whoever_names_it,
    a_profile_that_contradicts_itself_is_no_fault_of_the_request,
    no_spelling_of_an_address_leads_to_this_machine_unless_it_is_listed,
    a_tenant_s_own_list_allows_it_and_nobody_else,
    a_profile_may_take_nothing_but_a_queue_from_a_request,
}

async fn an_allowed_inline_target_works_like_a_profile(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let queue = site.queue().await;
    let mut target = site.inline(&queue);
    let (host, port) = target["connName"].as_str().unwrap().rsplit_once(':').unwrap();
    let names = [format!("{host}:{port}"), format!("{host}({port})"), format!("{host}:1,{host}:{port}")];
    for conn_name in names {
        target["connName"] = json!(conn_name);
        let answer = gateway.produce(Uuid::new_v4(), &json!({ "target": target })).await.expect(201).json();
        assert_eq!(answer["target"], site.shown(&queue));
    }
    assert_eq!(site.drain(&queue).await.len(), 3);
    site.delete(&queue).await;
}

async fn no_request_sends_secrets_to_another_host(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let queue = site.queue().await;
    let inline = |pointer: &str, value: &str| {
        let mut target = site.inline(&queue);
        *target.pointer_mut(pointer).unwrap() = json!(value);
        json!({ "target": target })
    };
    let profile = |target: Value| json!({"targetRef": site.profile(), "target": target});
    for (body, reason) in [
        (inline("/connName", "evil.example:5672"), "TARGET_NOT_ALLOWED"),
        (profile(json!({"connName": "evil.example:5672"})), "TARGET_NOT_ALLOWED"),
        (profile(json!({"connName": "127.0.0.1:1"})), "TARGET_NOT_ALLOWED"),
        (profile(json!({"auth": {"passwordRef": "secret://prod/broker"}})), "SECRET_NOT_ALLOWED"),
        (inline("/auth/passwordRef", "ssm://prod/broker"), "SECRET_NOT_ALLOWED"),
    ] {
        for operation in targeted() {
            gateway.operate(operation, &body).await.expect_problem(403, reason);
        }
    }
    site.delete(&queue).await;
}

async fn a_secret_that_was_rotated_is_read_again_when_the_broker_refuses_it(on: On) {
    let (gateway, access, site) = (Gateway::new(), Access::open().await, Site::start(on).await);
    let queue = site.queue().await;
    let sdk = runtime::Sdk::from_environment().await.single_attempt(Duration::from_secs(20));
    let secrets = aws_sdk_secretsmanager::Client::new(&sdk);
    for operation in operations() {
        let secret = format!("local/rotated-{}", Uuid::new_v4());
        secrets.create_secret().name(&secret).secret_string("not-yet").send().await.unwrap();
        let mut target = site.inline(&queue);
        target["auth"]["passwordRef"] = json!(format!("secret://{secret}"));
        let target_ref = access.profile_of(TENANT_A, &target).await;
        let body = json!({"targetRef": target_ref});
        let refused = gateway.post("/queue/depth", &body).await;
        refused.expect_problem(502, "AUTHENTICATION_FAILED");
        let put = secrets.put_secret_value().secret_id(&secret).secret_string(QueueManager::password());
        put.send().await.unwrap();
        let answer = gateway.operate(operation, &body).await;
        let answer = answer.expect(if operation == "/messages/produce" { 201 } else { 200 }).json();
        if operation == "/connections/test" {
            assert_eq!(answer["ok"], json!(true), "{answer}");
        }
    }
    site.delete(&queue).await;
}

/// Checks the response if a target has a secret with a password but no user: it points at the
/// missing user in the request, or names the profile that has none.
async fn a_password_without_a_user_is_told_of_whoever_names_it(on: On) {
    let (gateway, access, site) = (Gateway::new(), Access::open().await, Site::start(on).await);
    let queue = site.queue().await;
    let mut target = site.inline(&queue);
    target["auth"].as_object_mut().unwrap().remove("user");
    let pointer = |answer: Answer| answer.json()["errors"][0]["pointer"].clone();
    let wrapped = gateway.post("/queue/depth", &json!({ "target": target })).await;
    assert_eq!(pointer(wrapped.expect_problem(400, "SCHEMA_VIOLATION")), "/target/auth/user");
    let bare = gateway.post("/queue/depth", &target).await;
    assert_eq!(pointer(bare.expect_problem(400, "SCHEMA_VIOLATION")), "/auth/user");

    let name = access.profile_of(TENANT_A, &target).await;
    let body = json!({"targetRef": name});
    let answer = gateway.post("/queue/depth", &body).await.expect_problem(502, "AUTHENTICATION_FAILED");
    let detail = format!("neither the profile `{name}` nor its secret names a user");
    assert_eq!((&answer.json()["detail"], answer.json().get("errors")), (&json!(detail), None));
    let produced = gateway.produce(Uuid::new_v4(), &body).await;
    produced.expect_problem(502, "AUTHENTICATION_FAILED");
    let tested = gateway.post("/connections/test", &body).await.expect(200).json();
    assert_eq!((&tested["ok"], &tested["steps"][3]["code"]), (&json!(false), &json!("USER_REQUIRED")));
    site.delete(&queue).await;
}

/// Creates a tenant with these entries in its own allow-list. Returns its id, and a client whose
/// API key has all scopes for queues.
async fn tenant_with(entries: &[&str]) -> (String, Gateway) {
    let (access, tenant) = (Access::open().await, Uuid::new_v4().to_string());
    access.targets(&tenant, entries).await;
    let scopes = ["mq:read", "mq:write", "mq:admin"];
    let api_key = access.key(&tenant, &scopes, json!({})).await;
    (tenant, Gateway::new().with_key(&api_key))
}

/// Allow-list of tenants in these tests, by which they may name any host by any name, on either
/// broker.
const ANYWHERE: [&str; 2] = [
    "rabbitmq://**:*/*?tls=optional&secrets=secret://local/*",
    "ibmmq://**:*/*?channel=*&tls=optional&secrets=secret://mq/*",
];

/// Checks that a broad allow-list does not allow addresses of the function's own machine and its
/// surroundings, however they are written. The local stack's own list has 127.0.0.1 and localhost.
async fn no_spelling_of_an_address_leads_to_this_machine_unless_it_is_listed(on: On) {
    let (site, (tenant, gateway)) = (Site::start(on).await, tenant_with(&ANYWHERE).await);
    let queue = site.queue().await;
    let at = |host: &str| {
        let mut target = site.inline(&queue);
        target["connName"] = json!(target["connName"].as_str().unwrap().replace("127.0.0.1", host));
        json!({ "target": target })
    };
    for literal in
        ["127.0.0.2", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "[fd00:ec2::254]", "0.0.0.0"]
    {
        for operation in targeted() {
            let refused = gateway.operate(operation, &at(literal)).await;
            let detail = refused.expect_problem(403, "TARGET_NOT_ALLOWED").json()["detail"].clone();
            assert!(detail.as_str().unwrap().contains("loopback"), "{literal}: {detail}");
        }
    }
    for spelling in ["127.1", "2130706433", "0x7f.1", "0"] {
        for operation in operations() {
            let answer = gateway.operate(operation, &at(spelling)).await;
            if operation == "/connections/test" {
                let tested = answer.expect(200).json();
                let step = &tested["steps"][0];
                assert_eq!((&step["name"], &step["code"]), (&json!("resolve"), &json!("TARGET_NOT_ALLOWED")));
                assert_eq!(tested["steps"][1]["skipped"], true, "{spelling}: {tested}");
            } else {
                answer.expect_problem(403, "TARGET_NOT_ALLOWED");
            }
        }
    }
    // An operator may name this machine in a profile, as the local stack's do.
    let access = Access::open().await;
    let own = access.profile_of(&tenant, &at("127.1")["target"]).await;
    gateway.post("/queue/depth", &json!({"targetRef": own})).await.expect(200);
    site.delete(&queue).await;
}

async fn a_tenant_s_own_list_allows_it_and_nobody_else(on: On) {
    let site = Site::start(on).await;
    let queue = site.queue().await;
    let mut target = site.inline(&queue);
    let conn_name = target["connName"].as_str().unwrap().replace("127.0.0.1", "127.0.0.3");
    target["connName"] = json!(conn_name);
    let body = json!({ "target": target });
    let entry = match on {
        On::RabbitMq => format!("rabbitmq://{conn_name}/*?tls=optional&secrets=secret://local/*"),
        On::IbmMq => format!("ibmmq://{conn_name}/*?channel=DEV.*&tls=optional&secrets=secret://mq/*"),
    };
    let (_, allowed) = tenant_with(&[entry.as_str()]).await;
    let (_, malformed) = tenant_with(&[entry.as_str(), "rabbitmq://127.0.0.1"]).await;
    for operation in operations() {
        for stranger in [&Gateway::new(), &malformed] {
            stranger.operate(operation, &body).await.expect_problem(403, "TARGET_NOT_ALLOWED");
        }
    }
    // Nothing listens there, so this is the answer of a request that was allowed.
    let tested = allowed.post("/connections/test", &body).await.expect(200).json();
    assert_eq!(
        (&tested["steps"][0]["ok"], &tested["steps"][1]["ok"]),
        (&json!(true), &json!(false)),
        "{tested}"
    );
    site.delete(&queue).await;
}

async fn a_profile_may_take_nothing_but_a_queue_from_a_request(on: On) {
    let (gateway, access, site) = (Gateway::new(), Access::open().await, Site::start(on).await);
    let queue = site.queue().await;
    let target = site.inline(&queue);
    let members = json!({"queues": ["DEV.OWN.*"], "overrides": false});
    let fixed = access.profile_with(TENANT_A, &target, members).await;
    gateway.post("/queue/depth", &json!({"targetRef": fixed})).await.expect(200);
    // The deployment's list allows each of these beside any other profile.
    for changed in [
        json!({"queue": "DEV.OTHER"}),
        json!({"connName": target["connName"]}),
        json!({"auth": target["auth"]}),
        json!({"queueManager": target["queueManager"]}),
    ] {
        for operation in targeted() {
            let body = json!({"targetRef": fixed, "target": changed});
            gateway.operate(operation, &body).await.expect_problem(403, "TARGET_NOT_ALLOWED");
        }
    }
    site.delete(&queue).await;
}

async fn a_profile_that_contradicts_itself_is_no_fault_of_the_request(on: On) {
    let (gateway, access, site) = (Gateway::new(), Access::open().await, Site::start(on).await);
    let queue = site.queue().await;
    let mut target = site.inline(&queue);
    target["ccdtUrl"] = json!("file:///x");
    let name = access.profile_of(TENANT_A, &target).await;
    for operation in ["/queue/depth", "/tests"] {
        let answer = gateway.operate(operation, &json!({"targetRef": name})).await;
        let answer = answer.expect_problem(503, "STORE_UNAVAILABLE");
        assert_eq!(answer.json()["detail"], "the profile names both connName and ccdtUrl");
    }
    site.delete(&queue).await;
}
