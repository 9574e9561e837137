//! Measures the figures of docs/performance.md and docs/measurements, as tables in Markdown.
//!
//! ```text
//! benches clients      produce and consume beside other clients of RabbitMQ
//! benches startup      functions' starts beside one in Node.js
//! benches idempotency  a claim's calls and CPU time beside Powertools for AWS Lambda
//! benches ingest       cutting and writing a catalogue beside what is unavoidable, Node.js, COPY
//! benches load         a catalogue from its object to its rows beside Node.js and Python
//! benches mq           the crate ibm-mq beside its calls alone and IBM's client in Python
//! benches accept       a catalogue's request beside the put of its object alone
//! benches transport    catalogues from request to row over SQS and over Kafka
//! benches warm         a warm request's CPU time beyond its calls
//! benches soak         well-behaved and hostile callers: answers, times, the functions' memory
//! ```
//!
//! Contenders are processes of their own, in turn. The other commands are such contenders; the
//! Python ones are in benches/python, the one in Node.js in benches/node.

mod accept;
mod bare_lapin;
mod broker;
mod comparison;
mod contest;
mod cpu;
mod database;
mod error;
mod function;
mod gateway_crate;
mod idempotency;
mod ingest;
mod keys;
mod load;
mod mq;
mod recorder;
mod report;
mod run;
mod soak;
mod startup;
mod template;
mod transport;
mod warm;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use tokio::runtime::Builder;

use crate::error::Error;
use crate::ingest::cut::Part;
use crate::load::ours::Way;
use crate::run::Job;
use crate::warm::runtime_alone::Kind;

#[derive(Debug, Parser)]
#[command(about = "Measures the gateway beside other programs")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare produce and consume with other clients of RabbitMQ
    Clients(Arguments),
    /// Compare functions' starts with one in Node.js
    Startup(startup::Options),
    /// Measure a warm request beyond its calls
    Warm(warm::Options),
    /// Compare idempotent requests with Powertools for AWS Lambda
    Idempotency(idempotency::Options),
    /// Compare the product ingest with its unavoidable parts, with Node.js and with raw COPY
    Ingest(ingest::Options),
    /// Compare the way from an object in S3 to committed rows with Node.js and Python
    Load(load::Options),
    /// Compare puts and gets on IBM MQ with the calls alone and with IBM's client in Python
    Mq(mq::Options),
    /// Measure accepting a catalogue beside the put of its object alone
    Accept(accept::Options),
    /// Compare SQS and Kafka as the transport of chunks
    Transport(transport::Options),
    /// Send what well-behaved and hostile callers send, for minutes
    Soak(soak::Options),
    /// A contender: the crate `rabbitmq`, as mq-access calls it
    #[command(hide = true)]
    Crate(Contender),
    /// A contender: the client library alone
    #[command(hide = true)]
    Lapin(Contender),
    /// A contender: the crate `ibm-mq`, as mq-access calls it
    #[command(hide = true)]
    MqCrate(mq::Contest),
    /// A contender: a request's calls alone
    #[command(hide = true)]
    CallsAlone {
        #[arg(long, env = "AMQP_URL", hide_env_values = true)]
        url: String,
    },
    /// A contender: the crate `idempotency`
    #[command(hide = true)]
    Claims,
    /// A contender: a payload cut into chunks, or a part of that
    #[command(hide = true)]
    Cut { part: Part, payload: PathBuf },
    /// A contender: catalogues from S3 to PostgreSQL
    #[command(hide = true)]
    LoadRows { way: Way },
    /// A measurement of accepting: the function's code
    #[command(hide = true)]
    Accepts { requests: u32, results: PathBuf },
    /// A contender: a function that does nothing
    #[command(hide = true)]
    RuntimeAlone { kind: Kind, bytes: usize },
}

#[derive(Debug, Args)]
struct Arguments {
    /// The broker, with credentials
    #[arg(long, env = "AMQP_URL", hide_env_values = true)]
    url: String,
    /// Messages of each run
    #[arg(long, env = "MESSAGES", default_value_t = 100_000)]
    messages: u32,
    /// Runs of each contender; a multiple of four gives each the same turns
    #[arg(long, env = "ROUNDS", default_value_t = 4)]
    rounds: u32,
    /// The interpreter that has pika and aio-pika
    #[arg(long, env = "BENCH_PYTHON", default_value = ".local/bench/python/bin/python")]
    python: String,
}

#[derive(Debug, Args)]
struct Contender {
    job: Job,
    queue: String,
    #[command(flatten)]
    arguments: Arguments,
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    // What is measured beside a function has a runtime of the functions' kind.
    let mut builder = match command {
        Command::CallsAlone { .. }
        | Command::MqCrate(_)
        | Command::Claims
        | Command::Cut { .. }
        | Command::LoadRows { .. }
        | Command::Accepts { .. }
        | Command::RuntimeAlone { .. } => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build();
    match runtime.map_err(Error::Io).and_then(|runtime| runtime.block_on(run(command))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "a command's error")]
            {
                eprintln!("{error}");
            }
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> Result<(), Error> {
    match command {
        Command::Clients(arguments) => comparison::compare(&arguments).await,
        Command::Startup(options) => startup::run(&options).await,
        Command::Warm(options) => warm::run(&options).await,
        Command::Idempotency(options) => idempotency::run(&options).await,
        Command::Ingest(options) => ingest::run(&options).await,
        Command::Load(options) => load::run(&options).await,
        Command::Mq(options) => mq::run(&options).await,
        Command::MqCrate(contest) => mq::contend_as_crate(&contest).await,
        Command::Accept(options) => accept::run(&options).await,
        Command::Transport(options) => transport::run(&options).await,
        Command::Soak(options) => soak::run(&options).await,
        Command::LoadRows { way } => load::ours::serve(way).await,
        Command::Accepts { requests, results } => accept::measure::run(requests, &results).await,
        Command::Cut { part, payload } => ingest::cut::run(part, &payload).await,
        Command::Claims => idempotency::ours::serve().await,
        Command::Crate(Contender { job, queue, arguments }) => {
            gateway_crate::run(&arguments.url, job, &queue, arguments.messages).await?.print()
        }
        Command::Lapin(Contender { job, queue, arguments }) => {
            bare_lapin::run(&arguments.url, job, &queue, arguments.messages).await?.print()
        }
        Command::CallsAlone { url } => warm::baseline::serve(&url).await,
        Command::RuntimeAlone { kind, bytes } => warm::runtime_alone::serve(kind, bytes).await,
    }
}
