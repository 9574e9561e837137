//! Tests of `integrahub send` against a fake API.

use std::sync::Mutex;

use bytes::Bytes;
use clap::Parser as _;
use http::{HeaderValue, Request, Response};
use test_support::http_server::{self, Server};
use tokio::sync::watch as signal;

use super::*;
use crate::api::Schedule;
use crate::args::{Cli, Command};

const ITEM: &str = r#"{"CNPJ": "05927228000145", "SHOPID": 1, "PRODUCTID": 1}"#;

/// Fake API that accepts every load, and records its requests.
#[derive(Clone, Default)]
struct Deployment(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    requests: Vec<Request<Bytes>>,
    /// Idempotency keys of the loads that the fake API accepted. The position of a key is the
    /// batch's id.
    batches: Vec<String>,
    uploaded: bool,
    /// Responses that the next POST requests receive in place of the usual ones; `None` sends no
    /// response.
    failures: Vec<Option<Response<Bytes>>>,
    /// Status of every batch that the fake API returns; `COMPLETED` if `None`.
    status: Option<&'static str>,
}

impl Deployment {
    async fn start(&self) -> Server {
        let own = self.clone();
        Server::start(move |request| {
            let answer = own.answer(request);
            async move { answer }
        })
        .await
    }

    fn answer(&self, request: Request<Bytes>) -> Option<Response<Bytes>> {
        let mut state = self.0.lock().unwrap();
        let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
        let host = request.headers()["host"].to_str().unwrap().to_owned();
        let key = request.headers().get("idempotency-key").map(|key| key.to_str().unwrap().to_owned());
        state.requests.push(request);
        if method == "POST" && !state.failures.is_empty() {
            return state.failures.remove(0);
        }
        let json = |status, body: Value| Some(http_server::response(status, body.to_string()));
        match (method.as_str(), path.as_str()) {
            ("PUT", "/object") => {
                state.uploaded = true;
                json(200, json!(null))
            }
            ("POST", path) => {
                let key = key.unwrap();
                let known = state.batches.iter().position(|known| *known == key);
                let number = known.unwrap_or(state.batches.len());
                if known.is_none() {
                    state.batches.push(key);
                }
                let headers = json!({"x-amz-meta-batch-id": "1"});
                let upload = (path.ends_with("/uploads") && !state.uploaded)
                    .then(|| json!({"url": format!("http://{host}/object"), "headers": headers}));
                let body = json!({"batch_id": number.to_string(), "status": "RECEIVED", "upload": upload});
                let mut answer = http_server::response(202, body.to_string());
                if known.is_some() {
                    answer.headers_mut().insert("idempotent-replay", HeaderValue::from_static("true"));
                }
                Some(answer)
            }
            ("GET", path) => {
                let id = path.rsplit('/').next().unwrap();
                let status = state.status.unwrap_or("COMPLETED");
                json(200, json!({"batch_id": id, "status": status, "items_parsed": 1, "items_processed": 1}))
            }
            other => panic!("{other:?}"),
        }
    }

    fn fail_with(&self, failures: Vec<Option<Response<Bytes>>>) {
        self.0.lock().unwrap().failures = failures;
    }

    /// Returns the paths and idempotency keys of the POST requests that the fake API has received.
    fn posts(&self) -> Vec<(String, String)> {
        let state = self.0.lock().unwrap();
        let posts = state.requests.iter().filter(|request| request.method() == "POST");
        let text =
            |request: &Request<Bytes>| request.headers()["idempotency-key"].to_str().unwrap().to_owned();
        posts.map(|request| (request.uri().path().to_owned(), text(request))).collect()
    }
}

/// Client of a test, with its own directory of files and journal, and the fake API that it sends
/// to.
struct Till {
    directory: tempfile::TempDir,
    deployment: Deployment,
    server: Server,
}

impl Till {
    async fn start() -> Self {
        let deployment = Deployment::default();
        let server = deployment.start().await;
        Self { directory: tempfile::tempdir().unwrap(), deployment, server }
    }

    fn file(&self, name: &str, content: &str) -> std::path::PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    fn sender(&self) -> (Arc<Sender>, signal::Sender<bool>) {
        let millisecond = Duration::from_millis(1);
        let schedule = Schedule { first: millisecond, longest: millisecond, total: Duration::from_secs(10) };
        let key = "ihub_key".to_owned().into();
        let (stop, stopping) = signal::channel(false);
        let sender = Sender {
            api: Api::at(&self.server.url().parse().unwrap(), Some(&key), schedule).unwrap(),
            storage: Storage::new(),
            journal: Journal::at(&self.directory.path().join("state")).unwrap(),
            args: args(),
            news: mpsc::unbounded_channel().0,
            stopping,
        };
        (Arc::new(sender), stop)
    }

    /// Sends files as one `integrahub send` command does, and returns their outcomes.
    async fn send(&self, paths: &[std::path::PathBuf]) -> Vec<Sent> {
        let (sender, _stop) = self.sender();
        send(sender, paths).await
    }
}

fn args() -> Send {
    let line = ["integrahub", "send", "--type", "full", "a.json"];
    match Cli::try_parse_from(line).unwrap().command {
        Command::Send(args) => args,
        other => panic!("{other:?}"),
    }
}

async fn send(sender: Arc<Sender>, paths: &[std::path::PathBuf]) -> Vec<Sent> {
    let mut pipeline = Pipeline::new(sender, None, 4);
    paths.iter().for_each(|path| pipeline.add(Source::file(path)));
    let mut sent = Vec::new();
    while let Some(ended) = pipeline.next().await {
        sent.push(ended);
    }
    sent.sort_by_key(|sent| sent.file);
    sent
}

fn too_large(body: &Value) -> Option<Response<Bytes>> {
    Some(http_server::response(413, body.to_string()))
}

#[tokio::test]
async fn what_one_request_cannot_carry_is_uploaded_under_the_same_key() {
    for body in [json!({"reason": "USE_UPLOAD"}), json!({"message": "Request Entity Too Large"})] {
        let till = Till::start().await;
        let path = till.file("a.json", &format!("[{ITEM}]"));
        till.deployment.fail_with(vec![too_large(&body)]);
        assert_eq!(till.send(std::slice::from_ref(&path)).await[0].exit(), Exit::Done);
        let posts = till.deployment.posts();
        assert_eq!(posts.len(), 2);
        assert!(posts[1].0.ends_with("/products/uploads") && posts[0].1 == posts[1].1, "{posts:?}");
        let state = till.deployment.0.lock().unwrap();
        let put = state.requests.iter().find(|request| request.method() == "PUT").unwrap();
        assert_eq!(put.body(), &std::fs::read(path).unwrap());
    }
}

#[tokio::test]
async fn a_payload_that_is_too_large_for_the_deployment_is_refused() {
    let till = Till::start().await;
    let path = till.file("a.json", &format!("[{ITEM}]"));
    till.deployment.fail_with(vec![too_large(&json!({"reason": "MAX_PAYLOAD_EXCEEDED", "title": "t"}))]);
    let sent = till.send(std::slice::from_ref(&path)).await;
    assert_eq!(sent[0].exit(), Exit::Refused);
    let first = till.deployment.posts()[0].1.clone();
    till.send(&[path]).await;
    assert_eq!(till.deployment.posts()[1].1, first, "what was refused has used up no key");
}

#[tokio::test]
async fn files_of_one_establishment_arrive_in_their_order() {
    let till = Till::start().await;
    let busy = || Some(http_server::response(503, json!({"reason": "BUSY"}).to_string()));
    // The first one needs several attempts. The others wait for it.
    till.deployment.fail_with(vec![busy(), None, busy()]);
    let paths: Vec<_> =
        (0..6).map(|n| till.file(&format!("{n}.ndjson"), &format!("{ITEM}\n").repeat(n + 1))).collect();
    let sent = till.send(&paths).await;
    assert!(sent.iter().all(|sent| sent.exit() == Exit::Done), "{sent:?}");
    let arrived = till.deployment.0.lock().unwrap().batches.clone();
    let keys: Vec<String> = sent.iter().map(|sent| sent.entry.as_ref().unwrap().key.clone()).collect();
    assert_eq!(arrived, keys);
}

#[tokio::test]
async fn a_program_that_is_asked_to_stop_leaves_the_rest_for_the_next_start() {
    let till = Till::start().await;
    till.deployment.0.lock().unwrap().status = Some("PROCESSING");
    let path = till.file("a.json", &format!("[{ITEM}]"));
    let (sender, stop) = till.sender();
    let paths = [path];
    let running = tokio::spawn(async move { send(sender, &paths).await });
    while till.deployment.posts().is_empty() {
        tokio::task::yield_now().await;
    }
    stop.send_replace(true);
    let sent = running.await.unwrap();
    assert!(matches!(sent[0].end, End::Accepted(_)), "{sent:?}");
}

#[tokio::test]
async fn later_files_of_an_establishment_wait_for_one_that_is_tried_again() {
    let till = Till::start().await;
    let (sender, _stop) = till.sender();
    let mut sender = Arc::into_inner(sender).unwrap();
    sender.args.watch = Some(till.directory.path().to_owned());
    sender.api = sender.api.trying_for(Duration::ZERO);
    let sender = Arc::new(sender);
    let busy = http_server::response(503, json!({"reason": "BUSY"}).to_string());
    till.deployment.fail_with(vec![Some(busy)]);
    let other = ITEM.replace("05927228000145", "11444777000161");
    let [first, second, other] = [(1, ITEM), (2, ITEM), (3, other.as_str())]
        .map(|(number, item)| till.file(&format!("{number}.ndjson"), &format!("{item}\n").repeat(number)));
    let mut pipeline = Pipeline::new(sender, None, 1);
    let mut ends = Vec::new();
    for path in [&first, &second, &other] {
        pipeline.add(Source::file(path));
        ends.push(pipeline.next().await.unwrap().end);
    }
    assert!(matches!(ends[0], End::Failed(_)) && matches!(ends[1], End::Stopped), "{ends:?}");
    assert!(matches!(ends[2], End::Final(_)), "another establishment does not wait: {ends:?}");
    assert_eq!(till.deployment.posts().len(), 2);

    pipeline.release("05927228000145");
    for path in [&first, &second] {
        pipeline.add(Source::file(path));
        assert!(matches!(pipeline.next().await.unwrap().end, End::Final(_)));
    }
}

#[tokio::test]
async fn content_that_returns_is_loaded_again_although_nobody_waited_for_the_first_batch() {
    let till = Till::start().await;
    let path = till.file("a.json", &format!("[{ITEM}]"));
    let accepted = async |again: bool| {
        let (sender, _stop) = till.sender();
        let mut sender = Arc::into_inner(sender).unwrap();
        (sender.args.no_wait, sender.args.again) = (true, again);
        let sent = send(Arc::new(sender), std::slice::from_ref(&path)).await;
        assert!(matches!(sent[0].end, End::Accepted(_)) && !sent[0].is_replay, "{sent:?}");
        till.deployment.0.lock().unwrap().batches.len()
    };
    assert_eq!(accepted(false).await, 1);
    assert_eq!(accepted(false).await, 2, "the first batch is final by now");
    till.deployment.0.lock().unwrap().status = Some("PROCESSING");
    assert_eq!(accepted(false).await, 2, "the second batch is not");
    assert_eq!(accepted(true).await, 3, "--again is another load");
}

#[tokio::test]
async fn a_watched_file_whose_batch_failed_is_loaded_again_when_it_is_put_back() {
    let till = Till::start().await;
    till.deployment.0.lock().unwrap().status = Some("FAILED");
    let path = till.file("a.json", &format!("[{ITEM}]"));
    for load in 1..3 {
        let (sender, _stop) = till.sender();
        let mut sender = Arc::into_inner(sender).unwrap();
        sender.args.watch = Some(till.directory.path().to_owned());
        let finished = FinishedFiles::of(till.directory.path());
        let mut pipeline = Pipeline::new(Arc::new(sender), Some(finished), 1);
        pipeline.add(Source::file(&path));
        let sent = pipeline.next().await.unwrap();
        assert_eq!(till.deployment.0.lock().unwrap().batches.len(), load);
        std::fs::rename(sent.moved_to().unwrap(), &path).unwrap();
    }
}

#[tokio::test]
async fn only_what_the_api_itself_refuses_is_moved_to_failed() {
    let strange = json!("<html>");
    for (status, body, fails) in [
        (404, &strange, false),
        (404, &json!({"reason": "ROUTE_NOT_FOUND"}), false),
        (400, &strange, false),
        (422, &json!({"reason": "SCHEMA_VIOLATION"}), true),
    ] {
        let till = Till::start().await;
        till.deployment.fail_with(vec![Some(http_server::response(status, body.to_string()))]);
        let path = till.file("a.json", &format!("[{ITEM}]"));
        let (sender, _stop) = till.sender();
        let mut pipeline = Pipeline::new(sender, Some(FinishedFiles::of(till.directory.path())), 1);
        pipeline.add(Source::file(&path));
        let sent = pipeline.next().await.unwrap();
        let exit = if fails { Exit::Refused } else { Exit::Temporary };
        assert_eq!((sent.exit(), sent.moved_to().is_some()), (exit, fails), "{status} {body}");
        assert_eq!(path.exists(), !fails);
    }
}
