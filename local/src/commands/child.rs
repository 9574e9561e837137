//! A program that runs beside a stack.

use std::ops::ControlFlow;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::process::Command;

use super::Signals;
use crate::failure::{Explain as _, Failure};
use crate::stack::Stack;
use crate::supervisor::process;

/// Time that a program gets to end if a signal asks for it.
const GRACE: Duration = Duration::from_secs(5);

/// Runs a program with the variables of the stack, and returns how it ended. If a signal asks to
/// stop before, the program is asked to end too, and there is the exit code for the signal.
///
/// # Errors
/// If the program cannot be run.
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

/// Asks a process to end when dropped. If it were killed, its own children would be left running.
#[derive(Debug)]
struct Terminated(Option<i32>);

impl Drop for Terminated {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            process::signal(pid, Signal::SIGTERM);
        }
    }
}
