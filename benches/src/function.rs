//! Process of a Lambda function, started as Lambda would start it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use test_support::runtime_api::RuntimeApi;
use test_support::template::Template;

use crate::child::{Child, Program};
use crate::contender::Contender;
use crate::error::Error;

/// Maximum time for a function to answer an event.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Returns all functions of `template.yaml`, each under the name of its binary. Their environment
/// variables are those of a deployment with an existing database.
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

/// Running function that has asked for its first event. Its environment variables are only those of
/// Lambda and those of its program.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) child: Child,
    pub(crate) api: RuntimeApi,
    spawned: Instant,
    /// Time from the start of the process to its first request for an event.
    pub(crate) to_poll: Duration,
    /// CPU time of the process until its first request for an event.
    pub(crate) cpu_to_poll: Duration,
}

/// Response of a function to an event, with the times that it took.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) body: Bytes,
    /// Time from the start of the function's process to the response.
    pub(crate) after: Duration,
    /// CPU time of the process for this event, until it asks for the next one.
    pub(crate) cpu: Duration,
    /// CPU time of the process since its start.
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
        Ok(Self { cpu_to_poll: child.cpu.so_far()?, child, api, spawned, to_poll })
    }

    /// Sends an event to the function, and waits for the response and for the function's next
    /// request for an event.
    async fn send(&mut self, event: &[u8]) -> Result<Answered, Error> {
        let before = self.child.cpu.so_far()?;
        let invocation = self.api.invoker.invoke(Bytes::copy_from_slice(event), PATIENCE);
        let answered = tokio::time::timeout(PATIENCE, invocation).await;
        let answer = answered.map_err(|_| "the function does not answer")??;
        self.api.polled().await?;
        let whole_cpu = self.child.cpu.so_far()?;
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
