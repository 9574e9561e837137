//! The stand-in for IBM MQ: the queue manager `QM1`, and the library by which clients reach it.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tokio::process::Command;

use super::{Component, Ready};
use crate::failure::{Explain as _, Failure};
use crate::layout::Layout;

pub(crate) const NAME: &str = "QM1";
pub(crate) const CHANNEL: &str = "DEV.APP.SVRCONN";
pub(crate) const USER: &str = "app";
/// The stand-in's sockets have such names; no port of the machine is used.
pub(crate) const CONN_NAME: &str = "127.0.0.1:1414";

const PROGRAM: &str = "mqm-standin";
const LIBRARY: &str = "libmqm_r.so";
const CONFIGURATION: &str = include_str!("../../qm1.toml");

#[derive(Debug)]
pub(crate) struct QueueManager {
    /// Its sockets, its journal and its library.
    directory: PathBuf,
    password: String,
}

impl QueueManager {
    /// # Errors
    /// Its directory cannot be made.
    pub(crate) fn new(layout: &Layout, password: &str) -> Result<Self, Failure> {
        let directory = layout.component_directory("queue-manager")?;
        Ok(Self { directory, password: password.to_owned() })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The library, which finds the sockets beside itself.
    pub(crate) fn library(&self) -> PathBuf {
        self.directory.join(LIBRARY)
    }
}

impl Component for QueueManager {
    fn name(&self) -> &'static str {
        "queue-manager"
    }

    fn command(&self, _: &Layout) -> Result<Command, Failure> {
        let explain = || "find the queue manager's program".to_owned();
        let binaries = std::env::current_exe().or_explain(explain)?;
        let binaries = binaries.parent().unwrap_or(Path::new("."));
        let library = newest(&[binaries.join(LIBRARY), binaries.join("deps").join(LIBRARY)])?;
        std::fs::copy(&library, self.library()).or_explain(|| format!("copy {}", library.display()))?;
        let configuration = self.directory.join("qm1.toml");
        let text = CONFIGURATION.replace("@PASSWORD@", &self.password);
        std::fs::write(&configuration, text).or_explain(|| format!("write {}", configuration.display()))?;
        let mut command = Command::new(binaries.join(PROGRAM));
        command.env_clear();
        command
            .args(["run", "--detached", "--directory"])
            .arg(&self.directory)
            .arg("--configuration")
            .arg(&configuration);
        Ok(command)
    }

    fn ready(&self) -> Ready {
        Ready::Accepts(self.directory.join(format!("{NAME}.control")))
    }

    fn usual(&self) -> &'static str {
        "usually at once"
    }
}

/// The library of this build; `cargo` leaves it in either place.
fn newest(places: &[PathBuf]) -> Result<PathBuf, Failure> {
    let built = places.iter().filter_map(|path| Some((modified(path)?, path)));
    built.max().map(|(_, path)| path.clone()).ok_or_else(|| {
        Failure::new(format!("{LIBRARY} is missing: run `cargo build --workspace --lib --bins`."))
    })
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|file| file.modified()).ok()
}
