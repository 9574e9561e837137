//! Lock of a stack's directory, so that at most one stack runs in it.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::Write as _;
use std::path::Path;

use nix::unistd::getpid;
use serde::{Deserialize, Serialize};

use crate::failure::{Explain as _, Failure};

/// Result of claiming a directory for a stack.
#[derive(Debug)]
pub(crate) enum Claim {
    /// The directory is claimed by this process. The claim ends when the locked file is closed,
    /// also by the end of the process.
    Ours(File),
    Taken(Holder),
}

/// Process that has claimed a directory: the supervisor of another stack.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) pid: i32,
    purpose: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "process {}, {}", self.pid, self.purpose)
    }
}

/// Claims a directory for this process, by locking its lock file. `purpose` tells other processes
/// what the directory is used for.
pub(crate) fn claim(path: &Path, purpose: &str) -> Result<Claim, Failure> {
    let explain = || format!("lock {}", path.display());
    if let Some(directory) = path.parent() {
        crate::layout::create(directory)?;
    }
    // Not truncated when opened: the text is the holder's until the lock is ours.
    let mut file = File::options().create(true).truncate(false).write(true).open(path).or_explain(explain)?;
    match file.try_lock() {
        Ok(()) => {
            file.set_len(0).or_explain(explain)?;
            let holder = Holder { pid: getpid().as_raw(), purpose: purpose.to_owned() };
            // In one write, so that nobody reads a part of it.
            file.write_all(&serde_json::to_vec(&holder).or_explain(explain)?).or_explain(explain)?;
            Ok(Claim::Ours(file))
        }
        // Read between its taking and its writing, the file is empty: there is a holder that cannot
        // be named yet.
        Err(TryLockError::WouldBlock) => {
            let holder = std::fs::read(path).or_explain(explain)?;
            let holder = serde_json::from_slice(&holder);
            holder.map(Claim::Taken).or_explain(|| "find out who uses this directory (try again)".into())
        }
        Err(TryLockError::Error(error)) => Err(error).or_explain(explain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_taker_learns_who_has_it_and_gets_it_afterwards() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/lock");
        let Claim::Ours(first) = claim(&path, "a long purpose").unwrap() else { panic!("it is free") };
        let Claim::Taken(holder) = claim(&path, "tests").unwrap() else { panic!("it is taken") };
        assert_eq!(holder.to_string(), format!("process {}, a long purpose", std::process::id()));
        drop(first);
        let Claim::Ours(_second) = claim(&path, "tests").unwrap() else { panic!("it is free again") };
        let Claim::Taken(holder) = claim(&path, "tests").unwrap() else { panic!("it is taken again") };
        assert_eq!(holder.purpose, "tests");
    }
}
