//! The command line, run as a person would.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use test_support::built;

/// Variables that the program gets of this process.
const PASSED_ON: [&str; 5] =
    ["PATH", "INTEGRAHUB_STACK_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR", "LLVM_PROFILE_FILE"];

/// The program with a home of its own, against the stack of the tests.
#[derive(Debug)]
pub struct CommandLine {
    home: TempDir,
    api_key: Option<String>,
    input: Option<String>,
}

/// A run that has ended.
#[derive(Clone, Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl CommandLine {
    /// The program with the API key of tenant A, which the local stack tells it.
    pub fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap(), api_key: None, input: None }
    }

    /// The program with another API key.
    #[must_use]
    pub fn key(self, api_key: &str) -> Self {
        Self { api_key: Some(api_key.to_owned()), ..self }
    }

    /// The program with something on its standard input.
    #[must_use]
    pub fn input(self, text: &str) -> Self {
        Self { input: Some(text.to_owned()), ..self }
    }

    /// The home, which is also the directory in which the program runs.
    pub fn directory(&self) -> &Path {
        self.home.path()
    }

    /// A command that has not been started. Its streams are piped, and it has no terminal.
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

    /// Runs a command to its end.
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

    /// The run, if it ended with this exit code.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}", self.stdout, self.stderr);
        self
    }

    /// The data of a run that did all.
    #[track_caller]
    pub fn done(self) -> String {
        self.expect(0).stdout
    }

    /// The one JSON document of a run that did all.
    #[track_caller]
    pub fn json(self) -> Value {
        let text = self.done();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}
