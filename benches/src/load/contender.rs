//! Who loads, from the side of who measures.

use std::path::PathBuf;
use std::process::Stdio;

use catalog::DatabaseConfig;
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::Options;
use crate::error::Error;
use crate::function::repository;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Ours,
    ByBucket,
    Node,
    Python,
}

/// Cost of one catalogue from the first look at its object to the last commit.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Loaded {
    pub(super) items: u64,
    /// Rows that were inserted or updated.
    pub(super) written: u64,
    pub(super) seconds: f64,
    /// CPU time of the contender's process.
    pub(super) cpu_seconds: f64,
    pub(super) peak_kilobytes: u32,
}

impl Who {
    pub(super) const ALL: [Self; 4] = [Self::Ours, Self::Node, Self::Python, Self::ByBucket];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ours => "IntegraHub",
            Self::ByBucket => "IntegraHub, chunks by way of the bucket",
            Self::Node => "Node.js",
            Self::Python => "Python",
        }
    }

    /// Nothing where what it needs is not installed.
    fn command(self, options: &Options) -> Result<Option<Command>, Error> {
        let (program, arguments): (PathBuf, Vec<PathBuf>) = match self {
            Self::Ours => (std::env::current_exe()?, vec!["load-rows".into(), "memory".into()]),
            Self::ByBucket => (std::env::current_exe()?, vec!["load-rows".into(), "bucket".into()]),
            Self::Node => ("node".into(), vec![options.node.join("load.mjs")]),
            Self::Python => (options.python.clone(), vec![repository().join("benches/python/load.py")]),
        };
        let is_there = match self {
            Self::Ours | Self::ByBucket => true,
            Self::Node => options.node.join("load.mjs").is_file(),
            Self::Python => options.python.is_file(),
        };
        let mut command = Command::new(program);
        command.args(arguments);
        Ok(is_there.then_some(command))
    }
}

/// A process with a connection of its own, which loads one catalogue after the other.
pub(super) struct Contender {
    who: Who,
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Contender {
    pub(super) fn start(
        who: Who,
        options: &Options,
        database: &DatabaseConfig,
    ) -> Result<Option<Self>, Error> {
        let Some(mut command) = who.command(options)? else { return Ok(None) };
        let DatabaseConfig { host, port, dbname, user, password, .. } = database;
        let url =
            format!("postgres://{user}:{}@{host}:{port}/{dbname}?sslmode=disable", password.expose_secret());
        let region = std::env::var("AWS_REGION").unwrap_or_else(|_| "us-east-1".to_owned());
        let mut child = command
            .env("DATABASE_URL", url)
            .env("AWS_DEFAULT_REGION", region)
            // Node's SDK would print that it wants a newer Node.js from 2027 on.
            .env("AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED", "true")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let pipe = || Error::Unexpected("a pipe is missing".to_owned());
        let input = child.stdin.take().ok_or_else(pipe)?;
        let output = BufReader::new(child.stdout.take().ok_or_else(pipe)?).lines();
        Ok(Some(Self { who, child, input, output }))
    }

    pub(super) async fn load(&mut self, key: &str) -> Result<Loaded, Error> {
        self.input.write_all(format!("{key}\n").as_bytes()).await?;
        match self.output.next_line().await? {
            Some(line) => Ok(serde_json::from_str(&line)?),
            None => Err(Error::Unexpected(format!("{} failed", self.who.name()))),
        }
    }

    pub(super) async fn stop(mut self) -> Result<(), Error> {
        drop(self.input);
        self.child.wait().await?;
        Ok(())
    }
}
