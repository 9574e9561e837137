//! How long a function takes from its spawn to its first poll and to its first answer, beside the
//! same function in Node.js.

mod contender;
mod report;
mod size;

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::Value;
use test_support::http_server::{Server, response};

use crate::error::Error;
use crate::function::{Environment, repository};
use crate::startup::contender::Contender;
use crate::startup::report::{Measured, table};

/// Requests that every contender must refuse alike before they are compared; the first is the one
/// that is measured.
const REFUSED: [&str; 12] = [
    "count-out-of-range",
    "unknown-member",
    "duplicate-member",
    "integer-beyond-2-53",
    "malformed-json",
    "mangled-gzip-body",
    "malformed-key",
    "duplicate-key-header",
    "no-key",
    "no-api-key",
    "text-content-type",
    "expiry-out-of-range",
];

/// Answer of DynamoDB to everything: the API key is known, and may write.
const KNOWN_KEY: &str = r#"{"Item":{"pk":{"S":"KEY#"},"tenantId":{"S":"11111111-1111-4111-8111-111111111111"},"scopes":{"SS":["mq:read","mq:write"]}}}"#;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Starts of each contender
    #[arg(long, env = "STARTS", default_value_t = 40)]
    starts: usize,
    /// Directory of the function in Node.js, as scripts/bench-setup.sh installs it
    #[arg(long, env = "BENCH_NODE", default_value = ".local/bench/node")]
    node: PathBuf,
}

/// Times of one start.
#[derive(Clone, Copy, Debug)]
struct Start {
    to_poll: Duration,
    cpu_to_poll: Duration,
    /// Times of the first answer, if an event was given to the function.
    answered: Option<Answered>,
}

#[derive(Clone, Copy, Debug)]
struct Answered {
    after: Duration,
    cpu: Duration,
}

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    let dynamodb = Server::start(async |_| {
        let mut known = response(200, KNOWN_KEY);
        known.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.0"));
        Some(known)
    })
    .await;
    let contenders = contender::all(&dynamodb.url(), &options.node)?;
    check_alike(&contenders).await?;
    let mut measured: Vec<_> = contenders.iter().map(|contender| Measured::new(contender.name())).collect();
    let [measured_event, ..] = REFUSED;
    let event = event(measured_event)?;
    for round in 0..options.starts {
        // Another one begins each round.
        let count = contenders.len();
        for turn in (0..count).map(|turn| (turn + round) % count) {
            if let (Some(contender), Some(measured)) = (contenders.get(turn), measured.get_mut(turn)) {
                let event = contender.parses().then(|| event.clone());
                measured.starts.push(start(contender, event).await?);
            }
        }
    }
    for (contender, measured) in contenders.iter().zip(&mut measured) {
        measured.size = size::size(contender.deployed())?;
    }
    #[expect(clippy::print_stdout, reason = "the report")]
    {
        println!("\n{}", table(&measured, options.starts));
    }
    Ok(())
}

async fn start(contender: &Contender, event: Option<Bytes>) -> Result<Start, Error> {
    let mut environment = Environment::start(contender.command(), contender.variables()).await?;
    let spawned = environment.spawned;
    let polled = environment.api.polled().await?;
    let cpu_to_poll = environment.cpu()?;
    let mut answered = None;
    if let Some(event) = event {
        let answer = environment.invoke(event).await?;
        // What a function does after its answer, up to its next poll, belongs to the request.
        environment.api.polled().await?;
        answered = Some(Answered { after: answer.at - spawned, cpu: environment.cpu()? });
    }
    environment.stop().await?;
    Ok(Start { to_poll: polled - spawned, cpu_to_poll, answered })
}

/// Status and reason in a response's problem.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    status: u64,
    reason: String,
}

/// # Errors
/// When contenders that parse requests answer differently, or one of them does not refuse.
async fn check_alike(contenders: &[Contender]) -> Result<(), Error> {
    for name in REFUSED {
        let mut first: Option<(&str, Refusal)> = None;
        for contender in contenders.iter().filter(|contender| contender.parses()) {
            let environment = Environment::start(contender.command(), contender.variables()).await?;
            let answer = environment.invoke(event(name)?).await?;
            environment.stop().await?;
            let refusal = refusal(&answer.body)?;
            match &first {
                None => first = Some((contender.name(), refusal)),
                Some((_, expected)) if *expected == refusal => {}
                Some((other, expected)) => {
                    return Err(Error::Unexpected(format!(
                        "{name}: {other} answers {expected:?}, {} {refusal:?}",
                        contender.name()
                    )));
                }
            }
        }
    }
    Ok(())
}

fn refusal(answer: &[u8]) -> Result<Refusal, Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Response {
        status_code: u64,
        body: String,
    }
    let response: Response = serde_json::from_slice(answer)?;
    let problem: Value = serde_json::from_str(&response.body)?;
    match problem.get("reason").and_then(Value::as_str) {
        Some(reason) if response.status_code >= 400 => {
            Ok(Refusal { status: response.status_code, reason: reason.to_owned() })
        }
        _ => Err(Error::Unexpected(format!("not a refusal: {}", response.body))),
    }
}

fn event(name: &str) -> Result<Bytes, Error> {
    Ok(std::fs::read(repository().join(format!("events/gateway/produce/{name}.json")))?.into())
}
