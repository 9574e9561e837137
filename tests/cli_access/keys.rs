//! Tests of the commands for API keys: a key works as it is stored.

use end_to_end::CommandLine;
use serde_json::{Value, json};

use super::{Tenant, status};

#[tokio::test]
async fn a_key_is_shown_once_and_works() {
    let tenant = Tenant::create();
    let created = tenant.run(&["key", "create", "--name", "ops", "--scope", "ops:read"]).expect(0);
    let key = created.stdout.trim();
    assert!(key.starts_with("ihub_") && created.stdout.lines().count() == 1, "{created:?}");
    assert_eq!(status(key).await, 200);
    let listed = tenant.run(&["key", "list", "-o", "json"]).json();
    assert_eq!(listed["schema"], "integrahub.keys.v1");
    assert_eq!((&listed["keys"][0]["name"], &listed["keys"][0]["state"]), (&json!("ops"), &json!("works")));
    assert!(!listed.to_string().contains(key));
    // A use is noted with its day.
    let shown = tenant.run(&["key", "show", "ops", "-o", "json"]).json();
    assert!(shown["lastUsedOn"].is_string(), "{shown}");
}

#[tokio::test]
async fn a_key_that_is_refused_says_so_everywhere() {
    let tenant = Tenant::create();
    let [disabled, removed] = ["disabled", "removed"].map(|name| tenant.key(name, "ops:read"));
    tenant.run(&["key", "disable", "disabled"]).done();
    tenant.run(&["key", "remove", "removed", "--yes"]).done();
    assert_eq!((status(&disabled).await, status(&removed).await), (401, 401));
    let state = tenant.run(&["key", "show", "disabled", "-o", "json"]).json()["state"].clone();
    assert_eq!(state, "the key is disabled");
    // Another tenant, because functions remember a tenant for a minute.
    let tenant = Tenant::create();
    let key = tenant.key("other", "ops:read");
    tenant.program.run(&["tenant", "disable", &tenant.id]).done();
    assert_eq!(status(&key).await, 401);
    let who = CommandLine::new().key(&key).run(&["whoami", "-o", "json"]).expect(4);
    let who: Value = serde_json::from_str(&who.stdout).unwrap();
    assert_eq!(who["key"], "`other`: the key's tenant is disabled");
}

#[tokio::test]
async fn a_rotation_has_no_gap() {
    let tenant = Tenant::create();
    let old = tenant.key("orders", "ops:read");
    let new = tenant.run(&["key", "rotate", "orders", "--keep", "1h"]).done().trim().to_owned();
    assert_ne!(old, new);
    assert_eq!((status(&old).await, status(&new).await), (200, 200));
    let keys = tenant.run(&["key", "list", "-o", "json"]).json()["keys"].clone();
    assert_eq!(keys.as_array().unwrap().len(), 2, "{keys}");
    assert_eq!(keys.as_array().unwrap().iter().filter(|key| key["expiresAt"].is_string()).count(), 1);
    // A rotation means the newest of a name; to anything else, the name alone means two keys now.
    let newest = tenant.run(&["key", "rotate", "orders", "--keep", "1h"]).done().trim().to_owned();
    assert_eq!((status(&old).await, status(&new).await, status(&newest).await), (200, 200, 200));
    let unclear = tenant.run(&["key", "disable", "orders"]).expect(2);
    assert!(unclear.stderr.contains("more than one key"), "{}", unclear.stderr);
}
