//! Program that runs while a local stack is up: the demonstration or the command of `local test`.

use std::ops::ControlFlow;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::process::Command;

use super::Signals;
use crate::failure::{Explain as _, Failure};
use crate::stack::Stack;
use crate::supervisor::process;

/// Time that a program has to end after a signal.
const GRACE: Duration = Duration::from_secs(5);

/// Runs a program with the stack's environment variables, and returns its exit status. If a signal
/// stops this process earlier, the program gets SIGTERM, and the exit code for the signal is
/// returned.
pub(super) async fn run(
    mut command: Command,
    name: &str,
    stack: &Stack,
    signals: &mut Signals,
) -> Result<ControlFlow<ExitCode, ExitStatus>, Failure> {
    let explain = || format!("run `{name}`");
    let mut child = command
        .envs(stack.variables.iter().map(|(name, value)| (name, value)))
        .spawn()
        .or_explain(explain)?;
    let guard = Terminated(child.id().and_then(|pid| i32::try_from(pid).ok()));
    tokio::select! {
        // Ctrl-C may have ended the program as well.
        biased;
        stopped = signals.wait() => {
            drop(guard);
            let _ended = tokio::time::timeout(GRACE, child.wait()).await;
            Ok(ControlFlow::Break(stopped))
        }
        status = child.wait() => {
            // It has ended by itself.
            std::mem::forget(guard);
            Ok(ControlFlow::Continue(status.or_explain(explain)?))
        }
    }
}

/// Guard that sends SIGTERM to a process when dropped. SIGKILL would leave the process's children
/// running.
#[derive(Debug)]
struct Terminated(Option<i32>);

impl Drop for Terminated {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            process::signal(pid, Signal::SIGTERM);
        }
    }
}
