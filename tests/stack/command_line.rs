//! Program `integrahub`, which tests run as a person would.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use test_support::built;

/// Environment variables of this process that the program gets too.
const PASSED_ON: [&str; 5] =
    ["PATH", "INTEGRAHUB_STACK_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR", "LLVM_PROFILE_FILE"];

/// Program `integrahub` with a home directory of its own, which a test runs against the stack.
#[derive(Debug)]
pub struct CommandLine {
    home: TempDir,
    api_key: Option<String>,
    input: Option<String>,
}

/// Outcome of a command that has ended: exit code and output.
#[derive(Clone, Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl CommandLine {
    /// Makes a program that calls the API with tenant A's key, which it reads from the local stack.
    pub fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap(), api_key: None, input: None }
    }

    /// Makes the program call the API with another key.
    #[must_use]
    pub fn key(self, api_key: &str) -> Self {
        Self { api_key: Some(api_key.to_owned()), ..self }
    }

    /// Gives this text to each of the program's commands as standard input.
    #[must_use]
    pub fn input(self, text: &str) -> Self {
        Self { input: Some(text.to_owned()), ..self }
    }

    /// Returns the program's home directory, in which its commands also run.
    pub fn directory(&self) -> &Path {
        self.home.path()
    }

    /// Returns a command that has not been started. Its standard streams are pipes, so it has no
    /// terminal.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(built::find("integrahub").unwrap());
        command.env_clear().args(arguments).current_dir(self.directory());
        for name in PASSED_ON {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env("HOME", self.directory());
        if let Some(key) = &self.api_key {
            command.env("INTEGRAHUB_API_KEY", key);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command to its end, and returns the outcome.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        let mut child = self.command(arguments).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A program that reads nothing has closed it by then.
        let _unread = stdin.write_all(self.input.as_deref().unwrap_or_default().as_bytes());
        drop(stdin);
        Ran::of(&child.wait_with_output().unwrap())
    }
}

impl Default for CommandLine {
    fn default() -> Self {
        Self::new()
    }
}

impl Ran {
    /// Reads the output and the exit code of a program; -1 if a signal ended it.
    pub fn of(output: &std::process::Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout.clone()).unwrap(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Returns the outcome. Panics if the exit code is another one.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}", self.stdout, self.stderr);
        self
    }

    /// Returns the standard output. Panics unless the exit code is 0.
    #[track_caller]
    pub fn done(self) -> String {
        self.expect(0).stdout
    }

    /// Returns the standard output as a JSON document. Panics unless the exit code is 0.
    #[track_caller]
    pub fn json(self) -> Value {
        let text = self.done();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}
