//! The processes that are measured, from the side of who measures.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::report::Measured;
use super::task::{Block, Task};
use crate::error::Error;
use crate::recorder::Recorder;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Ours,
    Powertools,
}

impl Who {
    pub(crate) const ALL: [Self; 2] = [Self::Ours, Self::Powertools];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ours => "IntegraHub",
            Self::Powertools => "Powertools",
        }
    }

    fn command(self, python: &str) -> Result<Command, Error> {
        let (program, argument) = match self {
            Self::Ours => (std::env::current_exe()?, "claims".into()),
            Self::Powertools => (
                python.into(),
                Path::new(env!("CARGO_MANIFEST_DIR")).join("python/with_powertools.py").into_os_string(),
            ),
        };
        let mut command = Command::new(program);
        command.arg(argument);
        Ok(command)
    }
}

/// A warm process, and the recorder before its DynamoDB.
#[derive(Debug)]
pub(crate) struct Contender {
    who: Who,
    recorder: Recorder,
    _child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Contender {
    pub(crate) async fn start(who: Who, endpoint: &str, python: &str, task: &Task) -> Result<Self, Error> {
        let recorder = Recorder::start(endpoint).await;
        let region = std::env::var("AWS_REGION").unwrap_or_else(|_| "us-east-1".to_owned());
        let mut child = who
            .command(python)?
            .env("AWS_ENDPOINT_URL", recorder.url())
            .env("AWS_DEFAULT_REGION", region)
            .env("AWS_LAMBDA_FUNCTION_NAME", "bench")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let pipe = || Error::Unexpected("a pipe is missing".to_owned());
        let input = child.stdin.take().ok_or_else(pipe)?;
        let output = BufReader::new(child.stdout.take().ok_or_else(pipe)?).lines();
        let mut contender = Self { who, recorder, _child: child, input, output };
        contender.exchange(task).await?;
        Ok(contender)
    }

    /// Sends a block's requests.
    pub(crate) async fn take(&mut self, block: &Block) -> Result<Measured, Error> {
        self.recorder.forget();
        let cpu = self.exchange(block).await?;
        let (who, job, requests) = (self.who, block.job, block.keys.len());
        let (calls, bytes) = (self.recorder.counts(), self.recorder.bytes());
        Ok(Measured { who, job, requests, cpu, calls, bytes })
    }

    async fn exchange(&mut self, line: &impl Serialize) -> Result<Duration, Error> {
        let line = serde_json::to_string(line)? + "\n";
        self.input.write_all(line.as_bytes()).await?;
        while let Some(line) = self.output.next_line().await? {
            if let Some(cpu) = super::answer(&line) {
                return Ok(cpu);
            }
        }
        Err(Error::Unexpected(format!("{} failed", self.who.name())))
    }
}
