//! Measurements behind the figures in docs/performance.md, as tables in Markdown.
//!
//! Contenders, the programs to compare, are processes that take turns. They answer lines of work
//! with lines of JSON. `benches contend` is such a contender; the Python ones are in
//! benches/python, those in Node.js in benches/node.

mod callers;
mod child;
mod clients;
mod contender;
mod cpu;
mod database;
mod error;
mod function;
mod gateway_crate;
mod http_client;
mod idempotency;
mod ingest;
mod limits;
mod load;
mod load_tests;
mod mq;
mod peak;
mod recorder;
mod report;
mod soak;
mod startup;
mod tally;
mod warm;

use std::process::ExitCode;

use broker::chain;
use clap::{Parser, Subcommand};
use tokio::runtime::Builder;

use crate::error::Error;
use crate::ingest::cut::Part;
use crate::warm::runtime_alone::Kind;

#[derive(Debug, Parser)]
#[command(name = "benches", about = "Measures the gateway beside other programs")]
enum Command {
    /// Compare produce and consume with other clients of RabbitMQ
    Clients(clients::Options),
    /// Compare the start of each function with one in Node.js
    Startup(startup::Options),
    /// Measure the CPU time of a warm request without its calls to AWS and the broker
    Warm(warm::Options),
    /// Compare idempotent requests with Powertools for AWS Lambda
    Idempotency(idempotency::Options),
    /// Compare the product ingest with its indispensable parts, with Node.js and with raw COPY
    Ingest(ingest::Options),
    /// Compare the loading of catalogues from S3 to committed rows with Node.js and Python
    Load(load::Options),
    /// Compare puts and gets on IBM MQ with bare calls of the MQI and with IBM's client in Python
    Mq(mq::Options),
    /// Measure a morning peak of catalogues, and quiet tenants beside another tenant's flood
    Peak(peak::Options),
    /// Compare load tests of a running stack with a bare client of RabbitMQ
    Tests(load_tests::Options),
    /// Measure rate limits that many execution environments enforce together
    Limits(limits::Options),
    /// Run well-behaved and hostile callers against a running stack for minutes
    Soak(soak::Options),
    /// Run as the contender of a benchmark
    #[command(hide = true, subcommand)]
    Contend(Contender),
}

#[derive(Debug, Subcommand)]
enum Contender {
    /// Crate `rabbitmq`, as mq-access calls it
    Rabbitmq(clients::Contest),
    /// RabbitMQ client library alone
    Lapin(clients::Contest),
    /// Crate `ibm-mq`, as mq-access calls it
    IbmMq(mq::Contest),
    /// RabbitMQ client library alone, under the load of a load test
    PacedLapin {
        #[arg(long, env = "AMQP_URL", hide_env_values = true)]
        url: String,
    },
    /// Calls of a request alone, without the functions
    CallsAlone {
        task: String,
        #[arg(long, env = "AMQP_URL", hide_env_values = true)]
        url: String,
    },
    /// Crate `idempotency`
    Claims { task: String },
    /// Chunker's pipeline, or one part of it
    Cut { part: Part },
    /// Loading of catalogues from S3 to PostgreSQL
    LoadRows,
    /// Lambda function that does nothing
    RuntimeAlone { kind: Kind, bytes: usize },
}

fn main() -> ExitCode {
    let command = Command::parse();
    // A contender that is measured beside a function has a runtime of the functions' kind.
    let has_threads = match &command {
        Command::Contend(contender) => {
            use Contender::{Lapin, PacedLapin, Rabbitmq};
            matches!(contender, Rabbitmq(_) | Lapin(_) | PacedLapin { .. })
        }
        _ => true,
    };
    let mut builder = if has_threads { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    let outcome = match builder.enable_all().build() {
        Ok(runtime) => runtime.block_on(run(command)),
        Err(error) => Err(error.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "a command's error")]
            {
                eprintln!("{}", chain(&*error));
            }
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> Result<(), Error> {
    match command {
        Command::Clients(options) => clients::run(&options).await,
        Command::Startup(options) => startup::run(&options).await,
        Command::Warm(options) => warm::run(&options).await,
        Command::Idempotency(options) => idempotency::run(&options).await,
        Command::Ingest(options) => ingest::run(&options).await,
        Command::Load(options) => load::run(&options).await,
        Command::Mq(options) => mq::run(&options).await,
        Command::Peak(options) => peak::run(&options).await,
        Command::Tests(options) => load_tests::run(&options).await,
        Command::Limits(options) => limits::run(&options).await,
        Command::Soak(options) => soak::run(&options).await,
        Command::Contend(contender) => contend(contender).await,
    }
}

async fn contend(contender: Contender) -> Result<(), Error> {
    match contender {
        Contender::Rabbitmq(contest) => clients::contend_as_crate(&contest).await,
        Contender::Lapin(contest) => clients::bare_lapin::contend(&contest).await,
        Contender::PacedLapin { url } => load_tests::bare::contend(&url).await,
        Contender::IbmMq(contest) => mq::contend(&contest).await,
        Contender::CallsAlone { task, url } => warm::baseline::contend(&task, &url).await,
        Contender::Claims { task } => idempotency::ours::contend(&task).await,
        Contender::Cut { part } => ingest::cut::contend(part).await,
        Contender::LoadRows => load::ours::contend().await,
        Contender::RuntimeAlone { kind, bytes } => warm::runtime_alone::serve(kind, bytes).await,
    }
}
