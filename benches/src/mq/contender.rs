//! Who puts and gets, each in a process of its own.

use std::path::{Path, PathBuf};

use clap::Args;
use tokio::process::Command;

use super::manager::{CHANNEL, CONN_NAME, Manager, NAME, PASSWORD, USER};
use super::{Job, Options, QUEUE};
use crate::contest;
use crate::error::Error;
use crate::run::Run;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contender {
    Crate,
    Bare,
    Python,
    /// Opens the queue for each unit of work, as a request has to.
    ReopeningPython,
    /// Without properties, which costs it fewer calls than the others make.
    PlainPython,
}

/// Arguments of a contender in Rust.
#[derive(Debug, Args)]
pub(crate) struct Contest {
    pub(super) job: Job,
    pub(super) queue: String,
    pub(super) unit: u32,
    #[arg(long, env = "MESSAGES")]
    pub(super) messages: u32,
    #[arg(long, env = "IBM_MQ_LIBRARY")]
    pub(super) library: PathBuf,
}

impl Contender {
    pub(super) const ALL: [Self; 5] =
        [Self::Crate, Self::Bare, Self::Python, Self::ReopeningPython, Self::PlainPython];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Crate => "IntegraHub",
            Self::Bare => "the same calls alone",
            Self::Python => "ibmmq (Python)",
            Self::ReopeningPython => "ibmmq, queue opened for each unit",
            Self::PlainPython => "ibmmq, without properties",
        }
    }

    pub(super) async fn run(
        self,
        options: &Options,
        manager: &Manager,
        job: Job,
        unit: u32,
    ) -> Result<Run, Error> {
        let mut command = self.command(&options.python)?;
        command.args([job.name(), QUEUE, &unit.to_string()]);
        match self {
            Self::ReopeningPython => _ = command.arg("reopen"),
            Self::PlainPython => _ = command.arg("bare"),
            Self::Crate | Self::Bare | Self::Python => {}
        }
        command
            .env("MESSAGES", options.messages.to_string())
            .env("IBM_MQ_LIBRARY", manager.library())
            .env("LD_LIBRARY_PATH", manager.library().parent().unwrap_or(Path::new(".")))
            .env("MQM_STANDIN_DIR", manager.directory())
            .env("QUEUE_MANAGER", NAME)
            .env("CHANNEL", CHANNEL)
            .env("CONN_NAME", CONN_NAME)
            .env("MQ_USER", USER)
            .env("MQ_PASSWORD", PASSWORD);
        contest::run(command, self.name(), job.name()).await
    }

    fn command(self, python: &str) -> Result<Command, Error> {
        Ok(match self {
            Self::Crate => contest::own("mq-crate")?,
            Self::Bare => Command::new(std::env::current_exe()?.with_file_name("bare-mqi")),
            Self::Python | Self::ReopeningPython | Self::PlainPython => {
                contest::of_python(python, "with_ibmmq.py")
            }
        })
    }
}
