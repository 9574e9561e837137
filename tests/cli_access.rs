//! The command line's administration: what it stores is what the functions obey.

use std::os::unix::fs::PermissionsExt as _;

use end_to_end::{CommandLine, Gateway, Ran, TENANT_A};
use ingestion::Cnpj;
use serde_json::{Value, json};
use uuid::Uuid;

/// A tenant that no other test has.
struct Tenant {
    program: CommandLine,
    id: String,
    name: String,
}

impl Tenant {
    fn create() -> Self {
        let (program, name) = (CommandLine::new(), format!("test {}", Uuid::new_v4()));
        let id = program.run(&["tenant", "create", &name]).done().trim().to_owned();
        Self { program, id, name }
    }

    /// Runs a command with the tenant as its last option.
    fn run(&self, arguments: &[&str]) -> Ran {
        self.program.run(&[arguments, &["--tenant", &self.id][..]].concat())
    }

    /// A new API key with these scopes.
    fn key(&self, name: &str, scopes: &str) -> String {
        self.run(&["key", "create", "--name", name, "--scope", scopes]).done().trim().to_owned()
    }
}

/// CNPJs that no other test has.
fn cnpjs<const N: usize>() -> [String; N] {
    std::array::from_fn(|_| {
        let base: String = Uuid::new_v4().simple().to_string().to_uppercase().chars().take(12).collect();
        Cnpj::from_base(&base).unwrap().as_str().to_owned()
    })
}

async fn status(key: &str) -> u16 {
    Gateway::new().with_key(key).get("/status").await.status
}

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

#[tokio::test]
async fn a_profile_of_the_command_line_leads_to_its_queue() {
    let tenant = Tenant::create();
    let show = ["profile", "show", "local-rabbit", "--tenant", TENANT_A];
    let text = tenant.program.run(&show).done();
    let program = CommandLine::new().input(&text);
    let create = ["profile", "create", "orders", "--tenant", &tenant.id, "--file", "-"];
    let planned = program.run(&[&create[..], &["--dry-run"]].concat()).done();
    assert!(planned.starts_with(&format!("+ profile `orders` of {}", tenant.id)), "{planned}");
    assert_eq!(tenant.run(&["profile", "list"]).done(), "");
    program.run(&create).done();
    program.run(&create).expect(6);
    let gateway = Gateway::new().with_key(&tenant.key("reader", "mq:read"));
    gateway.post("/queue/depth", &json!({"targetRef": "orders"})).await.expect(200);
    let misspelt = CommandLine::new().input(&text.replace("connName", "conName"));
    let refused = misspelt.run(&create).expect(2);
    assert!(refused.stderr.contains("/target/conName"), "{}", refused.stderr);
}

#[tokio::test]
async fn what_contradicts_itself_is_refused() {
    let tenant = Tenant::create();
    let (program, id) = (&tenant.program, tenant.id.as_str());
    tenant.key("taken", "mq:read");
    tenant.key("orders", "mq:read");
    let nobody = Uuid::new_v4().to_string();
    let cases: [(&[&str], i32, &str); 11] = [
        (&["key", "change", "orders", "--tenant", id, "--name", "taken"], 6, "has a key `taken` already"),
        (&["cnpj", "assign", "--tenant", &nobody, "11222333000181"], 6, "there is no tenant"),
        (
            &["cnpj", "move", "--from", id, "--to", &nobody, "11222333000181", "--yes"],
            6,
            "there is no tenant",
        ),
        (
            &["key", "create", "--tenant", "nobody", "--name", "a", "--scope", "mq:read"],
            6,
            "there is no tenant",
        ),
        (
            &["key", "create", "--tenant", id, "--name", "a", "--scope", "mq:raed"],
            2,
            "there is no scope `mq:raed`",
        ),
        (
            &["key", "create", "--tenant", id, "--name", "a", "--scope", "products:read"],
            6,
            "which establishments",
        ),
        (&["target", "allow", "--tenant", id, "mq.example.com"], 2, "`mq.example.com` is not"),
        (&["grant", "create", "--tenant", id], 6, "which establishments"),
        (&["tenant", "create", &tenant.name], 6, "has the name"),
        (&["cnpj", "assign", "--tenant", id, "11222333000180"], 2, "is no CNPJ"),
        (
            &["profile", "create", "a", "--tenant", id, "--broker", "rabbitmq", "--conn-name", "a:1"],
            2,
            "no request can use it",
        ),
    ];
    for (arguments, code, says) in cases {
        let ran = program.run(arguments).expect(code);
        assert!(ran.stderr.contains(says) && ran.stdout.is_empty(), "{arguments:?}: {}", ran.stderr);
    }
}

#[tokio::test]
async fn what_destroys_is_confirmed_and_complete() {
    let tenant = Tenant::create();
    let key = tenant.key("orders", "ops:read");
    let (program, id) = (&tenant.program, tenant.id.as_str());
    let refused = program.run(&["tenant", "remove", id, "--yes"]).expect(6);
    assert!(refused.stderr.contains("key `orders`"), "{}", refused.stderr);
    let unasked = program.run(&["tenant", "remove", id, "--cascade"]).expect(2);
    assert!(unasked.stderr.contains("--yes"), "{}", unasked.stderr);
    let planned = program.run(&["tenant", "remove", id, "--cascade", "--dry-run"]).done();
    assert_eq!(planned.lines().filter(|line| line.starts_with("- ")).count(), 2, "{planned}");
    program.run(&["tenant", "remove", id, "--cascade", "--yes"]).done();
    assert_eq!(status(&key).await, 401);
    program.run(&["tenant", "show", id]).expect(6);
}

#[tokio::test]
async fn administrators_do_not_overwrite_each_other() {
    let tenant = Tenant::create();
    let entries: Vec<String> = (0..6).map(|n| format!("rabbitmq://{n}.example.com:5671/ORDERS.*")).collect();
    let running = entries.iter().map(|entry| {
        let arguments = ["target", "allow", "--tenant", &tenant.id, entry.as_str()];
        (entry, tenant.program.command(&arguments).spawn().unwrap())
    });
    let running: Vec<_> = running.collect();
    let mut made = Vec::new();
    for (entry, child) in running {
        match Ran::of(&child.wait_with_output().unwrap()) {
            Ran { code: 0, .. } => made.push(entry.clone()),
            ran => assert!(ran.expect(6).stderr.contains("meanwhile")),
        }
    }
    let listed = tenant.run(&["target", "list", "-o", "json"]).json();
    let mut listed: Vec<&str> = listed["targets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|target| target["entry"].as_str().unwrap())
        .collect();
    listed.sort_unstable();
    assert_eq!(listed, made, "each run that succeeded is in the list, and no other");
    assert!(!made.is_empty());
}

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

#[tokio::test]
async fn a_refusal_is_explained_rule_by_rule() {
    let program = CommandLine::new();
    let show = ["profile", "show", "local-rabbit", "--tenant", TENANT_A];
    let tenant = Tenant::create();
    let profile = CommandLine::new().input(&program.run(&show).done());
    profile.run(&["profile", "create", "orders", "--tenant", &tenant.id, "--file", "-"]).done();
    let key = tenant.key("reader", "mq:read");
    let explain = |options: &[&str]| {
        CommandLine::new().key(&key).run(&[&["explain", "-o", "json"][..], options].concat())
    };
    let broken = |ran: &Ran| {
        let explained: Value = serde_json::from_str(&ran.stdout).unwrap();
        let rules = explained["rules"].as_array().unwrap().clone();
        let broken = rules.into_iter().filter(|rule| rule["holds"] == json!(false));
        broken.map(|rule| rule["rule"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // What is explained is what the API does.
    let gateway = Gateway::new().with_key(&key);
    let asked = json!({"targetRef": "orders"});
    let allowed = explain(&["depth", "--target", "orders"]).expect(0);
    assert!(broken(&allowed).is_empty(), "{}", allowed.stdout);
    gateway.post("/queue/depth", &asked).await.expect(200);
    let by_scope = explain(&["consume", "--target", "orders"]).expect(4);
    assert_eq!(broken(&by_scope), ["scope"]);
    assert!(by_scope.stderr.contains("needs the scope mq:write"), "{}", by_scope.stderr);
    let elsewhere = "rabbitmq://mq.example.com:5671/DEV.QUEUE.1";
    let by_target = explain(&["depth", "--target", elsewhere]).expect(4);
    assert_eq!(broken(&by_target), ["allow-list"]);
    let explained: Value = serde_json::from_str(&by_target.stdout).unwrap();
    let rules = explained["rules"].as_array().unwrap();
    let list = rules.iter().find(|rule| rule["rule"] == "allow-list").unwrap();
    let differs = |entry: &Value| !entry["differences"].as_array().unwrap().is_empty();
    let entries = list["entries"].as_array().unwrap();
    assert!(!entries.is_empty() && entries.iter().all(differs), "{list}");
    let target = json!({"broker": "rabbitmq", "connName": "mq.example.com:5671", "queue": "DEV.QUEUE.1"});
    let refused = gateway.post("/queue/depth", &json!({"target": target})).await.expect(403).json();
    assert_eq!(refused["reason"], "TARGET_NOT_ALLOWED");
    // A name of a key will do.
    let named = tenant.run(&["explain", "depth", "--target", "none", "--key", "reader"]).expect(4);
    assert!(named.stdout.contains("✘ profile: the tenant has no target profile `none`"), "{}", named.stdout);
}

#[tokio::test]
async fn establishments_are_assigned_moved_and_released() {
    let (one, two) = (Tenant::create(), Tenant::create());
    let [first, second] = cnpjs();
    let owned = |tenant: &Tenant| {
        let listed = tenant.run(&["cnpj", "list", "-o", "json"]).json();
        let all = listed["establishments"].as_array().unwrap().clone();
        let mut all: Vec<String> =
            all.iter().map(|owned| owned["cnpj"].as_str().unwrap().to_owned()).collect();
        all.sort();
        all
    };
    one.run(&["cnpj", "assign", &first, &second, "--dry-run"]).done();
    assert_eq!(owned(&one), Vec::<String>::new());
    let assigned = one.run(&["cnpj", "assign", &first, &second]).done();
    assert!(assigned.contains(&format!("+ establishment {first} of {}", one.id)), "{assigned}");
    let taken = two.run(&["cnpj", "assign", &first]).expect(6);
    assert!(taken.stderr.contains(&format!("{first}: it belongs to {}", one.id)), "{}", taken.stderr);
    let program = CommandLine::new().input(&format!("{first} # Centro\r\n"));
    program.run(&["cnpj", "move", "--from", &one.id, "--to", &two.name, "--file", "-", "--yes"]).done();
    assert_eq!((owned(&one), owned(&two)), (vec![second.clone()], vec![first.clone()]));
    two.run(&["cnpj", "release", &first]).expect(2);
    two.run(&["cnpj", "release", &first, "--yes"]).done();
    assert_eq!(owned(&two), Vec::<String>::new());
    // A file moves them too, between the tenants that it has.
    let text = format!(
        "version: 1\ntenants:\n  {}: {{name: {}, establishments: []}}\n  {}: {{name: {}, establishments: ['{second}']}}\n",
        one.id, one.name, two.id, two.name
    );
    let program = CommandLine::new().input(&text);
    program.run(&["apply", "-f", "-", "--yes"]).done();
    assert_eq!((owned(&one), owned(&two)), (Vec::new(), vec![second]));
}

#[tokio::test]
async fn a_record_is_shown_with_its_response() {
    let (gateway, key) = (Gateway::new(), Uuid::new_v4());
    let body = json!({"targetRef": "local-rabbit", "target": {"queue": "DEV.QUEUE.2"},
        "messages": [{"bodyText": "hello"}]});
    let answer = gateway.post_once("/messages/produce", key, &body).await.expect(201).json();
    let program = CommandLine::new();
    let shown = program.run(&["record", "--tenant", TENANT_A, &key.to_string(), "-o", "json"]).json();
    let record = &shown["records"][0];
    assert_eq!((&record["status"], &record["response"]), (&json!("COMPLETED"), &answer), "{shown}");
    program.run(&["record", "--tenant", TENANT_A, &Uuid::new_v4().to_string()]).expect(9);
}

#[tokio::test]
async fn a_context_keeps_the_key_where_nobody_else_reads_it() {
    let program = CommandLine::new().input("local-readonly-key\n");
    let url = end_to_end::variable("API");
    let create = ["context", "create", "till", "--url", &url, "--api-key-stdin", "--use"];
    let created = program.run(&create).expect(0);
    assert!(created.stderr.contains("only you can read"), "{}", created.stderr);
    let kept = program.directory().join(".config/integrahub/keys/till");
    assert_eq!(kept.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let config = std::fs::read_to_string(program.directory().join(".config/integrahub/config.toml")).unwrap();
    assert!(!config.contains("local-readonly-key"), "{config}");
    assert_eq!(program.run(&["context", "current"]).done(), "till\n");
    let current = program.run(&["context", "current", "-o", "json"]).json();
    assert_eq!(current, json!({"schema": "integrahub.current-context.v1", "name": "till"}));
    let who = program.run(&["whoami", "-o", "json"]).json();
    assert_eq!(who["api"], "knows the key, which has no scope ops:read");
    assert!(who["keyFrom"].as_str().unwrap().starts_with("context till, file "), "{who}");
    // The local stack is there by its name.
    let local = program.run(&["-c", "local", "whoami", "-o", "json"]).json();
    assert_eq!(local["keyFrom"], "the local stack");
    assert!(local["tenant"].as_str().unwrap().starts_with(TENANT_A), "{local}");
    program.run(&["context", "use", "tiil"]).expect(2);
    program.run(&["context", "remove", "till"]).expect(2);
    program.run(&["context", "remove", "till", "--yes"]).done();
    assert!(!kept.exists());
}

#[tokio::test]
async fn the_tool_explains_itself() {
    let program = CommandLine::new();
    assert!(program.run(&["completions", "bash"]).done().contains("integrahub"));
    program.run(&["man", "pages"]).done();
    assert!(program.directory().join("pages/integrahub-key-create.1").is_file());
    let help = program.run(&["key", "create", "--help"]).done();
    assert!(help.contains("Examples:") && help.contains("--all-cnpjs"), "{help}");
    let wrong = program.run(&["key", "craete"]).expect(2);
    assert!(wrong.stdout.is_empty() && wrong.stderr.contains("create"), "{}", wrong.stderr);
}
