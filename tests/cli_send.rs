//! The command line's sender: files that reach the table, and exit codes that say what happened.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use end_to_end::{CommandLine, Ingest, PHARMACY_KEY, Products, READONLY_KEY, Ran, gzip, variable};
use http::{Request, Response};
use ingestion::Cnpj;
use ingestion::generate::{Catalogue, Layout};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use test_support::http_server::{Answer, Server};
use uuid::Uuid;

/// Time that a program may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// An establishment that no other test has.
fn cnpj() -> String {
    let base: String = Uuid::new_v4().simple().to_string().to_uppercase().chars().take(12).collect();
    Cnpj::from_base(&base).unwrap().as_str().to_owned()
}

fn item(cnpj: &str, product: u32) -> String {
    json!({"CNPJ": cnpj, "SHOPID": 1, "PRODUCTID": product, "TITLE": "Dipirona", "PRICE": "12.90"})
        .to_string()
}

/// Items without a fault, and one with a price that is none.
fn items(cnpj: &str, good: u32, bad: u32) -> Vec<String> {
    let good = (0..good).map(|product| item(cnpj, product));
    good.chain((0..bad).map(|product| item(cnpj, 1000 + product).replace("12.90", "12,90"))).collect()
}

fn array(items: &[String]) -> Vec<u8> {
    format!("[{}]", items.join(",")).into_bytes()
}

fn lines(items: &[String]) -> Vec<u8> {
    (items.join("\n") + "\n").into_bytes()
}

fn write(program: &CommandLine, name: &str, content: &[u8]) -> PathBuf {
    let path = program.directory().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

/// The files of the one JSON document of a run.
#[track_caller]
fn files(ran: &Ran) -> Vec<Value> {
    let document: Value =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!(document["schema"], "integrahub.send.v1");
    document["files"].as_array().unwrap().clone()
}

async fn count(cnpj: &str) -> usize {
    Products::open().await.of(cnpj).await.len()
}

#[tokio::test]
async fn arrays_lines_and_gzip_arrive_side_by_side() {
    let program = CommandLine::new();
    let cnpjs: Vec<String> = (0..4).map(|_| cnpj()).collect();
    write(&program, "a.json", &array(&items(&cnpjs[0], 3, 0)));
    write(&program, "b.ndjson", &lines(&items(&cnpjs[1], 3, 0)));
    write(&program, "c.json.gz", &gzip(&array(&items(&cnpjs[2], 3, 0)), 6));
    write(&program, "d.ndjson.gz", &gzip(&lines(&items(&cnpjs[3], 3, 0)), 6));
    let ran = program.run(&[
        "send",
        "--type",
        "full",
        "a.json",
        "b.ndjson",
        "c.json.gz",
        "d.ndjson.gz",
        "-o",
        "json",
    ]);
    let sent = files(&ran.expect(0));
    let named: Vec<_> = sent.iter().map(|file| file["file"].as_str().unwrap()).collect();
    assert_eq!(named, ["a.json", "b.ndjson", "c.json.gz", "d.ndjson.gz"]);
    for (file, cnpj) in sent.iter().zip(&cnpjs) {
        assert_eq!(
            (&file["way"], &file["exit"], &file["trouble"]),
            (&json!("request"), &json!(0), &Value::Null)
        );
        assert_eq!(
            (&file["batch"]["status"], &file["batch"]["items_parsed"]),
            (&json!("COMPLETED"), &json!(3))
        );
        assert_eq!(file["batch"]["load_type"], "full");
        assert_eq!(count(cnpj).await, 3);
    }
}

#[tokio::test]
async fn standard_input_is_a_file_too() {
    let cnpj = cnpj();
    let program = CommandLine::new().input(&String::from_utf8(lines(&items(&cnpj, 2, 0))).unwrap());
    let table = program.run(&["send", "--type", "delta", "-"]).done();
    assert!(table.starts_with("standard input  ") && table.contains("COMPLETED"), "{table}");
    assert_eq!(count(&cnpj).await, 2);
}

#[tokio::test]
async fn what_one_request_cannot_carry_is_uploaded() {
    let program = CommandLine::new();
    let catalogue = Catalogue { seed: Uuid::new_v4().as_u64_pair().0, items: 8_000, ..Catalogue::default() };
    let payload = catalogue.payload(Layout::Lines);
    assert!(payload.len() > 4_500_000, "{}", payload.len());
    write(&program, "large.ndjson", &payload);
    let ran = program.run(&["send", "--type", "full", "large.ndjson", "-o", "ndjson"]).expect(0);
    let documents: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<_> = documents.iter().filter_map(|document| document["event"].as_str()).collect();
    for event in ["found", "ready", "sending", "accepted", "processing"] {
        assert!(events.contains(&event), "{event} of {events:?}");
    }
    let file = documents.last().unwrap();
    assert_eq!((&file["schema"], &file["way"]), (&json!("integrahub.send.v1"), &json!("upload")));
    assert_eq!(file["batch"]["items_processed"], 8_000);
}

#[tokio::test]
async fn items_in_error_are_exit_code_3_and_a_file() {
    let (program, cnpj) = (CommandLine::new(), cnpj());
    write(&program, "a.ndjson", &lines(&items(&cnpj, 2, 2)));
    let ran = program.run(&["send", "--type", "delta", "a.ndjson"]).expect(3);
    assert!(ran.stderr.contains("a.ndjson: 2 of 4 items are in error"), "{}", ran.stderr);
    assert!(ran.stderr.contains("item 2: FIELD_INVALID PRICE"), "{}", ran.stderr);
    assert!(ran.stderr.contains(" batches errors "), "{}", ran.stderr);

    write(&program, "b.ndjson", &lines(&items(&cnpj, 1, 3)));
    program.run(&["send", "--type", "delta", "b.ndjson", "--errors", "errors.ndjson"]).expect(3);
    let written = std::fs::read_to_string(program.directory().join("errors.ndjson")).unwrap();
    let written: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(written.len(), 3);
    for line in &written {
        assert_eq!((&line["file"], &line["code"]), (&json!("b.ndjson"), &json!("FIELD_INVALID")));
        assert!(line["item"].as_str().unwrap().contains("12,90"), "{line}");
    }

    write(&program, "c.ndjson", &lines(&items(&cnpj, 0, 2)));
    let ran = program.run(&["send", "--type", "delta", "c.ndjson"]).expect(6);
    assert!(ran.stderr.contains("none of 2 items could be loaded"), "{}", ran.stderr);
}

#[tokio::test]
async fn a_file_that_is_no_catalogue_is_refused() {
    let program = CommandLine::new();
    write(&program, "broken.json", b"[{\"CNPJ\": ");
    let ran = program.run(&["send", "--type", "full", "broken.json"]).expect(6);
    assert!(
        ran.stderr.contains("nothing is loaded") && ran.stderr.contains("MALFORMED_JSON"),
        "{}",
        ran.stderr
    );
    write(&program, "a.csv", b"CNPJ;SHOPID\n1;2\n");
    let ran = program.run(&["send", "--type", "full", "a.csv"]).expect(6);
    assert!(ran.stderr.contains("a.csv is no catalogue"), "{}", ran.stderr);
    program.run(&["send", "--type", "full", "missing.json"]).expect(1);
    program.run(&["send", "missing.json"]).expect(2);
}

#[tokio::test]
async fn who_may_not_send_is_told_so() {
    let program = CommandLine::new();
    write(&program, "a.ndjson", &lines(&items(&cnpj(), 1, 0)));
    let send = ["send", "--type", "delta", "a.ndjson"];
    for (key, reason) in [("nobody", "API_KEY_INVALID"), (READONLY_KEY, "SCOPE_REQUIRED")] {
        let mut command = program.command(&send);
        let ran = Ran::of(&command.env("INTEGRAHUB_API_KEY", key).output().unwrap()).expect(4);
        assert!(ran.stderr.contains(reason) && ran.stderr.contains("trace id"), "{}", ran.stderr);
    }
    let mut command = program.command(&send);
    let foreign = Ran::of(&command.env("INTEGRAHUB_API_KEY", PHARMACY_KEY).output().unwrap());
    assert!(foreign.expect(6).stderr.contains("CNPJ_NOT_ALLOWED"), "the key may not load this CNPJ");
}

#[tokio::test]
async fn a_dry_run_asks_nobody() {
    let program = CommandLine::new();
    write(&program, "a.json", &array(&items(&cnpj(), 1, 0)));
    let mut command = program.command(&["send", "--type", "full", "a.json", "--dry-run", "-o", "json"]);
    command.env("INTEGRAHUB_URL", "http://127.0.0.1:1").env("INTEGRAHUB_API_KEY", "k");
    let ran = Ran::of(&command.output().unwrap());
    let plan: Value = serde_json::from_str(&ran.done()).unwrap();
    assert_eq!(plan["schema"], "integrahub.send-plan.v1");
    let file = &plan["files"][0];
    assert_eq!(
        (&file["way"], &file["form"], &file["continues"]),
        (&json!("request"), &json!("array"), &json!(false))
    );
    let sha256 = file["sha256"].as_str().unwrap();
    assert_eq!(file["key"], format!("send:full:array:{sha256}"));
}

#[tokio::test]
async fn the_program_does_not_have_to_wait() {
    let (program, cnpj) = (CommandLine::new(), cnpj());
    write(&program, "a.ndjson", &lines(&items(&cnpj, 2, 0)));
    let ran = program.run(&["send", "--type", "delta", "a.ndjson", "--no-wait", "-o", "json"]).expect(0);
    let id = files(&ran)[0]["batchId"].as_str().unwrap().to_owned();
    assert!(ran.stderr.contains(&format!("integrahub batches watch {id}")), "{}", ran.stderr);
    let shown = program.run(&["batches", "watch", &id, "-o", "json"]).json();
    assert_eq!((&shown["schema"], &shown["status"]), (&json!("integrahub.batch.v1"), &json!("COMPLETED")));
    assert_eq!(count(&cnpj).await, 2);
}

/// Work of a front that stands between the program and the API.
mod front {
    /// Passes everything on.
    pub(super) const PASS: u8 = 0;
    /// Keeps the answers to POST.
    pub(super) const KEEP_ANSWERS: u8 = 1;
    /// Keeps the requests with GET.
    pub(super) const KEEP_LOOKS: u8 = 2;
}

/// A front that can keep the program waiting at a chosen place.
struct Front {
    server: Server,
    mode: Arc<AtomicU8>,
    reached: Arc<tokio::sync::Notify>,
}

impl Front {
    async fn start(mode: u8) -> Self {
        let (mode, reached) = (Arc::new(AtomicU8::new(mode)), Arc::new(tokio::sync::Notify::new()));
        let (own_mode, own_reached) = (Arc::clone(&mode), Arc::clone(&reached));
        let server = Server::start(move |request| {
            let (mode, reached) = (Arc::clone(&own_mode), Arc::clone(&own_reached));
            async move { pass_on(request, &mode, &reached).await }
        })
        .await;
        Self { server, mode, reached }
    }

    /// A command against the front.
    fn command(&self, program: &CommandLine, arguments: &[&str]) -> Command {
        let mut command = program.command(arguments);
        command.env("INTEGRAHUB_URL", self.server.url()).env("INTEGRAHUB_API_KEY", end_to_end::KEY_A);
        command
    }
}

async fn pass_on(request: Request<Bytes>, mode: &AtomicU8, reached: &tokio::sync::Notify) -> Answer {
    let is_post = request.method() == "POST";
    if !is_post && mode.load(Ordering::Relaxed) == front::KEEP_LOOKS {
        reached.notify_one();
        return std::future::pending().await;
    }
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().unwrap().as_str();
    let url = format!("{}{path}", variable("API"));
    let mut headers = parts.headers;
    headers.remove("host");
    let answer =
        reqwest::Client::new().request(parts.method, url).headers(headers).body(body).send().await.unwrap();
    let mut passed = Response::new(Bytes::new());
    *passed.status_mut() = answer.status();
    *passed.headers_mut() = answer.headers().clone();
    passed.headers_mut().remove("transfer-encoding");
    *passed.body_mut() = answer.bytes().await.unwrap();
    if is_post && mode.load(Ordering::Relaxed) == front::KEEP_ANSWERS {
        reached.notify_one();
        return std::future::pending().await;
    }
    Some(passed)
}

/// Runs a command while the test goes on.
async fn ended(mut command: Command) -> Ran {
    tokio::task::spawn_blocking(move || Ran::of(&command.output().unwrap())).await.unwrap()
}

#[tokio::test]
async fn a_run_that_is_killed_is_continued_and_loads_nothing_twice() {
    for mode in [front::KEEP_ANSWERS, front::KEEP_LOOKS] {
        let (program, cnpj, front) = (CommandLine::new(), cnpj(), Front::start(mode).await);
        write(&program, "a.ndjson", &lines(&items(&cnpj, 2, 0)));
        let send = ["send", "--type", "delta", "a.ndjson", "-o", "json"];
        let mut killed = front.command(&program, &send).spawn().unwrap();
        tokio::time::timeout(PATIENCE, front.reached.notified()).await.unwrap();
        killed.kill().unwrap();
        killed.wait().unwrap();

        front.mode.store(front::PASS, Ordering::Relaxed);
        let ran = ended(front.command(&program, &send)).await.expect(0);
        let sent = &files(&ran)[0];
        assert_eq!((&sent["replayed"], &sent["batch"]["generation"]), (&json!(false), &json!(1)));
        let key = sent["key"].as_str().unwrap().to_owned();
        if mode == front::KEEP_LOOKS && !ran.stderr.contains("an earlier run began it") {
            // The API had the file, and its batch is final by now: this is another load of it.
            assert!(key.ends_with(":2"), "{key}");
            assert_eq!(sent["batch"]["changes"]["unchanged"], json!(2));
            continue;
        }
        assert!(ran.stderr.contains("an earlier run began it"), "{}", ran.stderr);
        let changes = json!({"inserted": 2, "updated": 0, "unchanged": 0, "stale": 0, "deactivated": 0});
        assert_eq!(sent["batch"]["changes"], changes, "it is the batch of the first run");

        // Prices may return to what they were, so content is loaded again after its end.
        let again = ended(front.command(&program, &send)).await.expect(0);
        let again = &files(&again)[0];
        assert_eq!(
            (again["key"].as_str().unwrap(), &again["batch"]["changes"]["unchanged"]),
            (format!("{key}:2").as_str(), &json!(2))
        );
        assert_ne!(again["batchId"], sent["batchId"]);
    }
}

#[tokio::test]
async fn content_that_somebody_sent_before_is_not_called_loaded() {
    let (program, cnpj) = (CommandLine::new(), cnpj());
    write(&program, "a.ndjson", &lines(&items(&cnpj, 1, 0)));
    let send = ["send", "--type", "delta", "a.ndjson", "-o", "json"];
    let first = files(&program.run(&send).expect(0))[0].clone();
    // Another machine knows nothing of it.
    let other = CommandLine::new();
    std::fs::copy(program.directory().join("a.ndjson"), other.directory().join("a.ndjson")).unwrap();
    let ran = other.run(&send).expect(0);
    assert!(ran.stderr.contains("was sent before") && ran.stderr.contains("--again"), "{}", ran.stderr);
    assert_eq!((&files(&ran)[0]["replayed"], &files(&ran)[0]["batchId"]), (&json!(true), &first["batchId"]));
    let again = files(&other.run(&[&send[..], &["--again"]].concat()).expect(0))[0].clone();
    assert_eq!(again["replayed"], false);
    assert_ne!(again["batchId"], first["batchId"]);
}

/// The files below a directory, by their names, without the days.
fn below(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                found.push(path.file_name().unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

const WATCH: [&str; 9] =
    ["send", "--type", "delta", "--watch", "out", "--interval", "200ms", "--jitter", "0s"];

#[tokio::test]
async fn a_directory_is_sent_once_and_its_files_are_put_away() {
    let (program, cnpj) = (CommandLine::new(), cnpj());
    std::fs::create_dir(program.directory().join("out")).unwrap();
    write(&program, "out/good.json", &array(&items(&cnpj, 2, 0)));
    write(&program, "out/some.ndjson", &lines(&items(&cnpj, 2, 1)));
    write(&program, "out/broken.json", b"[{");
    write(&program, "out/other.csv", b"x");
    write(&program, "out/writing.json.part", b"[");
    let ran = program.run(&[&WATCH[..], &["--once"]].concat()).expect(6);
    let out = program.directory().join("out");
    assert_eq!(
        below(&out.join("done")),
        [
            "good.json",
            "good.json.result.json",
            "some.ndjson",
            "some.ndjson.errors.ndjson",
            "some.ndjson.result.json"
        ]
    );
    assert_eq!(below(&out.join("failed")), ["broken.json", "broken.json.result.json"]);
    assert!(out.join("other.csv").exists() && out.join("writing.json.part").exists());
    assert!(
        ran.stderr.contains("out/good.json: COMPLETED, 2 items, 0 in error, moved to "),
        "{}",
        ran.stderr
    );
    assert_eq!(count(&cnpj).await, 2);

    let nothing = program.run(&[&WATCH[..], &["--once", "--error-on-nothing"]].concat());
    nothing.expect(9);
    // The same file once more is another load.
    write(&program, "out/good.json", &array(&items(&cnpj, 2, 0)));
    program.run(&[&WATCH[..], &["--once"]].concat()).expect(0);
    assert_eq!(below(&out.join("done")).iter().filter(|name| name.starts_with("good.json")).count(), 4);
}

#[tokio::test]
async fn a_directory_is_watched_until_the_program_is_asked_to_stop() {
    let (program, cnpj) = (CommandLine::new(), cnpj());
    let out = program.directory().join("out");
    std::fs::create_dir(&out).unwrap();
    let mut watching = program.command(&WATCH).spawn().unwrap();
    write(&program, "out/a.json", &array(&items(&cnpj, 1, 0)));
    let begin = Instant::now();
    while out.join("a.json").exists() {
        assert!(begin.elapsed() < PATIENCE, "{:?}", watching.try_wait());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let second = program.run(&[&WATCH[..], &["--once"]].concat()).expect(5);
    assert!(second.stderr.contains("another integrahub watches"), "{}", second.stderr);
    kill(Pid::from_raw(watching.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    let ran = Ran::of(&watching.wait_with_output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("stopping"), "{}", ran.stderr);
    assert_eq!(below(&out.join("done")), ["a.json", "a.json.result.json"]);
}

#[tokio::test]
async fn a_batch_is_shown_listed_and_replayed() {
    let (program, cnpj) = (CommandLine::new(), cnpj());
    write(&program, "a.ndjson", &lines(&items(&cnpj, 2, 1)));
    let sent = program.run(&["send", "--type", "delta", "a.ndjson", "-o", "json"]).expect(3);
    let id = files(&sent)[0]["batchId"].as_str().unwrap().to_owned();

    let shown = program.run(&["batches", "show", &id]).done();
    let has = |words: &[&str]| shown.lines().any(|line| line.split_whitespace().eq(words.iter().copied()));
    assert!(has(&["status", "COMPLETED"]) && has(&["in", "error", "1"]), "{shown}");
    let listed = program.run(&["batches", "list", "--max", "1000", "-o", "ndjson"]).done();
    assert!(listed.lines().any(|line| line.contains(&id)), "{id}");
    let errors = program.run(&["batches", "errors", &id, "-o", "json"]).json();
    assert_eq!(
        (&errors["items"][0]["code"], &errors["items"][0]["field"]),
        (&json!("FIELD_INVALID"), &json!("PRICE"))
    );
    program.run(&["batches", "errors", &id, "--file", "again.ndjson"]).done();
    let line = std::fs::read_to_string(program.directory().join("again.ndjson")).unwrap();
    assert!(line.contains("12,90") && line.lines().count() == 1, "{line}");

    let replayed = program.run(&["batches", "replay", &id, "--scope", "all", "-o", "json"]).expect(3);
    let replayed: Value = serde_json::from_str(&replayed.stdout).unwrap();
    assert_eq!((&replayed["generation"], &replayed["changes"]["unchanged"]), (&json!(2), &json!(2)));
    let refused = program.run(&["batches", "replay", &id]).expect(6);
    assert!(refused.stderr.contains("BATCH_NOT_REPLAYABLE"), "{}", refused.stderr);
    let refused = program.run(&["batches", "confirm", &id, "--yes"]).expect(6);
    assert!(refused.stderr.contains("nothing of the batch"), "{}", refused.stderr);
    program.run(&["batches", "show", &Uuid::new_v4().to_string()]).expect(6);
}

#[tokio::test]
async fn a_deactivation_that_is_held_waits_for_a_person() {
    let (program, catalogue) = (
        CommandLine::new(),
        Catalogue { items: 150, seed: Uuid::new_v4().as_u64_pair().0, ..Catalogue::default() },
    );
    write(&program, "full.ndjson", &catalogue.payload(Layout::Lines));
    program.run(&["send", "--type", "full", "full.ndjson"]).done();
    let cnpj = catalogue.cnpjs()[0].as_str().to_owned();
    write(&program, "short.ndjson", &lines(&items(&cnpj, 1, 0)));
    let sent = program.run(&["send", "--type", "full", "short.ndjson", "-o", "json"]).expect(7);
    assert!(sent.stderr.contains("deactivations are held"), "{}", sent.stderr);
    let id = files(&sent)[0]["batchId"].as_str().unwrap().to_owned();
    program.run(&["batches", "confirm", &id]).expect(2);
    let confirmed = program.run(&["batches", "confirm", &id, "--yes", "-o", "json"]).json();
    assert_eq!(confirmed["deactivation"]["state"], "done");
    assert!(
        Ingest::new().get(&id, "").await.expect(200).json()["changes"]["deactivated"].as_u64().unwrap() > 100
    );
}

#[tokio::test]
async fn the_status_and_any_path_can_be_asked_for() {
    let program = CommandLine::new();
    let status = program.run(&["status", "-o", "json"]).json();
    assert_eq!(
        (&status["schema"], &status["health"]["status"]),
        (&json!("integrahub.status.v1"), &json!("ok"))
    );
    assert!(status["status"]["version"].is_string(), "{status}");
    let limited = CommandLine::new().key(READONLY_KEY).run(&["status"]).expect(0);
    assert!(limited.stderr.contains("ops:read"), "{}", limited.stderr);
    let page = program.run(&["api", "GET", "/v1/inovafarma/batches?limit=1"]).json();
    assert!(page["batches"].is_array(), "{page}");
    let refused = program.run(&["api", "GET", "/nowhere"]).expect(6);
    assert!(refused.stderr.contains("ROUTE_NOT_FOUND") && refused.stdout.contains("traceId"), "{refused:?}");
}
