//! A function's process, as Lambda would start it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::time::ClockId;
use nix::unistd::Pid;
use serde_norway::Value;
use tokio::process::{Child, Command};

use crate::error::Error;
use crate::lambda::RuntimeApi;

pub(crate) type Variables = Vec<(String, String)>;

/// What is said of a function in the template.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) variables: Variables,
}

impl Function {
    /// All functions of `template.yaml`. References become the parameters' defaults, or the names of the resources.
    pub(crate) fn all() -> Result<Vec<Self>, Error> {
        let text = std::fs::read_to_string(repository().join("template.yaml"))?;
        let template: Value = serde_norway::from_str(&text)
            .map_err(|error| Error::Unexpected(format!("template.yaml: {error}")))?;
        let globals = variables(&template, &["Globals", "Function"]);
        let resources = at(&template, &["Resources"]).and_then(Value::as_mapping);
        let functions = resources.into_iter().flatten().filter_map(|(_, resource)| {
            let name = at(resource, &["Metadata", "BuildProperties", "Binary"])?.as_str()?;
            let own = variables_of(&template, at(resource, &["Properties", "Environment", "Variables"]));
            let variables = globals.iter().cloned().chain(own).collect();
            Some(Self { name: name.to_owned(), variables })
        });
        Ok(functions.collect())
    }

    pub(crate) fn named(name: &str) -> Result<Self, Error> {
        let found = Self::all()?.into_iter().find(|function| function.name == name);
        found.ok_or_else(|| Error::Unexpected(format!("template.yaml has no function {name}")))
    }

    /// The release binary, built into the directory of this program.
    pub(crate) fn binary(&self) -> Result<PathBuf, Error> {
        Ok(std::env::current_exe()?.with_file_name(&self.name))
    }
}

fn variables(template: &Value, path: &[&str]) -> Variables {
    let function = at(template, path);
    variables_of(template, function.and_then(|function| at(function, &["Environment", "Variables"])))
}

fn variables_of(template: &Value, variables: Option<&Value>) -> Variables {
    let pairs = variables.and_then(Value::as_mapping).into_iter().flatten();
    pairs.filter_map(|(name, value)| Some((name.as_str()?.to_owned(), resolved(template, value)))).collect()
}

fn resolved(template: &Value, value: &Value) -> String {
    match value {
        Value::Tagged(reference) => {
            let name = plain(&reference.value);
            at(template, &["Parameters", &name, "Default"]).map_or(name, plain)
        }
        value => plain(value),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        _ => String::new(),
    }
}

fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(*name))
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
        let api = RuntimeApi::start().await?;
        command
            .env_clear()
            .envs(lambda_variables())
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .env("AWS_LAMBDA_RUNTIME_API", api.address.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        let spawned = Instant::now();
        let child = command.spawn().map_err(|error| {
            Error::Unexpected(format!("{}: {error}", command.as_std().get_program().display()))
        })?;
        Ok(Self { clock: clock(&child)?, child, spawned, api })
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
    fn functions_have_the_variables_that_the_template_gives_them() {
        let produce = Function::named("produce").unwrap();
        let value = |wanted: &str| {
            let found = produce.variables.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(value("LOG_LEVEL"), Some("info"));
        assert_eq!(value("IDEMPOTENCY_EXPIRY_MIN_SECONDS"), Some("7200"));
        assert_eq!(value("ACCESS_TABLE"), Some("AccessTable"));
        assert!(Function::named("mq-access").is_ok() && Function::named("other").is_err());
    }
}
