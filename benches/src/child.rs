//! Programs that a benchmark starts, and their running processes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;

use test_support::environment::repository;
use tokio::process::{ChildStdin, ChildStdout, Command};

use crate::cpu::Cpu;
use crate::error::Error;

/// Program to start, with its arguments and environment variables.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Name of the program in reports.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) variables: Vec<(String, String)>,
    /// True if the program runs like a Lambda function: with no environment but `variables`, and
    /// without standard input and output.
    pub(crate) is_function: bool,
}

impl Program {
    pub(crate) fn at(name: &str, path: impl Into<PathBuf>) -> Self {
        Self {
            name: name.to_owned(),
            path: path.into(),
            arguments: Vec::new(),
            variables: Vec::new(),
            is_function: false,
        }
    }

    /// Returns this program itself, run as the contender that `command` names.
    pub(crate) fn own(name: &str, command: &str) -> Result<Self, Error> {
        Ok(Self::at(name, std::env::current_exe()?).arg("contend").arg(command))
    }

    /// Returns the program of this name in the directory of the running program.
    pub(crate) fn beside(name: &str) -> Result<Self, Error> {
        Ok(Self::at(name, std::env::current_exe()?.with_file_name(name)))
    }

    /// Returns a script of `benches/python`, run by the interpreter of an environment that
    /// `scripts/bench-setup.sh` creates.
    pub(crate) fn python(name: &str, environment: &str, script: &str) -> Self {
        let root = repository();
        let interpreter = root.join(".local").join(environment).join("bin/python");
        Self::at(name, interpreter).arg(root.join("benches/python").join(script))
    }

    /// Returns a script run by Node.js; `None` if the script is not there, since
    /// `scripts/bench-setup.sh` installs it only together with Node.js.
    pub(crate) fn node(name: &str, script: &str) -> Option<Self> {
        let script = repository().join(script);
        // The SDK would print that it wants a newer Node.js from 2027 on.
        let warning = "AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED";
        script.is_file().then(|| Self::at(name, "node").arg(script).env(warning, "true"))
    }

    pub(crate) fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }
}

/// Running process of a program. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) name: String,
    process: tokio::process::Child,
    pub(crate) cpu: Cpu,
    pub(crate) input: Option<ChildStdin>,
    pub(crate) output: Option<ChildStdout>,
}

impl Child {
    pub(crate) fn start(program: &Program) -> Result<Self, Error> {
        let Program { name, path, arguments, variables, is_function } = program;
        let mut command = Command::new(path);
        command.args(arguments).kill_on_drop(true);
        if *is_function {
            command.env_clear().stdin(Stdio::null()).stdout(Stdio::null());
        } else {
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
        }
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let spawned = command.spawn();
        let mut process = spawned.map_err(|error| format!("{name}: {error}"))?;
        let pid = process.id().and_then(|pid| i32::try_from(pid).ok());
        let cpu = Cpu::of(pid.ok_or_else(|| format!("{name} has ended"))?)?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        Ok(Self { name: name.clone(), process, cpu, input, output })
    }

    /// Closes the process's standard input, and waits until the process ends successfully.
    pub(crate) async fn end(mut self) -> Result<(), Error> {
        drop(self.input.take());
        let status = self.process.wait().await?;
        if status.success() {
            return Ok(());
        }
        Err(format!("{} failed ({status})", self.name).into())
    }

    pub(crate) async fn kill(mut self) -> Result<(), Error> {
        Ok(self.process.kill().await?)
    }
}
