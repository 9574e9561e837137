//! Tests of the command `integrahub doctor`: it reports what works on the stack, and names what
//! does not.

use end_to_end::{CommandLine, Ran, TENANT_A, variable};
use serde_json::{Value, json};
use uuid::Uuid;

/// Returns the checks in the report of `integrahub doctor`. Verifies that the exit code says
/// whether any check failed, since other tests may raise alarms meanwhile.
fn checks(ran: &Ran) -> Vec<Value> {
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["schema"], "integrahub.doctor.v1");
    let failed = report["counts"]["fail"].as_u64().unwrap();
    assert_eq!(ran.code, if failed > 0 { 10 } else { 0 }, "{report:#}");
    let checks = report["checks"].as_array().unwrap().clone();
    for check in &checks {
        assert!(check["status"] != "fail" || check["fix"].is_string(), "{check}");
    }
    checks
}

/// Returns the statuses of the report's checks with this id.
fn statuses<'a>(checks: &'a [Value], id: &str) -> Vec<&'a Value> {
    checks.iter().filter(|check| check["id"] == id).map(|check| &check["status"]).collect()
}

#[tokio::test]
async fn what_works_is_found_to_work() {
    let program = CommandLine::new();
    let ran = program.run(&["doctor", "--tenant", TENANT_A, "--target", "local-rabbit", "-o", "json"]);
    let checks = checks(&ran);
    for id in ["stack.version", "secrets.profiles", "database.answers", "broker.profile"] {
        assert_eq!(statuses(&checks, id), [&json!("ok")], "{id}: {checks:#?}");
    }
    let ready = statuses(&checks, "stack.ready");
    assert!(ready.len() >= 4 && ready.iter().all(|status| *status == "ok"), "{checks:#?}");
}

#[tokio::test]
async fn a_profile_with_a_wrong_secret_fails_and_says_what_to_do() {
    let program = CommandLine::new();
    let tenant = program.run(&["tenant", "create", &format!("test {}", Uuid::new_v4())]).done();
    let (tenant, conn_name) = (tenant.trim(), variable("RABBIT_CONN_NAME"));
    let create = ["profile", "create", "orders", "--tenant", tenant, "--broker", "rabbitmq"];
    let target = ["--conn-name", &conn_name, "--queue", "DEV.QUEUE.1", "--user", "app"];
    let secret = ["--password-ref", "secret://local/no-such-secret"];
    program.run(&[&create[..], &target[..], &secret[..]].concat()).done();

    let ran = program.run(&["doctor", "--tenant", tenant, "-o", "json"]).expect(10);
    let checks = checks(&ran);
    let broker = checks.iter().find(|check| check["id"] == "broker.profile").unwrap();
    assert_eq!(broker["status"], "fail");
    assert!(broker["detail"].as_str().unwrap().starts_with("authenticate: SECRET_UNREADABLE"), "{broker}");
    assert!(broker["fix"].as_str().unwrap().contains("passwordRef"), "{broker}");
    assert_eq!(statuses(&checks, "secrets.profiles"), [&json!("fail")]);
    program.run(&["tenant", "remove", tenant, "--cascade", "--yes"]).done();
}

#[tokio::test]
async fn the_next_deployment_is_looked_at_by_its_parameters() {
    let program = CommandLine::new();
    let settings = "[default.global.parameters]\nstack_name = \"integrahub-next\"\n\
                    parameter_overrides = [\"MqAccessReservedConcurrency=1000000\"]\n";
    std::fs::write(program.directory().join("samconfig.toml"), settings).unwrap();
    let ran = program.run(&["doctor", "--before", "-o", "json"]);
    let checks = checks(&ran);
    assert_eq!(statuses(&checks, "network.subnets"), [&json!("ok")], "{checks:#?}");
    assert!(statuses(&checks, "broker.profile").is_empty(), "no function is asked");
    let unnamed = program.run(&["doctor", "--before", "--config-env", "production"]).expect(2);
    assert!(unnamed.stderr.contains("no environment `production`"), "{}", unnamed.stderr);
}
