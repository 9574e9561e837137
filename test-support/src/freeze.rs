//! Suspension of a process with all its threads.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Time limit for all threads of a process to stop. They stop within microseconds, unless the
/// machine is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Stops a process by SIGSTOP, and returns when all of its threads have stopped. A thread that
/// still runs could answer a request. SIGCONT resumes the process.
///
/// # Panics
/// If there is no such process, or a thread does not stop.
pub fn freeze(pid: Pid) {
    kill(pid, Signal::SIGSTOP).unwrap();
    let began = Instant::now();
    while !stands_still(pid) {
        assert!(began.elapsed() < PATIENCE, "process {pid} does not stop");
        std::thread::yield_now();
    }
}

/// Returns true if every thread of the process is stopped, or the process has ended.
fn stands_still(pid: Pid) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    threads.filter_map(Result::ok).all(|thread| is_stopped(&thread.path().join("stat")))
}

/// Returns true if the `stat` file of a thread shows it as stopped or ended. The state follows the
/// name, which is in parentheses and may contain any character (proc(5)).
fn is_stopped(stat: &Path) -> bool {
    let Ok(text) = std::fs::read_to_string(stat) else { return true };
    let state = text.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    matches!(state, Some('T' | 't' | 'Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_stands_still_until_it_may_go_on() {
        let mut process = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(process.id()).unwrap());
        assert!(!stands_still(pid));
        freeze(pid);
        assert!(stands_still(pid));
        kill(pid, Signal::SIGCONT).unwrap();
        let began = Instant::now();
        while stands_still(pid) {
            assert!(began.elapsed() < PATIENCE, "it does not go on");
        }
        process.kill().unwrap();
        process.wait().unwrap();
    }
}
