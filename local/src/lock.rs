//! The lock of a directory: it has one stack, however many people type `make run`.

use std::fs::{File, TryLockError};
use std::io::{Seek as _, Write as _};
use std::path::Path;

use crate::failure::{Explain as _, Failure};

/// Held until dropped, or until the process ends in whatever way.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Holder of a lock that is taken.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) holder: String,
}

impl Lock {
    /// Takes the lock and writes `holder` into it, or says who has it.
    ///
    /// # Errors
    /// The file cannot be opened or written.
    pub(crate) fn take(path: &Path, holder: &str) -> Result<Result<Self, Taken>, Failure> {
        let explain = || format!("lock {}", path.display());
        if let Some(directory) = path.parent() {
            crate::layout::create(directory)?;
        }
        // Not truncated when opened: the text is the holder's until the lock is ours.
        let mut file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)
            .or_explain(explain)?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0).or_explain(explain)?;
                file.rewind().or_explain(explain)?;
                file.write_all(holder.as_bytes()).or_explain(explain)?;
                Ok(Ok(Self { _file: file }))
            }
            Err(TryLockError::WouldBlock) => {
                let holder = std::fs::read_to_string(path).unwrap_or_default();
                Ok(Err(Taken { holder }))
            }
            Err(TryLockError::Error(error)) => Err(error).or_explain(explain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_taker_learns_who_has_it_and_gets_it_afterwards() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/lock");
        let first = Lock::take(&path, "process 1").unwrap().unwrap();
        assert_eq!(Lock::take(&path, "process 2").unwrap().unwrap_err().holder, "process 1");
        drop(first);
        assert!(Lock::take(&path, "2").unwrap().is_ok());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "2");
    }
}
