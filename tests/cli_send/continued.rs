//! Tests of `integrahub send` with content that was sent before: by a process that was killed, or
//! by another machine.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use end_to_end::{CommandLine, Ran, variable};
use http::{Request, Response};
use serde_json::json;
use test_support::http_server::{Answer, Server};

use super::{PATIENCE, cnpj, files, items, lines, write};

/// Modes of [`Front`], which decide what it does with a request.
mod front {
    /// Forwards every request and response.
    pub(super) const PASS: u8 = 0;
    /// Forwards requests, but withholds the responses to POST.
    pub(super) const KEEP_ANSWERS: u8 = 1;
    /// Withholds GET requests, and forwards the others.
    pub(super) const KEEP_LOOKS: u8 = 2;
}

/// HTTP proxy between the program `integrahub` and the API, which can withhold requests or
/// responses.
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

    /// Returns a command of `integrahub` that reaches the API through this proxy.
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

/// Runs a command to its end without blocking the test's other tasks.
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
