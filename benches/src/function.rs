//! A function's process, as Lambda would start it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use test_support::runtime_api::RuntimeApi;
use test_support::template::Template;

use crate::child::{Child, Program};
use crate::contender::Contender;
use crate::error::Error;

/// The longest that a function may take for an event.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// All functions of `template.yaml`, by the names of their binaries, with the variables of a
/// deployment with an existing database.
pub(crate) fn all() -> Result<Vec<Program>, Error> {
    // A deployment with the ingest cannot leave it at its default.
    let secret = "arn:aws:secretsmanager:us-east-1:000000000000:secret:bench".to_owned();
    let template = Template::read([("DatabaseSecretArn", secret)]).with_resources_by_name();
    let described = template.functions().into_iter();
    described
        .map(|function| {
            let program = Program::beside(&function.binary)?;
            Ok(Program { variables: function.variables, is_function: true, ..program })
        })
        .collect()
}

pub(crate) fn named(name: &str) -> Result<Program, Error> {
    let found = all()?.into_iter().find(|function| function.name == name);
    found.ok_or_else(|| format!("template.yaml has no function {name}").into())
}

/// A function that has asked for its first event. Its process has nothing in its environment but
/// what Lambda and its program give it.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) child: Child,
    pub(crate) api: RuntimeApi,
    spawned: Instant,
    /// Time from its spawn to its first poll, and CPU time until then.
    pub(crate) to_poll: Duration,
    pub(crate) cpu_to_poll: Duration,
}

/// Answer of a function to an event.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) body: Bytes,
    /// Time since the function's spawn.
    pub(crate) after: Duration,
    /// CPU time of the event, with all that the function does up to its next poll, and of the
    /// process since its spawn.
    pub(crate) cpu: Duration,
    pub(crate) whole_cpu: Duration,
}

impl Contender for Environment {
    type Work = [u8];
    type Answer = Answered;

    async fn start(program: &Program) -> Result<Self, Error> {
        let mut api = RuntimeApi::start("bench").await;
        let of_lambda = lambda_variables(api.address()).map(|(name, value)| (name.to_owned(), value));
        let variables = of_lambda.into_iter().chain(program.variables.iter().cloned()).collect();
        let spawned = Instant::now();
        let child = Child::start(&Program { variables, is_function: true, ..program.clone() })?;
        let to_poll = api.polled().await? - spawned;
        Ok(Self { cpu_to_poll: child.cpu()?, child, api, spawned, to_poll })
    }

    /// Hands an event to the function and waits for its answer and its next poll.
    async fn send(&mut self, event: &[u8]) -> Result<Answered, Error> {
        let before = self.child.cpu()?;
        let invocation = self.api.invoker.invoke(Bytes::copy_from_slice(event), PATIENCE);
        let answered = tokio::time::timeout(PATIENCE, invocation).await;
        let answer = answered.map_err(|_| "the function does not answer")??;
        self.api.polled().await?;
        let whole_cpu = self.child.cpu()?;
        let (after, cpu) = (answer.at - self.spawned, whole_cpu.saturating_sub(before));
        Ok(Answered { body: answer.body, after, cpu, whole_cpu })
    }

    async fn stop(self) -> Result<(), Error> {
        self.child.kill().await
    }
}

fn lambda_variables(api: String) -> [(&'static str, String); 11] {
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
        ("AWS_LAMBDA_RUNTIME_API", api),
    ]
}
