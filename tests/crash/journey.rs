//! Client that repeats a request until it is done, and the checks of what must hold then, whatever
//! faults happened before.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use end_to_end::{Answer, Message, Queue, variable};
use flate2::write::GzDecoder;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::crash::fault::{Fault, Struck};
use crate::crash::results;
use crate::crash::stand::faults::Op;
use crate::crash::stand::{Asked, Operation, Record, Reply, Stand};

/// Maximum number of times that a client sends one request. More than one is needed only because of
/// leases and of the remains of earlier faults.
const TRIES: usize = 8;
/// Pause of a client before it repeats a request whose store did not respond in time.
const BUSY: Duration = Duration::from_secs(1);
/// Time in seconds for which an execution keeps others from its record.
pub(crate) const LEASE: u64 = 37;
/// Maximum time for the broker to requeue the unacknowledged messages of a lost connection.
pub(crate) const PUT_BACK: Duration = Duration::from_secs(60);

/// Kind of work in an operation under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Up to 120 small messages, without a rate limit.
    Usual,
    /// Produce that takes two seconds because of its rate limit.
    Paced,
    /// Consume whose result is too large for the record, so that it goes to S3.
    Large,
    /// Consume of messages that are too large for a response, so that their bodies go to S3.
    Stored,
}

/// Time in microseconds within which most operations begin and end.
const MOMENTS: u64 = 80_000;
/// Rate of a produce with [`Load::Paced`], in messages per second.
const PACE: usize = 40;
/// Size in bytes of a message of [`Load::Large`]. A record cannot hold four, even compressed.
const LARGE: usize = 100_000;
/// Size in bytes of a message of [`Load::Stored`]: too large for text and base64 in a response.
const STORED: usize = 2_400_000;

/// Operation under test, from the client's first request to the final checks.
#[derive(Debug)]
pub(crate) struct Journey {
    pub(crate) asked: Asked,
    pub(crate) queue: Queue,
    /// Number of messages that a produce puts, or the maximum that a consume or move asks for.
    pub(crate) count: usize,
    pub(crate) there: BTreeSet<String>,
    /// Queue to which a move moves messages. `None` for other operations.
    pub(crate) into: Option<Queue>,
    /// Responses that the client got so far, in order.
    pub(crate) replies: Vec<Reply>,
}

impl Journey {
    /// Chooses an operation's size at random, and prepares its queue.
    pub(crate) async fn begin(
        stand: &Stand,
        operation: Operation,
        load: Load,
        random: &mut fastrand::Rng,
    ) -> Self {
        let queue = stand.broker.queue().await;
        let count = match load {
            Load::Usual => random.usize(2..120),
            Load::Paced => PACE * 2,
            Load::Large => random.usize(4..8),
            Load::Stored => random.usize(2..4),
        };
        let (mut there, mut into) = (BTreeSet::new(), None);
        let members = match (operation, load) {
            (Operation::Produce, Load::Paced) => {
                json!({"batch": {"count": count, "rateLimitPerSec": PACE}})
            }
            (Operation::Produce, _) => json!({
                "batch": {"count": count, "messageSizeBytes": random.usize(0..2000),
                    "transaction": {"enabled": random.bool(), "txSize": random.usize(1..50)}},
            }),
            (Operation::Consume, _) => {
                there = put_some(stand, &queue, load, count, random).await;
                let large = if load == Load::Stored { "store" } else { "refuse" };
                json!({"maxMessages": count, "waitSeconds": 0, "large": large})
            }
            (Operation::Move, _) => {
                there = put_some(stand, &queue, load, count, random).await;
                let new = into.insert(stand.broker.queue().await);
                json!({"to": {"queue": new.name}, "max": count})
            }
        };
        let asked = stand.request(operation, &queue, members);
        Self { asked, queue, count, there, into, replies: Vec::new() }
    }

    /// Sends the request, and inflicts a fault on it at a random point. Returns the response.
    pub(crate) async fn suffer(
        &mut self,
        stand: &mut Stand,
        fault: Fault,
        random: &mut fastrand::Rng,
    ) -> Reply {
        // The later half of a paced produce comes after a first checkpoint.
        let at = if self.is_paced() {
            random.usize(self.count / 2..self.count)
        } else {
            random.usize(1..self.count)
        };
        let moment = Duration::from_micros(random.u64(0..MOMENTS));
        let struck = Struck { asked: &self.asked, queue: &self.queue, at, moment };
        let reply = fault.strike(stand, struck).await;
        self.replies.push(reply.clone());
        reply
    }

    fn is_paced(&self) -> bool {
        !self.asked.body["batch"]["rateLimitPerSec"].is_null()
    }

    /// Returns the number of messages that are ready on the queue now, and the number that were
    /// ready before the operation.
    pub(crate) async fn on_queue(&self, stand: &Stand) -> (usize, usize) {
        (stand.broker.ready(&self.queue).await, self.there.len())
    }

    /// Repeats the request without faults until it is done and recorded. Does not wait for a lease
    /// to end, but ends it in the record.
    pub(crate) async fn until_done(&mut self, stand: &mut Stand) -> Reply {
        for _ in 0..TRIES {
            stand.heal().await;
            let reply = ask_in_time(stand, &self.asked).await;
            self.replies.push(reply.clone());
            let answer = &reply.answer;
            match answer.status {
                200 | 201 if self.status(stand).await.as_deref() == Some("COMPLETED") => return reply,
                200 | 201 => stand.age(&self.asked).await,
                409 => {
                    let answer = answer.clone().expect_problem(409, "IDEMPOTENT_REQUEST_IN_PROGRESS");
                    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
                    assert!((1..=LEASE).contains(&seconds), "Retry-After: {seconds}");
                    stand.age(&self.asked).await;
                }
                status => panic!("nothing is wrong any more, and the answer is {status}: {}", told(answer)),
            }
        }
        panic!(
            "it is never done: {:?}",
            self.replies.iter().map(|reply| told(&reply.answer)).collect::<Vec<_>>()
        );
    }

    /// Returns the responses so far as text, in order, for the test's output.
    pub(crate) fn told(&self) -> String {
        self.replies.iter().map(|reply| told_more(&reply.answer)).collect::<Vec<_>>().join(", then ")
    }

    /// Returns the status in the operation's record. Returns `None` if there is no record.
    pub(crate) async fn status(&self, stand: &Stand) -> Option<String> {
        let record = stand.record(&self.asked).await?;
        Some(record["status"].as_s().unwrap().clone())
    }

    /// Checks all guarantees once the operation is done, and deletes its queue. Returns the number
    /// of messages that are there more than once, or both on a queue and in the response.
    pub(crate) async fn check(self, stand: &Stand, done: &Reply) -> usize {
        self.check_replays(stand, &done.answer).await;
        let copies = match self.asked.operation {
            Operation::Produce => self.check_produced(stand, &done.answer).await,
            Operation::Consume => self.check_consumed(stand, &done.answer).await,
            Operation::Move => self.check_moved(stand, &done.answer).await,
        };
        stand.broker.delete(&self.queue).await;
        copies
    }

    /// Checks that replays return the recorded response byte for byte, that another body is
    /// refused, and that neither is executed.
    async fn check_replays(&self, stand: &Stand, done: &Answer) {
        let before = stand.faults.seen(Op::Invoke);
        for _ in 0..2 {
            let replay = ask_in_time(stand, &self.asked).await.answer;
            assert_eq!(replay.header("idempotent-replay"), Some("true"));
            assert_eq!((replay.status, &replay.bytes), (done.status, &done.bytes));
            assert_eq!(replay.header("content-digest"), done.header("content-digest"));
        }
        let other = other_body(&self.asked);
        ask_in_time(stand, &other).await.answer.expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");
        assert_eq!(stand.faults.seen(Op::Invoke), before, "a replay was executed");
        let record = stand.record(&self.asked).await.unwrap();
        assert_eq!(recorded(&record).await, done.bytes, "the record holds another answer");
    }

    /// Checks that all messages of a produce are on the queue, and copies of one only if they are
    /// equal and the response counts them. Returns the number of messages with copies.
    async fn check_produced(&self, stand: &Stand, done: &Answer) -> usize {
        let answer = done.json();
        let number = |name: &str| usize::try_from(answer[name].as_u64().unwrap()).unwrap();
        assert_eq!(number("enqueued"), self.count);
        let mut by_index: BTreeMap<i64, Vec<Message>> = BTreeMap::new();
        for message in settled(stand, &self.queue).await {
            by_index.entry(message.sequence().unwrap()).or_default().push(message);
        }
        let indexes: Vec<_> = (0..i64::try_from(self.count).unwrap()).collect();
        assert_eq!(
            by_index.keys().copied().collect::<Vec<_>>(),
            indexes,
            "messages are missing, or too many"
        );
        for (index, copies) in &by_index {
            assert!(copies.iter().all(|copy| *copy == copies[0]), "copies of message {index} differ");
        }
        let twice = by_index.values().filter(|copies| copies.len() > 1).count();
        let possible = number("possibleDuplicates");
        assert!(possible <= self.count, "{possible} possible duplicates of {}", self.count);
        assert!(
            twice <= possible,
            "{twice} messages are there more than once, and the answer says {possible}"
        );
        twice
    }

    /// Checks that each message is in the response or on the queue, and in both only if the
    /// response says so. Returns the number of those in both.
    async fn check_consumed(&self, stand: &Stand, done: &Answer) -> usize {
        let answered = self.messages(done);
        for message in done.json()["messages"].as_array().unwrap() {
            check_stored(stand, message).await;
        }
        for reply in self.replies.iter().filter(|reply| reply.answer.status == 200) {
            assert_eq!(
                self.messages(&reply.answer),
                answered,
                "two answers under one key hold different messages"
            );
        }
        let got: BTreeSet<_> = answered.iter().cloned().collect();
        assert_eq!(got.len(), answered.len(), "a message is in the answer twice");
        let (mut left, started) = (Vec::new(), Instant::now());
        loop {
            let more = stand.broker.drain(&self.queue).await;
            left.extend(more.into_iter().map(|found| String::from_utf8(found.body).unwrap()));
            let all: BTreeSet<_> = got.iter().chain(&left).cloned().collect();
            if all == self.there {
                break;
            }
            let lost: Vec<_> = self.there.difference(&all).collect();
            assert!(started.elapsed() < PUT_BACK, "{} messages are lost: {lost:?}", lost.len());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let rest: BTreeSet<_> = left.iter().cloned().collect();
        assert_eq!(rest.len(), left.len(), "a message is on the queue twice");
        let both = got.intersection(&rest).count();
        let doubt = done.json()["deliveryInDoubt"].as_bool().unwrap();
        assert!(
            both == 0 || doubt,
            "{both} messages are answered and on the queue, and the answer does not say so"
        );
        both
    }

    /// Returns the bodies of the response's messages, including those that it only refers to.
    fn messages(&self, answer: &Answer) -> Vec<String> {
        let body = |message: &Value| match message["bodySha256"].as_str() {
            None => message["bodyText"].as_str().unwrap().to_owned(),
            Some(digest) => self.there.iter().find(|body| sha256(body.as_bytes()) == digest).unwrap().clone(),
        };
        answer.json()["messages"].as_array().unwrap().iter().map(body).collect()
    }
}

/// Sends a request without faults. Repeats it while the store does not respond in time, as on a
/// busy machine; nothing was done then.
pub(crate) async fn ask_in_time(stand: &Stand, asked: &Asked) -> Reply {
    in_time(async || stand.ask(asked).await, |reply| &reply.answer).await
}

async fn in_time<T>(ask: impl AsyncFn() -> T, answer: impl Fn(&T) -> &Answer) -> T {
    for _ in 0..TRIES {
        let given = ask().await;
        if told(answer(&given)) != "503 STORE_UNAVAILABLE" {
            return given;
        }
        tokio::time::sleep(BUSY).await;
    }
    ask().await
}

/// Checks that a body in S3 which a message refers to can be read. The URL's signature is for the
/// proxy's name, so it is verified elsewhere (`tests/large.rs`).
async fn check_stored(stand: &Stand, message: &Value) {
    let Some(path) = message["bodyUrl"].as_str() else { return };
    let redirect = in_time(async || stand.get(path).await, |answer| answer).await;
    assert_eq!(redirect.status, 303, "{}", told(&redirect));
    let signed = Url::parse(redirect.header("location").unwrap()).unwrap();
    let body = reqwest::get(format!("{}{}", variable("AWS_ENDPOINT_URL"), signed.path())).await.unwrap();
    let body = body.error_for_status().unwrap().bytes().await.unwrap();
    let size = u64::try_from(body.len()).unwrap();
    let expected = (Some(size), Some(sha256(&body)));
    assert_eq!((message["bodySize"].as_u64(), message["bodySha256"].as_str().map(str::to_owned)), expected);
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Puts `count` to twice as many messages on a queue, and returns their bodies.
async fn put_some(
    stand: &Stand,
    queue: &Queue,
    load: Load,
    count: usize,
    random: &mut fastrand::Rng,
) -> BTreeSet<String> {
    let there = stored(load, count + random.usize(0..=count), random);
    stand.broker.put(queue, there.iter().map(String::as_str)).await;
    ready_becomes(stand, queue, there.len()).await;
    there
}

/// Returns a request with the same idempotency key as `asked` and another body.
pub(crate) fn other_body(asked: &Asked) -> Asked {
    let mut other = asked.clone();
    match asked.operation {
        Operation::Produce => other.body["headers"] = json!({"other": "body"}),
        Operation::Consume => other.body["ack"] = json!("rollback"),
        Operation::Move => other.body["max"] = json!(999),
    }
    other
}

/// Returns the status and the reason of a response, such as `503 BUSY`.
pub(crate) fn told(answer: &Answer) -> String {
    let body: Value = serde_json::from_slice(&answer.bytes).unwrap_or_default();
    match body["reason"].as_str() {
        Some(reason) => format!("{} {reason}", answer.status),
        None => answer.status.to_string(),
    }
}

/// Returns the status and the reason of a response, and its members about duplicates and doubt.
fn told_more(answer: &Answer) -> String {
    let body: Value = serde_json::from_slice(&answer.bytes).unwrap_or_default();
    let members = ["resumedFrom", "possibleDuplicates", "deliveryInDoubt"];
    let more = members.iter().filter(|name| !body[**name].is_null());
    more.fold(told(answer), |told, name| format!("{told} {name} {}", body[*name]))
}

/// Returns the response body that a record contains, or that its object in S3 contains.
async fn recorded(record: &Record) -> Vec<u8> {
    let gzip = match record.get("responsePayload") {
        Some(AttributeValue::S(text)) => return text.clone().into_bytes(),
        Some(AttributeValue::B(gzip)) => gzip.clone().into_inner(),
        _ => results::read(record).await,
    };
    let mut inflated = GzDecoder::new(Vec::new());
    inflated.write_all(&gzip).unwrap();
    inflated.finish().unwrap()
}

/// Returns `count` different message bodies. Large ones are random, so they hardly compress.
fn stored(load: Load, count: usize, random: &mut fastrand::Rng) -> BTreeSet<String> {
    let mut body = |n| match load {
        Load::Large => (0..LARGE).map(|_| random.alphanumeric()).collect(),
        Load::Stored => (0..STORED).map(|_| random.alphanumeric()).collect(),
        Load::Usual | Load::Paced => format!("message {n}"),
    };
    (0..count).map(&mut body).collect()
}

/// Takes all messages from a queue, also those that a broken connection delivers a moment later.
pub(crate) async fn settled(stand: &Stand, queue: &Queue) -> Vec<Message> {
    let mut messages = stand.broker.drain(queue).await;
    tokio::time::sleep(Duration::from_millis(30)).await;
    messages.extend(stand.broker.drain(queue).await);
    messages
}

pub(crate) async fn ready_becomes(stand: &Stand, queue: &Queue, expected: usize) {
    let started = Instant::now();
    while stand.broker.ready(queue).await != expected {
        assert!(started.elapsed() < PUT_BACK, "the queue never holds {expected}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
