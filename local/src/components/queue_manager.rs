//! The stand-in for IBM MQ: the queue manager `QM1`, and the library by which clients reach it.

use std::path::PathBuf;

use test_support::built::{self, MQ_LIBRARY, MQ_MANAGER};
use tokio::process::Command;

use super::{Component, Ready};
use crate::failure::{Explain as _, Failure};
use crate::layout::Layout;

pub(crate) const NAME: &str = "QM1";
pub(crate) const CHANNEL: &str = "DEV.APP.SVRCONN";
pub(crate) const USER: &str = "app";
/// Address at which clients reach the stand-in for IBM MQ. It names a Unix socket, and no port of
/// the machine is used.
pub(crate) const CONN_NAME: &str = "127.0.0.1:1414";

const CONFIGURATION: &str = include_str!("../../qm1.toml");

#[derive(Debug)]
pub(crate) struct QueueManager {
    /// Directory of the sockets, the journal and the library.
    pub(crate) directory: PathBuf,
    password: String,
}

impl QueueManager {
    /// Creates the queue manager and its directory.
    pub(crate) fn new(layout: &Layout, password: &str) -> Result<Self, Failure> {
        let directory = layout.component_directory("queue-manager")?;
        Ok(Self { directory, password: password.to_owned() })
    }

    /// Returns the path of the stack's copy of the client library. A later build does not change
    /// the copy.
    pub(crate) fn library(&self) -> PathBuf {
        self.directory.join(MQ_LIBRARY)
    }

    /// Returns the component that runs the stand-in for IBM MQ.
    ///
    /// # Errors
    /// If the stand-in was not built, or its files cannot be written.
    pub(crate) fn component(&self) -> Result<Component, Failure> {
        let explain = || "find the stand-in for IBM MQ".to_owned();
        let program = built::find(MQ_MANAGER).or_explain(explain)?;
        let library = built::find(MQ_LIBRARY).or_explain(explain)?;
        std::fs::copy(&library, self.library()).or_explain(|| format!("copy {}", library.display()))?;
        let configuration = self.directory.join("qm1.toml");
        let text = CONFIGURATION.replace("@PASSWORD@", &self.password);
        std::fs::write(&configuration, text).or_explain(|| format!("write {}", configuration.display()))?;
        let mut command = Command::new(program);
        command.env_clear();
        command
            .args(["run", "--detached", "--directory"])
            .arg(&self.directory)
            .arg("--configuration")
            .arg(&configuration);
        let ready = Ready::Accepts(self.directory.join(format!("{NAME}.control")));
        Ok(Component::new("queue-manager", command, ready, "usually at once"))
    }
}
