//! What idempotency costs, beside Powertools for AWS Lambda: calls to DynamoDB and CPU time of a
//! request that is new, of one that is replayed, and of one that brings another body under a used
//! key.
//!
//! Each contender is a process that stays warm and has a way to the same table through a recorder
//! of its own. They take turns, block by block.

mod contender;
pub(crate) mod ours;
mod report;
mod table;
mod task;

use std::time::Duration;

use clap::Args;
use runtime::Sdk;

use crate::error::Error;
use crate::idempotency::contender::{Contender, Who};
use crate::idempotency::report::{Measured, report};
use crate::idempotency::table::Table;
use crate::idempotency::task::{Block, Job, Task};
use crate::keys::Keys;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The DynamoDB that both use
    #[arg(long, env = "AWS_ENDPOINT_URL")]
    endpoint: String,
    /// Blocks of each kind for each contender
    #[arg(long, env = "ROUNDS", default_value_t = 10)]
    rounds: u32,
    /// Requests of a block
    #[arg(long, env = "REQUESTS", default_value_t = 200)]
    requests: usize,
    /// The interpreter that has Powertools
    #[arg(long, env = "BENCH_PYTHON", default_value = ".local/bench/python/bin/python")]
    python: String,
}

/// Conflicts of a block: fewer, or the limit for them would be reached.
const CONFLICTS: usize = 20;

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    let dynamodb = aws_sdk_dynamodb::Client::new(Sdk::from_environment().await.standard());
    let table = Table::create(dynamodb).await?;
    let measured = measure(options, &Task::new(table.name())?).await;
    table.delete().await?;
    #[expect(clippy::print_stdout, reason = "the report")]
    {
        println!("\n{}", report(&measured?, options.rounds, options.requests));
    }
    Ok(())
}

async fn measure(options: &Options, task: &Task) -> Result<Vec<Measured>, Error> {
    let mut keys = Keys::new();
    let mut contenders = Vec::new();
    for who in Who::ALL {
        contenders.push(Contender::start(who, &options.endpoint, &options.python, task).await?);
    }
    let mut measured = Vec::new();
    // The first round only warms up.
    for round in 0..=options.rounds {
        contenders.rotate_left(1);
        let of_each: Vec<Vec<String>> =
            contenders.iter().map(|_| (0..options.requests).map(|_| keys.next()).collect()).collect();
        for job in Job::ALL {
            for (contender, keys) in contenders.iter_mut().zip(&of_each) {
                let keys = keys.iter().take(if job == Job::Conflict { CONFLICTS } else { usize::MAX });
                let one = contender.take(&Block { job, keys: keys.cloned().collect() }).await?;
                progress(round, &one);
                if round > 0 {
                    measured.push(one);
                }
            }
        }
    }
    Ok(measured)
}

#[expect(clippy::print_stderr, reason = "it takes a while")]
fn progress(round: u32, one: &Measured) {
    let Measured { who, job, requests, cpu, .. } = one;
    let round = if round == 0 { "warm-up ".to_owned() } else { format!("round {round:>2}") };
    let cpu = report::micros(*cpu, *requests);
    eprintln!("{round}  {:<10}  {:<10}  {cpu:>6.0} µs of CPU a request", job.name(), who.name());
}

/// Prefix of the line that a contender writes at the end of a block, among those of its log.
const ANSWER: &str = "cpu ";

fn answer(line: &str) -> Option<Duration> {
    line.strip_prefix(ANSWER)?.trim().parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_from_the_log() {
        assert_eq!(answer("cpu 1500\n"), Some(Duration::from_nanos(1500)));
        for other in ["{\"level\":\"INFO\"}", "cpu", "cpu soon"] {
            assert_eq!(answer(other), None, "{other}");
        }
    }
}
