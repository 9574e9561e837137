//! Tests of the command line's administration commands: the functions obey what the commands store.

mod files;
mod keys;

use std::os::unix::fs::PermissionsExt as _;

use end_to_end::{CommandLine, Gateway, Ran, TENANT_A};
use ingestion::Cnpj;
use serde_json::{Value, json};
use uuid::Uuid;

/// Tenant that one test creates, with the program `integrahub` to administer it.
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

    /// Runs `integrahub` with these arguments and `--tenant`.
    fn run(&self, arguments: &[&str]) -> Ran {
        self.program.run(&[arguments, &["--tenant", &self.id][..]].concat())
    }

    /// Creates an API key of the tenant with these comma-separated scopes, and returns it.
    fn key(&self, name: &str, scopes: &str) -> String {
        self.run(&["key", "create", "--name", name, "--scope", scopes]).done().trim().to_owned()
    }
}

/// Returns random CNPJs, which no other test has.
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
