//! `local test`.

use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::process::Command;

use super::Signals;
use crate::console;
use crate::failure::{Explain as _, Failure};
use crate::front::{self, Kind};
use crate::layout::Layout;
use crate::lock::{Claim, Lock, claim};
use crate::stack::{self, Stack};
use crate::supervisor::process;
use crate::targets::Given;

/// Any free one.
const PORT: u16 = 0;
/// Time that an interrupted test run gets to end its tests.
const GRACE: Duration = Duration::from_secs(5);

pub(super) async fn test(command: Vec<String>) -> Result<ExitCode, Failure> {
    let mut signals = Signals::new()?;
    let layout = Layout::of_tests()?;
    let _lock = tokio::select! {
        stopped = signals.wait() => return Ok(stopped),
        lock = wait_for_turn(&layout) => lock?,
    };
    let door = front::bind(PORT, Kind::Http).await?;
    stack::during(&layout, door, &mut signals, Given::default(), async |stack, signals| {
        execute(&command, &layout, stack, signals).await
    })
    .await
}

async fn wait_for_turn(layout: &Layout) -> Result<Lock, Failure> {
    let mut told = false;
    loop {
        match claim(&layout.lock_file(), "tests")? {
            Claim::Ours(lock) => return Ok(lock),
            Claim::Taken(holder) if !told => {
                console::say(format_args!(
                    "Other tests are running in this directory ({holder}): waiting for them."
                ));
                told = true;
            }
            Claim::Taken(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

async fn execute(
    command: &[String],
    layout: &Layout,
    stack: &Stack,
    signals: &mut Signals,
) -> Result<ExitCode, Failure> {
    let explain = || format!("run `{}`", command.join(" "));
    let (program, arguments) =
        command.split_first().ok_or_else(|| Failure::new("There is no command to run."))?;
    console::say(format_args!("\n$ {}", command.join(" ")));
    let mut child = Command::new(program)
        .args(arguments)
        .envs(stack.variables().iter().map(|(name, value)| (name, value)))
        .env("INTEGRAHUB_STACK_ENV", layout.env_file())
        .spawn()
        .or_explain(explain)?;
    let guard = Terminated(child.id().and_then(|pid| i32::try_from(pid).ok()));
    tokio::select! {
        status = child.wait() => {
            guard.disarm();
            Ok(code(status.or_explain(explain)?))
        }
        stopped = signals.wait() => {
            drop(guard);
            let _ended = tokio::time::timeout(GRACE, child.wait()).await;
            Ok(stopped)
        }
    }
}

fn code(status: ExitStatus) -> ExitCode {
    // Ended by a signal there is no code, but there was no success either.
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Asks a process to end when dropped. If it were killed, its own children would be left running.
#[derive(Debug)]
struct Terminated(Option<i32>);

impl Terminated {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for Terminated {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            process::signal(pid, Signal::SIGTERM);
        }
    }
}
