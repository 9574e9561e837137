//! TLS settings that all connections of the process share, because IBM's client has one set for the
//! whole process.
//!
//! The first TLS connection of a process sets its key repository. A later connection with another
//! key repository would silently use the first one. The client accepts new settings only after all
//! TLS connections have ended, so each of them holds a lease on the settings in use. The key
//! repository is on disk for as long as there are leases.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::key_repository::{Identity, KeyRepository, Written};

/// TLS settings in use, which all connections of the process have to share, since IBM's client has
/// one key repository for the whole process; `None` without TLS connections.
#[derive(Debug, Default)]
pub(crate) struct TlsInUse(Mutex<Option<InUse>>);

#[derive(Debug)]
struct InUse {
    identity: Identity,
    written: Written,
    connections: usize,
}

/// Lease of one connection on the TLS settings that all connections of the process share. Dropping
/// the last lease removes the key repository's files.
#[derive(Debug)]
pub(crate) struct TlsLease {
    of: Arc<TlsInUse>,
    /// Path of the key repository, in the form that the client expects.
    pub(crate) file: PathBuf,
    /// True if another connection already had a lease on the same settings.
    pub(crate) is_joined: bool,
}

impl TlsInUse {
    /// Returns the TLS settings of this process, the same at each call.
    pub(crate) fn of_process() -> Arc<Self> {
        static IN_USE: Mutex<Option<Arc<TlsInUse>>> = Mutex::new(None);
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(in_use.get_or_insert_default())
    }

    /// Returns a lease on `repository`, or `None` if open connections use another key repository.
    /// The first lease writes the repository below `directory`.
    pub(crate) fn lease(
        self: &Arc<Self>,
        repository: &KeyRepository,
        directory: &Path,
    ) -> io::Result<Option<TlsLease>> {
        let mut in_use = self.lock();
        let (file, is_joined) = match in_use.as_mut() {
            Some(used) if used.identity == repository.identity => {
                used.connections += 1;
                (used.written.file.clone(), true)
            }
            Some(_) => return Ok(None),
            None => {
                let written = repository.write(directory)?;
                let file = written.file.clone();
                *in_use = Some(InUse { identity: repository.identity, written, connections: 1 });
                (file, false)
            }
        };
        Ok(Some(TlsLease { of: Arc::clone(self), file, is_joined }))
    }

    fn lock(&self) -> MutexGuard<'_, Option<InUse>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TlsLease {
    fn drop(&mut self) {
        let mut in_use = self.of.lock();
        if let Some(used) = in_use.as_mut() {
            used.connections = used.connections.saturating_sub(1);
            if used.connections == 0 {
                *in_use = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(password: &str) -> KeyRepository {
        KeyRepository::parse(&format!(r#"{{"p12":"AQI=","password":"{password}"}}"#).into()).unwrap()
    }

    #[test]
    fn other_settings_wait_until_the_last_connection_with_the_first_has_ended() {
        let directory = tempfile::tempdir().unwrap();
        let in_use = Arc::new(TlsInUse::default());
        let lease = |repository| in_use.lease(repository, directory.path()).unwrap();
        // The same files, with another password.
        let (one, other) = (repository("a"), repository("b"));
        let (first, second) = (lease(&one).unwrap(), lease(&one).unwrap());
        assert!(!first.is_joined && second.is_joined);
        let file = first.file.clone();
        assert!(lease(&other).is_none());
        drop(first);
        assert!(lease(&other).is_none());
        assert!(file.is_file());
        drop(second);
        assert!(!file.exists());
        let now = lease(&other).unwrap();
        assert!(lease(&one).is_none());
        drop(now);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
