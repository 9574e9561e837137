//! Compares the gateway's RabbitMQ code with other clients on one broker, in one run, and prints a table in Markdown.
//!
//! ```text
//! benches            the comparison: every contender is a process of its own, one after another, round by round
//! benches crate …    one contender's run; the Python ones are in benches/python
//! ```

mod bare_lapin;
mod broker;
mod comparison;
mod cpu;
mod error;
mod gateway_crate;
mod report;
mod run;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::Error;
use crate::run::{Job, Run};

#[derive(Debug, Parser)]
#[command(about = "Compares produce and consume with other clients of RabbitMQ")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Contender>,
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
    #[arg(long, env = "BENCH_PYTHON", default_value = ".local/bench/bin/python")]
    python: String,
}

#[derive(Debug, Subcommand)]
enum Contender {
    /// The crate `rabbitmq`, as mq-access calls it
    Crate { job: Job, queue: String },
    /// The client library alone
    Lapin { job: Job, queue: String },
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
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

async fn run(arguments: Arguments) -> Result<(), Error> {
    let run: Run = match &arguments.command {
        None => return comparison::compare(&arguments).await,
        Some(Contender::Crate { job, queue }) => {
            gateway_crate::run(&arguments.url, *job, queue, arguments.messages).await?
        }
        Some(Contender::Lapin { job, queue }) => {
            bare_lapin::run(&arguments.url, *job, queue, arguments.messages).await?
        }
    };
    run.print()
}
