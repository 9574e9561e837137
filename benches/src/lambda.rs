//! The part of AWS Lambda that runs a function: the Runtime API (version 2018-06-01) for one
//! execution environment, which takes one event at a time.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex as Cell, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::error::Error;

/// The longest that a function may take for anything.
const PATIENCE: Duration = Duration::from_secs(30);
const NO_ID: &str = "00000000-0000-4000-8000-000000000000";

/// What a function answered, and when.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) at: Instant,
    pub(crate) body: Bytes,
}

type Reply = oneshot::Sender<Result<Answer, String>>;

#[derive(Debug)]
struct Environment {
    polls: mpsc::UnboundedSender<Instant>,
    events: Mutex<mpsc::Receiver<(Bytes, Reply)>>,
    pending: Cell<Option<Reply>>,
}

/// Hands events to the function.
#[derive(Clone, Debug)]
pub(crate) struct Invoker(mpsc::Sender<(Bytes, Reply)>);

impl Invoker {
    pub(crate) async fn invoke(&self, event: Bytes) -> Result<Answer, Error> {
        let (reply, answer) = oneshot::channel();
        let gone = || Error::Unexpected("the function went away without an answer".to_owned());
        self.0.send((event, reply)).await.map_err(|_| gone())?;
        let answer = tokio::time::timeout(PATIENCE, answer)
            .await
            .map_err(|_| Error::Unexpected("the function does not answer".to_owned()))?;
        answer.map_err(|_| gone())?.map_err(Error::Unexpected)
    }
}

/// The Runtime API at an address of its own, while it is kept.
#[derive(Debug)]
pub(crate) struct RuntimeApi {
    pub(crate) address: SocketAddr,
    pub(crate) invoker: Invoker,
    polls: mpsc::UnboundedReceiver<Instant>,
    _server: Server,
}

impl RuntimeApi {
    pub(crate) async fn start() -> Result<Self, Error> {
        let (polls, polled) = mpsc::unbounded_channel();
        let (invoker, events) = mpsc::channel(1);
        let environment =
            Arc::new(Environment { polls, events: Mutex::new(events), pending: Cell::default() });
        let router = Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next))
            .route("/2018-06-01/runtime/invocation/{id}/response", post(response))
            .route("/2018-06-01/runtime/invocation/{id}/error", post(error))
            .route("/2018-06-01/runtime/init/error", post(error))
            .with_state(environment);
        let server = Server::start(router).await?;
        Ok(Self { address: server.address, invoker: Invoker(invoker), polls: polled, _server: server })
    }

    /// When the function asked for its next event.
    pub(crate) async fn polled(&mut self) -> Result<Instant, Error> {
        match tokio::time::timeout(PATIENCE, self.polls.recv()).await {
            Ok(Some(at)) => Ok(at),
            _ => Err(Error::Unexpected("the function does not ask for events".to_owned())),
        }
    }
}

async fn next(State(environment): State<Arc<Environment>>) -> impl IntoResponse {
    // Nobody listens any more where the first poll was all that mattered.
    let _ = environment.polls.send(Instant::now());
    let Some((event, reply)) = environment.events.lock().await.recv().await else {
        return Err(StatusCode::GONE);
    };
    environment.pending.lock().unwrap_or_else(PoisonError::into_inner).replace(reply);
    let deadline = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + PATIENCE;
    let header = HeaderName::from_static;
    let headers = [
        (header("content-type"), "application/json".to_owned()),
        (header("lambda-runtime-aws-request-id"), NO_ID.to_owned()),
        (header("lambda-runtime-deadline-ms"), deadline.as_millis().to_string()),
        (
            header("lambda-runtime-invoked-function-arn"),
            "arn:aws:lambda:us-east-1:000000000000:function:f".to_owned(),
        ),
        (header("lambda-runtime-trace-id"), "Root=1-00000000-000000000000000000000000;Sampled=0".to_owned()),
    ];
    Ok((headers, event))
}

async fn response(State(environment): State<Arc<Environment>>, body: Bytes) -> StatusCode {
    settle(&environment, Ok(Answer { at: Instant::now(), body }))
}

async fn error(State(environment): State<Arc<Environment>>, body: Bytes) -> StatusCode {
    settle(&environment, Err(format!("the function failed: {}", String::from_utf8_lossy(&body))))
}

fn settle(environment: &Environment, answer: Result<Answer, String>) -> StatusCode {
    let pending = environment.pending.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(reply) = pending {
        let _ = reply.send(answer);
    }
    StatusCode::ACCEPTED
}

/// An HTTP server on a free port of this machine, which ends with its value.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(router: Router) -> Result<Self, Error> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { address, task })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}
