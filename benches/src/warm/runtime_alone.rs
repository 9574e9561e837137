//! A function that does nothing: what Lambda's runtime itself takes for events and answers of the
//! same size.

use std::time::Duration;

use bytes::Bytes;
use clap::ValueEnum;
use lambda_http::{Body, Request, Response};
use lambda_runtime::{LambdaEvent, service_fn};
use serde::de::IgnoredAny;
use tokio::process::Command;

use crate::error::Error;
use crate::function::Environment;

/// The measuring side.
#[derive(Debug)]
pub(crate) struct RuntimeAlone(Environment);

/// Kind of event that the function takes.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Kind {
    /// A request of API Gateway
    Http,
    /// An order of one function to another
    Order,
}

impl RuntimeAlone {
    /// Starts a function whose answers have the size of `answer`.
    pub(crate) async fn start(kind: &str, answer: &[u8]) -> Result<Self, Error> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["runtime-alone", kind, &answer.len().to_string()]);
        let mut environment = Environment::start(command, &Vec::new()).await?;
        environment.api.polled().await?;
        Ok(Self(environment))
    }

    /// Returns the CPU time that one event took.
    pub(crate) async fn cpu_of(&mut self, event: &[u8]) -> Result<Duration, Error> {
        let before = self.0.cpu()?;
        self.0.invoke(Bytes::copy_from_slice(event)).await?;
        self.0.api.polled().await?;
        Ok(self.0.cpu()?.saturating_sub(before))
    }
}

/// The function itself.
pub(crate) async fn serve(kind: Kind, bytes: usize) -> Result<(), Error> {
    let answer = "x".repeat(bytes);
    let answer = answer.as_str();
    let served = match kind {
        Kind::Http => {
            let function =
                async |_: Request| Ok::<_, lambda_http::Error>(Response::new(Body::Text(answer.to_owned())));
            lambda_http::run(lambda_http::service_fn(function)).await
        }
        Kind::Order => {
            let function =
                async |_: LambdaEvent<IgnoredAny>| Ok::<_, lambda_runtime::Error>(answer.to_owned());
            lambda_runtime::run(service_fn(function)).await
        }
    };
    served.map_err(|error| Error::Unexpected(error.to_string()))
}
