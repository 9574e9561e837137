//! A queue manager for the time of a measurement: the stand-in of `local/mqm-standin`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::time::ClockId;
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::built::{self, MQ_LIBRARY, MQ_MANAGER};
use tokio::io::AsyncBufReadExt as _;
use tokio::process::{Child, Command};

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
    _child: Child,
    clock: ClockId,
    library: PathBuf,
    directory: TempDir,
}

impl Manager {
    pub(super) async fn start() -> Result<Self, Error> {
        let directory = tempfile::tempdir()?;
        // In a directory of its own, because the Python client searches one for it.
        let library = directory.path().join(MQ_LIBRARY);
        std::os::unix::fs::symlink(built::find(MQ_LIBRARY)?, &library)?;
        let configuration = directory.path().join("queue-manager.toml");
        std::fs::write(&configuration, configured())?;
        let mut child = Command::new(built::find(MQ_MANAGER)?)
            .arg("run")
            .arg("--directory")
            .arg(directory.path())
            .arg("--configuration")
            .arg(configuration)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let failed = || Error::Unexpected("the queue manager does not start".to_owned());
        let output = child.stdout.take().ok_or_else(failed)?;
        let first = tokio::io::BufReader::new(output).lines().next_line().await?;
        if first.as_deref() != Some("ready") {
            return Err(failed());
        }
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).ok_or_else(failed)?;
        let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(pid)).map_err(std::io::Error::from)?;
        Ok(Self { _child: child, clock, library, directory })
    }

    /// The stand-in's library, which has IBM's name.
    pub(super) fn library(&self) -> &Path {
        &self.library
    }

    /// Where its sockets are.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn cpu(&self) -> Result<Duration, Error> {
        cpu(self.clock)
    }

    pub(super) fn depth(&self, queue: &str) -> Result<u64, Error> {
        let mut socket = UnixStream::connect(self.directory().join(format!("{NAME}.control")))?;
        writeln!(socket, "{}", json!("status"))?;
        let mut answer = String::new();
        BufReader::new(socket).read_line(&mut answer)?;
        let status: Value = serde_json::from_str(&answer)?;
        let depth = status.pointer(&format!("/depths/{queue}")).and_then(Value::as_u64);
        depth.ok_or_else(|| Error::Unexpected(format!("there is no queue {queue}")))
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
