//! Tests of the commands `export` and `apply`, which write and read a tenant's access as a file.

use std::os::unix::fs::PermissionsExt as _;

use end_to_end::CommandLine;
use serde_json::{Value, json};

use super::{Tenant, status};

#[tokio::test]
async fn a_file_says_what_a_tenant_has() {
    let tenant = Tenant::create();
    let path = tenant.program.directory().join("access.yaml");
    let export = || tenant.run(&["export"]).done();
    let apply = |text: &str, options: &[&str]| {
        std::fs::write(&path, text).unwrap();
        tenant.program.run(&[&["apply", "-f", "access.yaml"][..], options].concat())
    };
    let before = export();
    assert!(apply(&before, &["--yes"]).expect(0).stderr.contains("nothing to change"));
    let text = before
        .replace("keys: []", "keys: [{name: reader, scopes: ['ops:read']}]")
        .replace("targets: []", "targets: ['rabbitmq://mq.example.com:5671/ORDERS.*']");
    assert_ne!(text, before);
    let planned = apply(&text, &["--dry-run"]).done();
    assert!(planned.contains(&format!("+ key `reader` of {}", tenant.id)), "{planned}");
    assert!(planned.contains("+ rabbitmq://mq.example.com:5671/ORDERS.*"), "{planned}");
    assert_eq!(export(), before, "a dry run changes nothing");
    apply(&text, &[]).expect(2);
    assert_eq!(export(), before, "nobody confirmed it");
    let made = apply(&text, &["--yes", "--keys", "new.ndjson"]).expect(0);
    assert!(made.stdout.is_empty() && !made.stderr.contains("ihub_"), "{made:?}");
    let keys = tenant.program.directory().join("new.ndjson");
    assert_eq!(keys.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let key: Value = serde_json::from_str(&std::fs::read_to_string(&keys).unwrap()).unwrap();
    assert_eq!(status(key["key"].as_str().unwrap()).await, 200);
    let after = export();
    assert!(after.contains("name: reader") && !after.contains("ihub_"), "{after}");
    assert!(apply(&after, &["--yes", "--prune"]).expect(0).stderr.contains("nothing to change"));
    // What only the table has stays, until it is asked for.
    assert!(apply(&before, &["--yes"]).expect(0).stderr.contains("nothing to change"));
    let pruned = apply(&before, &["--dry-run", "--prune"]).done();
    assert_eq!(pruned.lines().filter(|line| line.starts_with("- ")).count(), 2, "{pruned}");
    apply(&before, &["--yes", "--prune"]).done();
    assert_eq!(export(), before);
}

#[tokio::test]
async fn limits_are_set_shown_and_kept_in_a_file() {
    let tenant = Tenant::create();
    let set = |options: &[&str]| tenant.run(&[&["limit", "set"][..], options].concat());
    let planned = set(&["--requests", "100/200", "--dry-run"]).done();
    assert_eq!(planned, format!("+ limits of {}\n    + requests: 100/200\n", tenant.id));
    assert_eq!(tenant.run(&["limit", "list"]).done(), "");
    set(&["--requests", "100/200"]).done();
    let warned = set(&["--target", "orders", "--messages", "500"]).expect(0);
    assert!(warned.stderr.contains("has no profile `orders`"), "{}", warned.stderr);
    let shown = tenant.run(&["limit", "show", "-o", "json"]).json();
    let expected = json!({"requests": {"perSecond": 100.0, "burst": 200},
        "targets": {"orders": {"messages": {"perSecond": 500.0, "burst": 500}}}});
    assert_eq!((&shown["schema"], &shown["limits"]), (&json!("integrahub.limit.v1"), &expected));
    assert!(set(&["--requests", "5/0"]).expect(2).stderr.contains("`5/0` is no limit"));
    // The API says it too, to any key of the tenant.
    let key = tenant.key("reader", "mq:read");
    let mine = CommandLine::new().key(&key).run(&["limit", "show", "--mine", "-o", "json"]).json();
    assert!(mine["limits"].as_array().unwrap().iter().any(|limit| limit["burst"] == 200), "{mine}");
    // A file has them, brings them back, and takes them away.
    let path = tenant.program.directory().join("access.yaml");
    let kept = tenant.run(&["export"]).done();
    std::fs::write(&path, &kept).unwrap();
    let apply = |options: &[&str]| {
        tenant.program.run(&[&["apply", "-f", "access.yaml", "--yes"][..], options].concat()).expect(0)
    };
    assert!(apply(&["--prune"]).stderr.contains("nothing to change"), "{kept}");
    let id = tenant.id.as_str();
    tenant.run(&["limit", "remove", "--all", "--yes"]).done();
    let refused = tenant.program.run(&["limit", "remove", "--tenant", id]).expect(6);
    assert!(refused.stderr.contains("has no limit of its own"), "{}", refused.stderr);
    apply(&[]);
    assert_eq!(tenant.run(&["limit", "show", "-o", "json"]).json()["limits"], expected);
    std::fs::write(&path, format!("version: 1\ntenants: {{{id}: {{limits: {{}}}}}}\n")).unwrap();
    assert!(apply(&[]).stderr.contains("nothing to change"), "limits that only the table has stay");
    apply(&["--prune"]);
    assert_eq!(tenant.run(&["limit", "list"]).done(), "");
}

#[tokio::test]
async fn a_budget_is_set_shown_kept_in_a_file_and_removed() {
    let tenant = Tenant::create();
    let options = ["budget", "set", "--amount", "100.00", "--refuse"];
    let planned = tenant.run(&[&options[..], &["--dry-run"]].concat()).done();
    let facts = "    + amount: 100.000000\n    + refuse: true\n    + warnAt: 80, 100\n";
    assert_eq!(planned, format!("+ budget of {}\n{facts}", tenant.id));
    tenant.run(&options).done();
    let shown = tenant.run(&["budget", "show", "-o", "json"]).json();
    assert_eq!((&shown["schema"], &shown["refuse"]), (&json!("integrahub.budget.v1"), &json!(true)));
    let path = tenant.program.directory().join("access.yaml");
    std::fs::write(&path, tenant.run(&["export"]).done()).unwrap();
    tenant.run(&["budget", "remove"]).done();
    let refused = tenant.program.run(&["budget", "show", "--tenant", &tenant.id]).expect(6);
    assert!(refused.stderr.contains("has no budget"), "{}", refused.stderr);
    tenant.program.run(&["apply", "-f", "access.yaml", "--yes"]).expect(0);
    assert_eq!(tenant.run(&["budget", "show", "-o", "json"]).json()["amount"], "100.000000");
}
