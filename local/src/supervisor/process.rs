//! Processes as `/proc` shows them.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

/// Environment variable with the stack's state directory. Every process of a stack has it,
/// descendants included, so it identifies the processes of the stack.
pub(crate) const MARKER: &str = "INTEGRAHUB_LOCAL_STATE";

/// Returns the ids of the processes whose environment variable says that they belong to the stack
/// in `state`.
pub(crate) fn marked(state: &Path) -> Vec<i32> {
    let marker = [MARKER.as_bytes(), b"=", state.as_os_str().as_bytes()].concat();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            std::fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == marker))
        })
        .collect()
}

/// Returns the name of a process as the kernel has it, for messages.
pub(crate) fn name(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// Sends a signal to a process. It is no error if the process does not exist any more.
pub(crate) fn signal(pid: i32, signal: Signal) {
    let _gone = kill(Pid::from_raw(pid), signal);
}

/// Sends a signal to all processes of a group. It is no error if the group does not exist any more.
pub(crate) fn signal_group(leader: i32, signal: Signal) {
    let _gone = killpg(Pid::from_raw(leader), signal);
}
