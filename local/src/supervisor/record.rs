//! Pid files: which process is which component.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::process;
use crate::failure::{Explain as _, Failure};

/// Started component, as its pid file holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) pid: i32,
    start_time: u64,
}

impl Record {
    /// None when the process has ended already.
    pub(crate) fn of(name: &str, pid: i32) -> Option<Self> {
        let start_time = process::start_time(pid)?;
        Some(Self { name: name.to_owned(), pid, start_time })
    }

    /// Whether the process still runs, and is the one that was started.
    pub(crate) fn is_alive(&self) -> bool {
        process::start_time(self.pid) == Some(self.start_time)
    }

    /// # Errors
    /// What the file system says.
    pub(crate) fn write(&self, directory: &Path) -> Result<(), Failure> {
        let path = self.path(directory);
        let explain = || format!("write {}", path.display());
        let text = serde_json::to_vec(self).or_explain(explain)?;
        std::fs::write(&path, text).or_explain(explain)
    }

    pub(crate) fn remove(&self, directory: &Path) {
        let _gone = std::fs::remove_file(self.path(directory));
    }

    fn path(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{}.pid", self.name))
    }

    /// All records of a directory, none where there is no such directory. A file that was cut short
    /// by a crash or a full disk says nothing and is skipped; its process is still found by its
    /// environment.
    pub(crate) fn all(directory: &Path) -> Vec<Self> {
        let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
        entries
            .flatten()
            .filter_map(|entry| serde_json::from_slice(&std::fs::read(entry.path()).ok()?).ok())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_pid_is_not_the_recorded_process() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let record = Record::of("self", pid).unwrap();
        assert!(record.is_alive());
        let earlier = Record { start_time: record.start_time - 1, ..record };
        assert!(!earlier.is_alive());
    }

    #[test]
    fn records_come_back_and_broken_files_are_skipped() {
        let directory = tempfile::tempdir().unwrap();
        let record = Record::of("self", i32::try_from(std::process::id()).unwrap()).unwrap();
        record.write(directory.path()).unwrap();
        std::fs::write(directory.path().join("broken.pid"), "{\"na").unwrap();
        assert_eq!(Record::all(directory.path()), std::slice::from_ref(&record));
        record.remove(directory.path());
        assert_eq!(Record::all(directory.path()), []);
        assert_eq!(Record::all(&directory.path().join("missing")), []);
    }
}
