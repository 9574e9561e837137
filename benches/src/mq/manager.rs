//! A queue manager for the time of a measurement: the stand-in of `local/mqm-standin`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::time::ClockId;
use nix::unistd::Pid;
use tempfile::TempDir;
use test_support::built::{self, MQ_LIBRARY};
use test_support::queue_manager::QueueManager;

use super::QUEUE;
use crate::error::Error;
use crate::function::cpu;

pub(super) const NAME: &str = "QM1";
pub(super) const CHANNEL: &str = "BENCH.SVRCONN";
pub(super) const CONN_NAME: &str = "localhost(1414)";
pub(super) const USER: &str = "bench";
pub(super) const PASSWORD: &str = "bench";

#[derive(Debug)]
pub(super) struct Manager {
    daemon: QueueManager,
    clock: ClockId,
    library: PathBuf,
    directory: TempDir,
}

impl Manager {
    pub(super) fn start() -> Result<Self, Error> {
        let directory = tempfile::tempdir()?;
        // In a directory of its own, because the Python client searches one for it.
        let library = directory.path().join(MQ_LIBRARY);
        std::os::unix::fs::symlink(built::find(MQ_LIBRARY)?, &library)?;
        let daemon = QueueManager::start(directory.path(), NAME, CONN_NAME, &configured());
        let pid = daemon.id().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.ok_or_else(|| Error::Unexpected("the queue manager has no process".to_owned()))?;
        let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(pid)).map_err(std::io::Error::from)?;
        Ok(Self { daemon, clock, library, directory })
    }

    /// The stand-in's library, which has IBM's name.
    pub(super) fn library(&self) -> &Path {
        &self.library
    }

    /// Returns the directory of the sockets.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn cpu(&self) -> Result<Duration, Error> {
        cpu(self.clock)
    }

    pub(super) fn depth(&self, queue: &str) -> u64 {
        self.daemon.depth(queue)
    }
}

fn configured() -> String {
    format!(
        "name = \"{NAME}\"\nlisteners = [\"{CONN_NAME}\"]\n\
         [[users]]\nname = \"{USER}\"\npassword = \"{PASSWORD}\"\n\
         [[channels]]\nname = \"{CHANNEL}\"\nusers = [\"{USER}\"]\ndefault_user = \"{USER}\"\n\
         [[authorities]]\nusers = [\"{USER}\"]\nqueues = [\"BENCH.**\"]\nallow = [\"browse\", \"get\", \"put\", \"inquire\"]\n\
         [[queues]]\nname = \"{QUEUE}\"\nMAXDEPTH = 1000000\n"
    )
}
