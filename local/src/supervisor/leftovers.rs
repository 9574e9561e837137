//! The processes that a killed supervisor left running.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::process;
use crate::components::postgres;
use crate::layout::Layout;

/// Time that leftover processes have to end before they are killed. It is short, since their data
/// are discarded.
const GRACE: Duration = Duration::from_secs(2);

/// Ends every process of the stack in `layout` that still runs. The processes are found by their
/// environment variable with the stack's directory. Only the holder of the stack's lock may call
/// this. Returns the names and ids of the ended processes.
pub(crate) async fn end(layout: &Layout) -> Vec<String> {
    let mut ended = signal_all(layout, Signal::SIGTERM);
    let deadline = tokio::time::Instant::now() + GRACE;
    while !found(layout).is_empty() && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Once more and for good, until nothing new turns up: a dying parent may have started one in
    // between.
    for _ in 0..20 {
        let more = signal_all(layout, Signal::SIGKILL);
        if more.is_empty() {
            break;
        }
        ended.extend(more);
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    postgres::forget(layout);
    ended.sort();
    ended.dedup();
    ended
}

fn signal_all(layout: &Layout, signal: Signal) -> Vec<String> {
    found(layout)
        .into_iter()
        .map(|pid| {
            let name = format!("{} ({pid})", process::name(pid));
            process::signal(pid, signal);
            name
        })
        .collect()
}

fn found(layout: &Layout) -> Vec<i32> {
    let own = i32::try_from(std::process::id()).ok();
    process::marked(&layout.state).into_iter().filter(|pid| Some(*pid) != own).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[tokio::test]
    async fn marked_processes_end_and_others_stay() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::at(directory.path());
        let sleep = || {
            let mut command = Command::new("sleep");
            command.arg("60").stdout(Stdio::null());
            command
        };
        let mut marked = sleep().env(process::MARKER, &layout.state).spawn().unwrap();
        let mut stranger = sleep().spawn().unwrap();
        assert_eq!(end(&layout).await, [format!("sleep ({})", marked.id())]);
        assert!(marked.wait().is_ok());
        assert!(stranger.try_wait().unwrap().is_none());
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}
