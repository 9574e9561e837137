//! A function's process, as Lambda would start it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use bytes::Bytes;
use nix::time::ClockId;
use nix::unistd::Pid;
use test_support::runtime_api::{Answer, RuntimeApi};
use tokio::process::{Child, Command};

use crate::error::Error;
use crate::template::Template;

/// The longest that a function may take for an event.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) type Variables = Vec<(String, String)>;

/// Function as the template describes it.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) variables: Variables,
}

impl Function {
    /// All functions of `template.yaml`.
    pub(crate) fn all() -> Result<Vec<Self>, Error> {
        let functions = Template::read()?.functions()?;
        Ok(functions.into_iter().map(|(name, variables)| Self { name, variables }).collect())
    }

    pub(crate) fn named(name: &str) -> Result<Self, Error> {
        let found = Self::all()?.into_iter().find(|function| function.name == name);
        found.ok_or_else(|| Error::Unexpected(format!("template.yaml has no function {name}")))
    }

    /// The binary, which is built into the directory of this program.
    pub(crate) fn binary(&self) -> Result<PathBuf, Error> {
        Ok(std::env::current_exe()?.with_file_name(&self.name))
    }
}

pub(crate) fn repository() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}

/// A process with nothing in its environment but what Lambda and the template give it.
#[derive(Debug)]
pub(crate) struct Environment {
    child: Child,
    clock: ClockId,
    pub(crate) spawned: Instant,
    pub(crate) api: RuntimeApi,
}

impl Environment {
    pub(crate) async fn start(mut command: Command, variables: &Variables) -> Result<Self, Error> {
        let api = RuntimeApi::start("bench").await;
        command
            .env_clear()
            .envs(lambda_variables())
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .env("AWS_LAMBDA_RUNTIME_API", api.address())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        let spawned = Instant::now();
        let child = command.spawn().map_err(|error| {
            Error::Unexpected(format!("{}: {error}", command.as_std().get_program().display()))
        })?;
        Ok(Self { clock: clock(&child)?, child, spawned, api })
    }

    /// Hands an event to the function and waits for its answer.
    pub(crate) async fn invoke(&self, event: Bytes) -> Result<Answer, Error> {
        let invocation = self.api.invoker.invoke(event, PATIENCE);
        let answered = tokio::time::timeout(PATIENCE, invocation).await;
        let late = |_| Error::Unexpected("the function does not answer".to_owned());
        Ok(answered.map_err(late)??)
    }

    /// CPU time of all threads of the process so far, ended ones too.
    pub(crate) fn cpu(&self) -> Result<Duration, Error> {
        cpu(self.clock)
    }

    pub(crate) async fn stop(mut self) -> Result<(), Error> {
        Ok(self.child.kill().await?)
    }
}

fn clock(child: &Child) -> Result<ClockId, Error> {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    let pid = pid.ok_or_else(|| Error::Unexpected("the process has ended".to_owned()))?;
    Ok(ClockId::pid_cpu_clock_id(Pid::from_raw(pid)).map_err(std::io::Error::from)?)
}

pub(crate) fn cpu(clock: ClockId) -> Result<Duration, Error> {
    Ok(Duration::from(clock.now().map_err(std::io::Error::from)?))
}

fn lambda_variables() -> [(&'static str, String); 10] {
    let path = std::env::var("PATH").unwrap_or_default();
    [
        ("PATH", path),
        ("LANG", "en_US.UTF-8".to_owned()),
        ("TZ", ":UTC".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_DEFAULT_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", "bench".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "bench".to_owned()),
        ("AWS_LAMBDA_FUNCTION_NAME", "bench".to_owned()),
        ("AWS_LAMBDA_FUNCTION_VERSION", "1".to_owned()),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_the_names_of_their_binaries() {
        assert!(Function::named("mq-access").is_ok() && Function::named("other").is_err());
    }
}
