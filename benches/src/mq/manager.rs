//! Queue manager that runs during a benchmark: the stand-in of `local/mqm-standin`.

use std::path::PathBuf;

use tempfile::TempDir;
use test_support::built::{self, MQ_LIBRARY};
use test_support::queue_manager::QueueManager;

use super::QUEUE;
use crate::child::Program;
use crate::cpu::Cpu;
use crate::error::Error;

pub(super) const NAME: &str = "QM1";
pub(super) const CHANNEL: &str = "BENCH.SVRCONN";
const CONN_NAME: &str = "127.0.0.1(1414)";
pub(super) const USER: &str = "bench";
pub(super) const PASSWORD: &str = "bench";

#[derive(Debug)]
pub(super) struct Manager {
    daemon: QueueManager,
    /// CPU clock of the queue manager's process.
    pub(super) cpu: Cpu,
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
        let pid = pid.ok_or("the queue manager has no process")?;
        Ok(Self { cpu: Cpu::of(pid)?, daemon, library, directory })
    }

    /// Adds the environment variables by which a contender finds the queue manager.
    pub(super) fn given_to(&self, program: Program) -> Program {
        let directory = self.directory.path().display().to_string();
        program
            .env("IBM_MQ_LIBRARY", self.library.display().to_string())
            .env("LD_LIBRARY_PATH", directory.clone())
            .env("MQM_STANDIN_DIR", directory)
            .env("QUEUE_MANAGER", NAME)
            .env("CHANNEL", CHANNEL)
            .env("CONN_NAME", CONN_NAME)
            .env("MQ_USER", USER)
            .env("MQ_PASSWORD", PASSWORD)
    }

    /// Checks the number of messages on a queue after a contender's run.
    ///
    /// # Errors
    /// If the queue has another number of messages.
    pub(super) fn expect(&self, queue: &str, messages: u32, who: &str) -> Result<(), Error> {
        let depth = self.daemon.depth(queue);
        if depth == u64::from(messages) {
            return Ok(());
        }
        Err(format!("{who} left {depth} messages on {queue} instead of {messages}").into())
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
