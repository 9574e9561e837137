//! `integrahub produce`: puts messages on a queue or an exchange.

mod parts;

use serde_json::{Value, json};
use uuid::Uuid;

use self::parts::{Body, Parts};
use super::{Members, part_key, target, warn};
use crate::api::{Api, Call, Refusal};
use crate::args::Produce;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::input;
use crate::member::{number, text};
use crate::output::Output;
use crate::storage::Storage;

const PRODUCED: &str = "integrahub.produced.v1";
const PATH: &str = "/messages/produce";
/// Maximum number of bytes of a template file for generated messages.
const MAX_TEMPLATE: u64 = 4 * 1024 * 1024;

/// Runs `integrahub produce`: puts messages from files, lines or options, or generated ones.
pub(crate) async fn run(args: &Produce, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    let fixed = fixed(args).await?;
    let command_key = args.key.unwrap_or_else(Uuid::new_v4);
    let mut put = Put {
        api: Api::of(context)?,
        storage: Storage::new(),
        fixed,
        command_key,
        requests: 0,
        unfinished: 0,
        total: Total::default(),
    };
    let generated = generated(args).await?;
    if generated.is_none() && args.files.is_empty() && args.body.is_empty() {
        return Err(Failure::usage("there is nothing to put")
            .why("neither a file nor --body nor --count is given")
            .next("name files, `-` for standard input, or say --count to generate messages"));
    }
    if args.key.is_none() {
        out.note(&format!("idempotency key {command_key}"));
    }
    let done = match generated {
        Some(generated) => put.request(generated, out).await,
        None => put.all(Parts::of(args), out).await,
    };
    done.map_err(|failure| put.explained(failure))?;
    put.total.show(command_key, put.requests, out);
    Ok(Exit::Done)
}

/// Returns the JSON members that all produce requests of the command have.
async fn fixed(args: &Produce) -> Result<Members, Failure> {
    let mut body = target(&args.queue.target, args.queue.queue.as_deref()).await?;
    let routing = [("exchange", &args.exchange), ("routingKey", &args.routing_key)];
    for (name, value) in routing {
        if let Some(value) = value {
            let target = body.entry("target").or_insert_with(|| json!({}));
            if let Some(target) = target.as_object_mut() {
                target.insert(name.to_owned(), value.as_str().into());
            }
        }
    }
    for (name, members) in [("headers", &args.headers), ("mqProps", &args.properties)] {
        if !members.is_empty() {
            body.insert(name.to_owned(), Members::from_iter(members.iter().cloned()).into());
        }
    }
    Ok(body)
}

/// Returns the JSON members of a request that makes the API generate messages; `None` if no option
/// asks for generated messages.
async fn generated(args: &Produce) -> Result<Option<Members>, Failure> {
    if args.count.is_none() && args.size.is_none() && args.template.is_none() {
        return Ok(None);
    }
    let mut batch = Members::new();
    batch.insert("count".to_owned(), json!(args.count.unwrap_or(1)));
    if let Some(size) = args.size {
        batch.insert("messageSizeBytes".to_owned(), json!(size));
    }
    if let Some(rate) = args.rate {
        batch.insert("rateLimitPerSec".to_owned(), json!(rate));
    }
    if let Some(tx) = args.tx {
        batch.insert("transaction".to_owned(), json!({"enabled": true, "txSize": tx}));
    }
    let mut members = Members::new();
    members.insert("batch".to_owned(), batch.into());
    if let Some(template) = &args.template {
        let template = match template.strip_prefix('@') {
            None => template.clone(),
            Some(path) => {
                let text = input::read(path.as_ref(), MAX_TEMPLATE).await?;
                String::from_utf8(text).map_err(|_| Failure::usage(format!("{path} is not UTF-8")))?
            }
        };
        members.insert("payload".to_owned(), json!({"mode": "template", "template": template}));
    }
    Ok(Some(members))
}

/// State of one `integrahub produce`: its clients, the requests sent, and the messages put so far.
struct Put {
    api: Api,
    storage: Storage,
    fixed: Members,
    command_key: Uuid,
    requests: u32,
    /// Number of messages that the failed request is known to have put; 0 if no request failed.
    unfinished: u64,
    total: Total,
}

impl Put {
    async fn all(&mut self, mut parts: Parts, out: &mut Output) -> Result<(), Failure> {
        while let Some(bodies) = parts.next().await? {
            self.messages(bodies, out).await?;
        }
        Ok(())
    }

    /// Puts messages with these bodies in one request.
    async fn messages(&mut self, bodies: Vec<Body>, out: &mut Output) -> Result<(), Failure> {
        let mut messages = Vec::with_capacity(bodies.len());
        for body in bodies {
            messages.push(match body {
                Body::Inline(message) => message,
                Body::Stored(bytes) => {
                    let answer = parts::upload(&self.api, &self.storage, &bytes).await?;
                    json!({"bodyRef": text(&answer, "bodyRef")})
                }
            });
        }
        let members = Members::from_iter([("messages".to_owned(), Value::Array(messages))]);
        self.request(members, out).await
    }

    async fn request(&mut self, members: Members, out: &mut Output) -> Result<(), Failure> {
        let mut body = self.fixed.clone();
        body.extend(members);
        let key = part_key(self.command_key, self.requests).to_string();
        let answer = self.api.send(&Call::change(PATH, &key, &body.into())).await;
        let answer = answer.map_err(|refusal| self.refused(refusal))?.json()?;
        warn(&answer, out);
        self.total.add(&answer);
        self.requests = self.requests.saturating_add(1);
        Ok(())
    }

    fn refused(&mut self, refusal: Refusal) -> Failure {
        self.unfinished = refusal.done.unwrap_or_default();
        refusal.failure
    }

    /// Adds to a failure how many messages were put, and that the same command with the same key
    /// continues.
    fn explained(&self, failure: Failure) -> Failure {
        let put = self.total.enqueued.saturating_add(self.unfinished);
        if put == 0 && failure.exit == Exit::Usage {
            return failure;
        }
        let count = format!("{put} messages are on the queue");
        let why = failure.why.as_ref().map_or_else(|| count.clone(), |why| format!("{why}; {count}"));
        let again =
            format!("run the same command again with --key {}: it goes on from there", self.command_key);
        let next = match &failure.next {
            // Nothing can be put twice, and what is corrected is another request.
            Some(next) if put == 0 && failure.exit == Exit::Refused => next.clone(),
            Some(next) if failure.exit != Exit::Temporary => format!("{next}; then {again}"),
            _ => again,
        };
        failure.why(why).next(next)
    }
}

/// Result of all produce requests of a command: sums of their counts, and ids of the first and the
/// last message.
#[derive(Clone, Debug, Default)]
struct Total {
    target: String,
    enqueued: u64,
    bytes: u64,
    possible_duplicates: u64,
    first_id: Value,
    last_id: Value,
}

impl Total {
    fn add(&mut self, answer: &Value) {
        text(answer, "target").clone_into(&mut self.target);
        self.enqueued = self.enqueued.saturating_add(number(answer, "enqueued"));
        self.bytes = self.bytes.saturating_add(number(answer, "bytes"));
        self.possible_duplicates =
            self.possible_duplicates.saturating_add(number(answer, "possibleDuplicates"));
        let id = |name: &str| answer.get(name).cloned().unwrap_or_default();
        if self.first_id.is_null() {
            self.first_id = id("firstMsgIdBase64");
        }
        self.last_id = id("lastMsgIdBase64");
    }

    fn show(&self, command_key: Uuid, requests: u32, out: &mut Output) {
        let document = json!({
            "target": self.target,
            "enqueued": self.enqueued,
            "bytes": self.bytes,
            "possibleDuplicates": self.possible_duplicates,
            "firstMsgIdBase64": self.first_id,
            "lastMsgIdBase64": self.last_id,
            "requests": requests,
            "key": command_key,
        });
        let id = |id: &Value| id.as_str().unwrap_or_default().to_owned();
        let mut rows = vec![
            ("target", self.target.clone()),
            ("messages", self.enqueued.to_string()),
            ("bytes", self.bytes.to_string()),
            ("first id", id(&self.first_id)),
            ("last id", id(&self.last_id)),
        ];
        if self.possible_duplicates > 0 {
            rows.push(("perhaps twice", self.possible_duplicates.to_string()));
        }
        out.thing(PRODUCED, &document, &rows);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use test_support::http_server::{self, Server};

    use super::*;
    use crate::args::{QueueArgs, TargetArgs};
    use crate::output::Format;
    use crate::output::memory::output;

    type Seen = Arc<Mutex<Vec<(String, Value)>>>;

    fn args() -> Produce {
        let target = TargetArgs { target: Some("t".to_owned()), target_file: None };
        Produce {
            files: Vec::new(),
            queue: QueueArgs { target, queue: Some("Q".to_owned()) },
            body: Vec::new(),
            lines: false,
            headers: Vec::new(),
            properties: Vec::new(),
            count: None,
            size: None,
            template: None,
            rate: None,
            tx: None,
            exchange: None,
            routing_key: None,
            key: None,
        }
    }

    /// Runs `integrahub produce` against a server that refuses the request with this index.
    async fn produced(
        args: &Produce,
        refused: usize,
    ) -> (Vec<(String, Value)>, Result<Exit, Failure>, String) {
        let seen = Seen::default();
        let requests = Arc::clone(&seen);
        let server = Server::start(move |request| {
            let key = request.headers()["idempotency-key"].to_str().unwrap().to_owned();
            let body: Value = serde_json::from_slice(request.body()).unwrap();
            let mut requests = requests.lock().unwrap();
            let count = body["messages"].as_array().map_or(1, Vec::len);
            let answer = if requests.len() == refused {
                let problem = json!({"title": "No", "reason": "EXCEEDS_VOLUME", "enqueued": 2});
                http_server::response(422, problem.to_string())
            } else {
                let id = format!("id{}", requests.len());
                let answer = json!({"target": "/:Q", "enqueued": count, "bytes": count,
                    "possibleDuplicates": 0, "firstMsgIdBase64": id, "lastMsgIdBase64": id, "warnings": []});
                http_server::response(201, answer.to_string())
            };
            requests.push((key, body));
            async move { Some(answer) }
        })
        .await;
        let context = Context {
            url: Some(server.url().parse().unwrap()),
            api_key: Some("k".to_owned().into()),
            ..Context::default()
        };
        let (mut out, data, _) = output(Format::Json, None);
        let exit = run(args, &context, &mut out).await;
        let seen = seen.lock().unwrap().clone();
        (seen, exit, data.text())
    }

    #[tokio::test]
    async fn generated_messages_follow_the_options() {
        let args = Produce {
            count: Some(50),
            template: Some("{{seq}}".to_owned()),
            rate: Some(10),
            tx: Some(5),
            ..args()
        };
        let (seen, ..) = produced(&args, 9).await;
        let batch =
            json!({"count": 50, "rateLimitPerSec": 10, "transaction": {"enabled": true, "txSize": 5}});
        assert_eq!((&seen[0].1["batch"], &seen[0].1["payload"]["template"]), (&batch, &json!("{{seq}}")));
    }

    #[tokio::test]
    async fn an_exchange_takes_the_place_of_the_queue() {
        let args = Produce {
            queue: QueueArgs { queue: None, ..args().queue },
            exchange: Some("E".to_owned()),
            routing_key: Some("r.{{seq}}".to_owned()),
            body: vec!["x".to_owned()],
            ..args()
        };
        let (seen, ..) = produced(&args, 9).await;
        assert_eq!(seen[0].1["target"], json!({"exchange": "E", "routingKey": "r.{{seq}}"}));
    }

    #[tokio::test]
    async fn many_lines_are_several_requests_whose_keys_follow_from_the_run() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lines");
        std::fs::write(&path, "line\r\n\n".repeat(12_345)).unwrap();
        let args = Produce { files: vec![path], lines: true, key: Some(Uuid::new_v4()), ..args() };
        let (seen, exit, shown) = produced(&args, 9).await;
        assert_eq!(exit, Ok(Exit::Done));
        let counts: Vec<usize> =
            seen.iter().map(|(_, body)| body["messages"].as_array().unwrap().len()).collect();
        assert_eq!(counts, [10_000, 2_345]);
        assert_eq!(seen[0].1["messages"][0], json!({"bodyText": "line"}));
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!((&shown["firstMsgIdBase64"], &shown["lastMsgIdBase64"]), (&json!("id0"), &json!("id1")));
        let keys = |seen: &[(String, Value)]| seen.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
        assert_eq!(keys(&produced(&args, 9).await.0), keys(&seen), "another run with the key repeats them");

        let (_, exit, _) = produced(&args, 1).await;
        let failure = exit.unwrap_err();
        assert!(failure.why.unwrap().contains("10002 messages are on the queue"));
        assert!(failure.next.unwrap().contains(&format!("--key {}", args.key.unwrap())));
    }
}
