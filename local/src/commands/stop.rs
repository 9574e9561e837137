//! `local stop`: stops every stack of this repository.

use std::process::ExitCode;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::console::{during, say};
use crate::failure::Failure;
use crate::layout::Layout;
use crate::lock::{Claim, claim};
use crate::supervisor::{leftovers, process};

/// Time limit for a supervisor to stop its components.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) async fn stop() -> Result<ExitCode, Failure> {
    let mut nothing = true;
    for (what, layout) in [("the stack", Layout::of_run()?), ("the tests' stack", Layout::of_tests()?)] {
        if !layout.state.exists() {
            continue;
        }
        nothing &= !stop_supervisor(what, &layout).await?;
        let ended = leftovers::end(&layout).await;
        // A supervisor that was killed has left it.
        let _missing = std::fs::remove_file(layout.env_file());
        if !ended.is_empty() {
            nothing = false;
            say(format_args!("Ended what {what} had left running: {}", ended.join(", ")));
        }
    }
    if nothing {
        say("Nothing of this directory is running.");
    }
    Ok(ExitCode::SUCCESS)
}

/// Stops the supervisor, and returns whether one ran. A supervisor that does not end in time is
/// killed.
async fn stop_supervisor(what: &str, layout: &Layout) -> Result<bool, Failure> {
    let Claim::Taken(holder) = claim(&layout.lock_file(), "stop")? else { return Ok(false) };
    process::signal(holder.pid, Signal::SIGTERM);
    let gone = tokio::time::timeout(PATIENCE, async {
        while matches!(claim(&layout.lock_file(), "stop"), Ok(Claim::Taken(_))) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    if during(&format!("stopping {what}"), "usually 3 s", gone).await.is_err() {
        process::signal(holder.pid, Signal::SIGKILL);
    }
    say(format_args!("Stopped {what} ({holder})."));
    Ok(true)
}
