//! Tests of the command line's commands for messages, on both brokers, and for load tests.

use std::process::Stdio;

use end_to_end::{Access, CommandLine, On, Queue, Ran, Site};
use serde_json::{Value, json};
use uuid::Uuid;

end_to_end::on_both! {
    messages_are_put_shown_moved_counted_and_taken,
    many_lines_are_put_in_their_order_and_taken_until_the_queue_is_empty,
    a_run_with_the_key_of_an_earlier_one_does_nothing_twice,
    what_the_broker_refuses_is_told,
}

/// Broker and queue of one test, and the program `integrahub` with the broker's target in a file.
struct Stand {
    site: Site,
    queue: Queue,
    program: CommandLine,
}

impl Stand {
    async fn start(on: On) -> Self {
        let site = Site::start(on).await;
        let (queue, program) = (site.queue().await, CommandLine::new());
        let target = site.inline(&queue).to_string();
        std::fs::write(program.directory().join("target.json"), target).unwrap();
        Self { site, queue, program }
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.program.directory().join(name), content).unwrap();
    }

    /// Runs a command of `integrahub` with `--target-file`, followed by these arguments.
    fn run(&self, command: &str, arguments: &[&str]) -> Ran {
        self.program.run(&[&[command, "--target-file", "target.json"], arguments].concat())
    }

    async fn end(self) {
        self.site.delete(&self.queue).await;
    }
}

async fn messages_are_put_shown_moved_counted_and_taken(on: On) {
    let stand = Stand::start(on).await;
    let other = stand.site.queue().await;
    stand.write("c.bin", [0xff_u8, 0x00]);
    let arguments =
        ["c.bin", "--body", "a", "--body", "olá", "-H", "kind=order", "-P", "priority=4", "-o", "json"];
    let put = stand.run("produce", &arguments).json();
    assert_eq!((&put["schema"], &put["enqueued"]), (&json!("integrahub.produced.v1"), &json!(3)));
    assert_eq!(put["target"], stand.site.shown(&stand.queue));
    stand.site.ready_becomes(&stand.queue, 3).await;

    let browse = stand.run("browse", &["--format", "%n %S %h %q\\n"]).done();
    let lines: Vec<&str> = browse.lines().collect();
    assert_eq!(lines.len(), 3, "{browse}");
    assert!(lines[0].starts_with("1 1 ") && lines[0].contains("kind=order"), "{browse}");
    assert!(lines[0].ends_with(&stand.queue.name), "{browse}");
    stand.site.ready_becomes(&stand.queue, 3).await;

    let missing = stand.site.missing_queue();
    let names = [stand.queue.name.as_str(), &other.name, &missing.name];
    let depths = stand.run("depth", &[&names[..], &["-o", "json"]].concat()).expect(3);
    assert!(depths.stderr.contains("QUEUE_NOT_FOUND"), "{}", depths.stderr);
    let depths: Value = serde_json::from_str(&depths.stdout).unwrap();
    let counted: Vec<&Value> =
        depths["queues"].as_array().unwrap().iter().map(|queue| &queue["currentDepth"]).collect();
    assert_eq!(counted, [&json!(3), &json!(0), &Value::Null]);
    let own = stand.run("depth", &[]).done();
    assert_eq!(own.split_whitespace().take(2).collect::<Vec<_>>(), [stand.queue.name.as_str(), "3"]);

    let to = ["--to", other.name.as_str(), "--max", "2"];
    let planned = stand.run("move", &[&to[..], &["--dry-run", "-o", "json"]].concat()).json();
    assert_eq!((&planned["dryRun"], &planned["moved"]), (&json!(true), &json!(2)));
    let refused = stand.run("move", &to).expect(2);
    assert!(refused.stderr.contains("2 messages would move"), "{}", refused.stderr);
    stand.site.ready_becomes(&stand.queue, 3).await;
    let moved = stand.run("move", &[&to[..], &["--yes", "-o", "json"]].concat()).json();
    assert_eq!((&moved["moved"], &moved["destinations"][0]["queue"]), (&json!(2), &json!(other.name)));

    let taken = stand.run("consume", &["--queue", &other.name, "--all", "-f", "%s;", "--quiet"]).done();
    assert_eq!(taken, "a;olá;");
    let taken = stand.run("consume", &["--all", "-o", "ndjson"]).done();
    let message: Value = serde_json::from_str(&taken).unwrap();
    assert_eq!(
        (&message["schema"], &message["bodyBase64"]),
        (&json!("integrahub.message.v1"), &json!("/wA="))
    );
    assert_eq!(message["priority"], 4);
    stand.run("consume", &["--error-on-nothing"]).expect(9);
    assert_eq!((stand.site.ready(&stand.queue).await, stand.site.ready(&other).await), (0, 0));
    stand.site.delete(&other).await;
    stand.end().await;
}

async fn many_lines_are_put_in_their_order_and_taken_until_the_queue_is_empty(on: On) {
    let stand = Stand::start(on).await;
    let text: String = (0..1_200).map(|number| format!("line {number}\n")).collect();
    stand.write("lines.txt", format!("{text}\n"));
    let put = stand.run("produce", &["--lines", "lines.txt", "-o", "json"]).json();
    assert_eq!((&put["enqueued"], &put["requests"]), (&json!(1_200), &json!(1)));
    stand.site.ready_becomes(&stand.queue, 1_200).await;
    let taken = stand.run("consume", &["--all"]).done();
    assert_eq!(taken, text);
    let generated = stand.run("produce", &["--count", "3", "--template", "{{seq}}!"]).done();
    assert!(generated.contains('3'), "{generated}");
    stand.site.ready_becomes(&stand.queue, 3).await;
    assert_eq!(stand.run("consume", &["--all", "-f", "%s"]).done(), "0!1!2!");
    stand.end().await;
}

async fn a_run_with_the_key_of_an_earlier_one_does_nothing_twice(on: On) {
    let stand = Stand::start(on).await;
    let key = Uuid::new_v4().to_string();
    for _ in 0..2 {
        stand.run("produce", &["--body", "a", "--body", "b", "--key", &key]).done();
    }
    stand.site.ready_becomes(&stand.queue, 2).await;
    // A program that is killed after it got messages shows them again.
    let first = stand.run("consume", &["--max", "1"]).expect(0);
    let named = first.stderr.lines().find_map(|line| line.strip_prefix("idempotency key ")).unwrap();
    let again = stand.run("consume", &["--max", "1", "--key", named]).done();
    assert_eq!((first.stdout.as_str(), again.as_str()), ("a\n", "a\n"));
    assert_eq!(stand.site.ready(&stand.queue).await, 1);
    assert_eq!(stand.run("consume", &["--ack", "rollback", "--max", "5"]).done(), "b\n");
    stand.run("consume", &["--ack", "rollback", "--all"]).expect(2);
    stand.site.ready_becomes(&stand.queue, 1).await;
    stand.end().await;
}

async fn what_the_broker_refuses_is_told(on: On) {
    let stand = Stand::start(on).await;
    let missing = stand.site.missing_queue();
    let ran = stand.run("produce", &["--queue", &missing.name, "--body", "x"]).expect(6);
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 4, "{}", ran.stderr);
    assert!(lines[0].starts_with("idempotency key "), "{}", ran.stderr);
    assert_eq!(lines[1], "error: The queue does not exist");
    assert!(lines[2].contains("404 QUEUE_NOT_FOUND, trace id "), "{}", ran.stderr);
    assert!(lines[2].ends_with("0 messages are on the queue"), "{}", ran.stderr);
    stand.run("produce", &[]).expect(2);
    stand.program.run(&["depth"]).expect(2);
    let small = stand.site.queue_of_three().await;
    let full = stand.run("produce", &["--queue", &small.name, "--count", "5", "--size", "1"]);
    // One broker says that the queue is full, the other that it refuses the message.
    assert!([5, 6].contains(&full.code), "{full:?}");
    assert!(full.stderr.contains(" messages are on the queue"), "{}", full.stderr);
    stand.site.delete(&small).await;
    stand.end().await;
}

#[tokio::test]
async fn a_body_that_no_request_can_carry_is_uploaded_and_taken_whole() {
    let stand = Stand::start(On::RabbitMq).await;
    let body = "x".repeat(7_000_000);
    stand.write("large.txt", &body);
    stand.run("produce", &["large.txt"]).done();
    stand.site.ready_becomes(&stand.queue, 1).await;
    let refused = stand.run("consume", &[]).expect(6);
    assert!(refused.stderr.contains("--large"), "{}", refused.stderr);
    assert!(stand.run("consume", &["--large", "-f", "%s"]).done() == body);
    stand.end().await;
}

#[tokio::test]
async fn a_reader_that_has_seen_enough_is_no_failure() {
    let stand = Stand::start(On::RabbitMq).await;
    stand.run("produce", &["--count", "3", "--size", "200000"]).done();
    stand.site.ready_becomes(&stand.queue, 3).await;
    let mut browse = stand.program.command(&["browse", "--target-file", "target.json", "-o", "ndjson"]);
    let mut child = browse.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    stand.end().await;
}

#[tokio::test]
async fn a_test_that_does_not_meet_its_criteria_is_exit_code_99() {
    let stand = Stand::start(On::RabbitMq).await;
    let scopes = ["mq:read", "mq:write", "mq:admin"];
    let key = Access::open().await.key(&Uuid::new_v4().to_string(), &scopes, json!({})).await;
    let program = CommandLine::new().key(&key);
    let run = |arguments: &[&str]| program.run(arguments);
    let test = format!(
        "target: {}\nproducers: {{ratePerSec: 50}}\nconsumers: {{count: 1}}\ndurationSeconds: 2\n\
         expect: {{throughputPerSec: 1000000, lost: 0}}\n",
        stand.site.inline(&stand.queue)
    );
    std::fs::write(program.directory().join("test.yaml"), test).unwrap();
    let ran = run(&["test", "run", "test.yaml", "--html", "report.html", "-o", "json"]).expect(99);
    assert!(ran.stderr.contains("expected at least 1000000"), "{}", ran.stderr);
    let ended: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&ended["schema"], &ended["passed"]), (&json!("integrahub.load-test.v1"), &json!(false)));
    let page = std::fs::read_to_string(program.directory().join("report.html")).unwrap();
    assert!(page.starts_with("<!doctype html>"));

    let id = ended["testId"].as_str().unwrap();
    let shown = run(&["test", "show", id]).done();
    assert!(shown.contains("COMPLETED") && shown.contains("put p99"), "{shown}");
    let listed = run(&["test", "list", "-o", "json"]).json();
    assert_eq!(listed["tests"][0]["testId"], id);
    let stopped = run(&["test", "stop", id, "-o", "json"]).json();
    assert_eq!(stopped["status"], "COMPLETED", "what has ended stays as it is");
    run(&["test", "delete", id]).expect(2);
    run(&["test", "delete", id, "--yes"]).done();
    run(&["test", "show", id]).expect(6);
    std::fs::write(program.directory().join("wrong.yaml"), "producer: {}\n").unwrap();
    let refused = run(&["test", "run", "wrong.yaml"]).expect(6);
    assert!(refused.stderr.contains("SCHEMA_VIOLATION"), "{}", refused.stderr);
    stand.end().await;
}
