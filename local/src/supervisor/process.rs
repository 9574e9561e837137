//! Processes as `/proc` shows them.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

/// Every process of a stack, however deep, carries its state directory in this environment
/// variable.
pub(crate) const MARKER: &str = "INTEGRAHUB_LOCAL_STATE";

/// Returns the time at which a process started, in clock ticks since boot: with it, a pid that the
/// system gave away again is not taken for the process that had it before. `None` where there is no
/// such process, or only its zombie.
pub(crate) fn start_time(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse_start_time(&stat)
}

/// Field 22 of proc_pid_stat(5), counted after the command's name, which may hold blanks and
/// brackets itself.
fn parse_start_time(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Processes of this user whose environment says that they belong to the stack in `state`.
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

/// A process's name as the system keeps it, for messages.
pub(crate) fn name(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// Signals a process. A process that has gone already is no error.
pub(crate) fn signal(pid: i32, signal: Signal) {
    let _gone = kill(Pid::from_raw(pid), signal);
}

/// Signals all processes of a group. A group that has gone already is no error.
pub(crate) fn signal_group(leader: i32, signal: Signal) {
    let _gone = killpg(Pid::from_raw(leader), signal);
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_start_time_survives_odd_command_names_and_zombies_have_none() {
        let tail = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(parse_start_time(&format!("7 (a) S b) S {tail}")), Some(4711));
        assert_eq!(parse_start_time(&format!("7 (sh) Z {tail}")), None);
        assert_eq!(start_time(i32::MAX), None);
    }

    #[test]
    fn a_marked_process_is_found_by_its_environment() {
        let state = tempfile::tempdir().unwrap();
        let mut child =
            Command::new("sleep").arg("60").env(MARKER, state.path()).stdout(Stdio::null()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert_eq!(marked(state.path()), [pid]);
        assert_eq!(name(pid), "sleep");
        signal(pid, Signal::SIGKILL);
        child.wait().unwrap();
        assert_eq!(marked(state.path()), [] as [i32; 0]);
    }
}
