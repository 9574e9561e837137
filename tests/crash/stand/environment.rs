//! One execution environment of a function: its process, and the Runtime API that it asks for work.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{Method, Request};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::sync::{Mutex as AsyncMutex, Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::function::{Invoked, Settings};
use super::wire::{self, response};

const PATIENCE: Duration = Duration::from_secs(30);

/// An event on its way to the process.
#[derive(Debug)]
struct Event {
    payload: Bytes,
    deadline: SystemTime,
    answer: oneshot::Sender<Result<Bytes, Bytes>>,
}

#[derive(Debug)]
struct RuntimeApi {
    events: AsyncMutex<mpsc::Receiver<Event>>,
    pending: Mutex<HashMap<String, oneshot::Sender<Result<Bytes, Bytes>>>>,
    /// The process has asked for work.
    initialized: Notify,
    arn: String,
}

#[derive(Debug)]
pub(crate) struct Environment {
    child: Child,
    pub(crate) pid: Pid,
    events: mpsc::Sender<Event>,
    server: JoinHandle<()>,
}

impl Environment {
    /// Starts a process and waits until it is initialized, which is not part of the first
    /// invocation's time.
    pub(crate) async fn start(settings: &Settings) -> Self {
        let (listener, port) = wire::listen().await;
        let (events, receiver) = mpsc::channel(1);
        let api = Arc::new(RuntimeApi {
            events: AsyncMutex::new(receiver),
            pending: Mutex::default(),
            initialized: Notify::new(),
            arn: format!("arn:aws:lambda:us-east-1:000000000000:function:{}", settings.name),
        });
        let served = Arc::clone(&api);
        let server = tokio::spawn(wire::serve(listener, move |request| {
            let api = Arc::clone(&served);
            async move { api.answer(&request).await }
        }));
        let child = Command::new(&settings.binary)
            .env_clear()
            .envs(settings.variables.iter().map(|(name, value)| (name, value)))
            .env("AWS_LAMBDA_RUNTIME_API", format!("127.0.0.1:{port}"))
            .env("AWS_LAMBDA_FUNCTION_NAME", &settings.name)
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", settings.memory_mb.to_string())
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{} (is it built?): {error}", settings.binary.display()));
        let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
        let started = tokio::time::timeout(PATIENCE, api.initialized.notified()).await;
        started.unwrap_or_else(|_| panic!("{} asks for no work", settings.name));
        Self { child, pid, events, server }
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Hands an event to the process and waits for its answer, its end, or the function's time-out,
    /// as Lambda does.
    pub(crate) async fn invoke(&mut self, payload: Bytes, timeout: Duration) -> Invoked {
        let (answer, answered) = oneshot::channel();
        let deadline = SystemTime::now() + timeout;
        self.events.send(Event { payload, deadline, answer }).await.unwrap();
        tokio::select! {
            biased;
            Ok(answered) = answered => match answered {
                Ok(payload) => Invoked::Answered(payload),
                Err(error) => Invoked::Failed(error),
            },
            status = self.child.wait() => {
                let text = format!(r#"{{"errorType":"Runtime.ExitError","errorMessage":"RequestId: {} Error: Runtime exited with error: {}"}}"#, Uuid::new_v4(), status.unwrap());
                Invoked::Failed(text.into())
            }
            () = tokio::time::sleep(timeout) => {
                self.kill();
                let text = format!(r#"{{"errorType":"Sandbox.Timedout","errorMessage":"RequestId: {} Error: Task timed out after {:.2} seconds"}}"#, Uuid::new_v4(), timeout.as_secs_f64());
                Invoked::TimedOut(text.into())
            }
        }
    }

    fn kill(&self) {
        let _ = kill(self.pid, Signal::SIGKILL);
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        self.kill();
        self.server.abort();
    }
}

impl RuntimeApi {
    async fn answer(&self, request: &Request<Bytes>) -> wire::Answer {
        let path: Vec<_> = request.uri().path().split('/').skip(2).collect();
        match (request.method(), path.as_slice()) {
            (&Method::GET, ["runtime", "invocation", "next"]) => self.next().await,
            (&Method::POST, ["runtime", "invocation", id, "response"]) => {
                self.end(id, Ok(request.body().clone()))
            }
            (&Method::POST, ["runtime", "invocation", id, "error"]) => {
                self.end(id, Err(request.body().clone()))
            }
            (&Method::POST, ["runtime", "init", "error"]) => {
                panic!("the function did not start: {}", String::from_utf8_lossy(request.body()))
            }
            _ => Some(response(404, "")),
        }
    }

    async fn next(&self) -> wire::Answer {
        self.initialized.notify_one();
        let event = self.events.lock().await.recv().await?;
        let id = Uuid::new_v4().to_string();
        let deadline = event.deadline.duration_since(UNIX_EPOCH).unwrap().as_millis();
        self.pending.lock().unwrap().insert(id.clone(), event.answer);
        let mut next = response(200, event.payload);
        for (name, value) in [
            ("lambda-runtime-aws-request-id", id),
            ("lambda-runtime-deadline-ms", deadline.to_string()),
            ("lambda-runtime-invoked-function-arn", self.arn.clone()),
            ("content-type", "application/json".to_owned()),
        ] {
            next.headers_mut().insert(name, value.parse().unwrap());
        }
        Some(next)
    }

    fn end(&self, id: &str, result: Result<Bytes, Bytes>) -> wire::Answer {
        if let Some(answer) = self.pending.lock().unwrap().remove(id) {
            let _ = answer.send(result);
        }
        Some(response(202, ""))
    }
}
