//! Stand-in for the part of AWS Lambda that runs a function: the Runtime API (version 2018-06-01)
//! for one execution environment, which takes one event at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{Method, Request};
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};
use uuid::Uuid;

use crate::http_server::{self, Server, response};

/// Time limit for a function to ask for its next event.
const PATIENCE: Duration = Duration::from_secs(90);

/// Response of a function to an event, and the time at which it arrived.
#[derive(Clone, Debug)]
pub struct Answer {
    pub at: Instant,
    pub body: Bytes,
}

/// Reason why a function did not answer an event, or did not ask for its next one.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// Error that the function reported, at its start or while it handled an event.
    #[error("the function failed: {}", String::from_utf8_lossy(.0))]
    Reported(Bytes),
    #[error("the function went away, or neither answers nor asks for events")]
    Gone,
}

type Reply = oneshot::Sender<Result<Answer, Failure>>;

#[derive(Debug)]
struct Event {
    payload: Bytes,
    deadline: SystemTime,
    reply: Reply,
}

#[derive(Debug)]
struct Environment {
    arn: String,
    polls: mpsc::UnboundedSender<Result<Instant, Failure>>,
    events: AsyncMutex<mpsc::Receiver<Event>>,
    pending: Mutex<HashMap<String, Reply>>,
}

/// Client that sends events to the function of a [`RuntimeApi`]. Clones send to the same execution
/// environment.
#[derive(Clone, Debug)]
pub struct Invoker(mpsc::Sender<Event>);

impl Invoker {
    /// Sends an event to the function and waits for the answer without a time limit. `time` only
    /// sets the deadline that the function is told.
    ///
    /// # Errors
    /// If the function fails, or goes away.
    pub async fn invoke(&self, payload: Bytes, time: Duration) -> Result<Answer, Failure> {
        let (reply, answer) = oneshot::channel();
        let deadline = SystemTime::now() + time;
        self.0.send(Event { payload, deadline, reply }).await.map_err(|_| Failure::Gone)?;
        answer.await.map_err(|_| Failure::Gone)?
    }
}

/// Fake Lambda Runtime API for one execution environment, on a port of its own. It stops when it is
/// dropped.
#[derive(Debug)]
pub struct RuntimeApi {
    pub invoker: Invoker,
    server: Server,
    polls: mpsc::UnboundedReceiver<Result<Instant, Failure>>,
}

impl RuntimeApi {
    /// Starts the Runtime API for a function of this name.
    pub async fn start(name: &str) -> Self {
        let (polls, polled) = mpsc::unbounded_channel();
        let (invoker, events) = mpsc::channel(1);
        let environment = Arc::new(Environment {
            arn: format!("arn:aws:lambda:us-east-1:000000000000:function:{name}"),
            polls,
            events: AsyncMutex::new(events),
            pending: Mutex::default(),
        });
        let server = Server::start(move |request| {
            let environment = Arc::clone(&environment);
            async move { environment.answer(&request).await }
        })
        .await;
        Self { invoker: Invoker(invoker), server, polls: polled }
    }

    /// Returns the value for the function's environment variable `AWS_LAMBDA_RUNTIME_API`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.server.port)
    }

    /// Waits until the function asks for its next event, and returns the time at which it did.
    ///
    /// # Errors
    /// If it fails to start, or does not ask in time.
    pub async fn polled(&mut self) -> Result<Instant, Failure> {
        let polled = tokio::time::timeout(PATIENCE, self.polls.recv()).await;
        polled.ok().flatten().unwrap_or(Err(Failure::Gone))
    }
}

impl Environment {
    async fn answer(&self, request: &Request<Bytes>) -> http_server::Answer {
        let path: Vec<_> = request.uri().path().split('/').skip(2).collect();
        let body = request.body().clone();
        match (request.method(), path.as_slice()) {
            (&Method::GET, ["runtime", "invocation", "next"]) => self.next().await,
            (&Method::POST, ["runtime", "invocation", id, "response"]) => {
                self.end(id, Ok(Answer { at: Instant::now(), body }))
            }
            (&Method::POST, ["runtime", "invocation", id, "error"]) => {
                self.end(id, Err(Failure::Reported(body)))
            }
            (&Method::POST, ["runtime", "init", "error"]) => {
                self.poll(Err(Failure::Reported(body)));
                Some(response(202, ""))
            }
            _ => Some(response(404, "")),
        }
    }

    async fn next(&self) -> http_server::Answer {
        self.poll(Ok(Instant::now()));
        let event = self.events.lock().await.recv().await?;
        let id = Uuid::new_v4().to_string();
        let deadline = event.deadline.duration_since(UNIX_EPOCH).unwrap().as_millis().to_string();
        self.pending.lock().unwrap().insert(id.clone(), event.reply);
        let mut next = response(200, event.payload);
        for (name, value) in [
            ("content-type", "application/json"),
            ("lambda-runtime-aws-request-id", id.as_str()),
            ("lambda-runtime-deadline-ms", deadline.as_str()),
            ("lambda-runtime-invoked-function-arn", self.arn.as_str()),
            ("lambda-runtime-trace-id", "Root=1-00000000-000000000000000000000000;Sampled=0"),
        ] {
            next.headers_mut().insert(name, value.parse().unwrap());
        }
        Some(next)
    }

    fn poll(&self, polled: Result<Instant, Failure>) {
        // Nobody listens any more if the first poll was all that mattered.
        let _ = self.polls.send(polled);
    }

    fn end(&self, id: &str, result: Result<Answer, Failure>) -> http_server::Answer {
        if let Some(reply) = self.pending.lock().unwrap().remove(id) {
            let _ = reply.send(result);
        }
        Some(response(202, ""))
    }
}
