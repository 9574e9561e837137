//! Execution environment of a Lambda function in the crash tests: a process, and the Runtime API
//! from which the process gets its events.

use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use test_support::built;
use test_support::runtime_api::{Answer, Failure, RuntimeApi};
use test_support::template::Deployed;
use tokio::process::{Child, Command};
use uuid::Uuid;

use super::function::Invoked;

#[derive(Debug)]
pub(crate) struct Environment {
    child: Child,
    pub(crate) pid: Pid,
    api: RuntimeApi,
}

impl Environment {
    /// Starts a process and waits until it is initialized, since Lambda does not count that time as
    /// part of the first invocation.
    pub(crate) async fn start(function: &Deployed) -> Self {
        let name = &function.binary;
        let mut api = RuntimeApi::start(name).await;
        let child = Command::new(built::find(name).unwrap())
            .env_clear()
            .envs(function.variables.iter().map(|(name, value)| (name, value)))
            .env("AWS_LAMBDA_RUNTIME_API", api.address())
            .env("AWS_LAMBDA_FUNCTION_NAME", name)
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", function.memory_mb.to_string())
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            .envs(["SSL_CERT_FILE"].iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
        api.polled().await.unwrap_or_else(|error| panic!("{name}: {error}"));
        Self { child, pid, api }
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Passes an event to the process, and waits for its answer, for the end of the process or for
    /// the function's time-out, after which the process is killed.
    pub(crate) async fn invoke(&mut self, payload: Bytes, timeout: Duration) -> Invoked {
        tokio::select! {
            biased;
            Some(invoked) = answer(self.api.invoker.invoke(payload, timeout)) => invoked,
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
    }
}

/// Waits for the outcome of an invocation. Returns `None` if the process ended, since its exit
/// status says more.
async fn answer(invocation: impl Future<Output = Result<Answer, Failure>>) -> Option<Invoked> {
    match invocation.await {
        Ok(answer) => Some(Invoked::Answered(answer.body)),
        Err(Failure::Reported(error)) => Some(Invoked::Failed(error)),
        Err(Failure::Gone) => None,
    }
}
