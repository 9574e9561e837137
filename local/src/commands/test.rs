//! `local test`: runs a command against a separate stack for tests.

use std::fs::File;
use std::ops::ControlFlow;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use tokio::process::Command;

use super::{Signals, child};
use crate::console;
use crate::failure::Failure;
use crate::front::{self, Kind};
use crate::layout::Layout;
use crate::lock::{Claim, claim};
use crate::stack::{self, Stack};
use crate::targets::Given;

/// Port of the API; 0 lets the system choose a free port.
const PORT: u16 = 0;

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

async fn wait_for_turn(layout: &Layout) -> Result<File, Failure> {
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
    let (program, arguments) =
        command.split_first().ok_or_else(|| Failure::new("There is no command to run."))?;
    let line = command.join(" ");
    console::say(format_args!("\n$ {line}"));
    let mut command = Command::new(program);
    command.args(arguments).env("INTEGRAHUB_STACK_ENV", layout.env_file());
    Ok(match child::run(command, &line, stack, signals).await? {
        ControlFlow::Continue(status) => code(status),
        ControlFlow::Break(stopped) => stopped,
    })
}

fn code(status: ExitStatus) -> ExitCode {
    // Ended by a signal there is no code, but there was no success either.
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}
