//! Comparison of idempotency with Powertools for AWS Lambda: calls to DynamoDB and CPU time of a
//! new request, of a replayed one, and of a conflict, which has another body under a used key.
//!
//! Each contender is a warm process that reaches the same table through a recorder of its own. The
//! contenders take turns, one block of requests at a time.

pub(crate) mod ours;
mod task;

use clap::Args;
use uuid::Uuid;

use crate::child::Program;
use crate::contender::{Answering, Contender as _};
use crate::cpu::Took;
use crate::error::Error;
use crate::idempotency::task::{Block, Job, Task};
use crate::recorder::Recorder;
use crate::report::Goal::AtMost;
use crate::report::{Column, Report, count};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Endpoint of the DynamoDB that IntegraHub and Powertools use
    #[arg(long, env = "AWS_ENDPOINT_URL")]
    endpoint: String,
    /// Table that both contenders use, with the key `pk`
    #[arg(long, env = "IDEMPOTENCY_TABLE")]
    table: String,
    /// Number of blocks of each kind for each contender
    #[arg(long, env = "ROUNDS", default_value_t = 10)]
    rounds: u32,
    /// Number of requests in a block
    #[arg(long, env = "REQUESTS", default_value_t = 200)]
    requests: usize,
}

/// Number of requests in a block of conflicts. It is smaller than that of other blocks, because a
/// limit on conflicts would be reached otherwise.
const CONFLICTS: usize = 20;

const OURS: &str = "IntegraHub";
const CALLS: &str = "calls";
const PUTS: &str = "PutItem";
const UPDATES: &str = "UpdateItem";
const SENT: &str = "sent, B";
const CPU: &str = "CPU µs";
const COLUMNS: [Column; 7] = [
    // Over all blocks, so that one call too many anywhere shows.
    Column::mean(CALLS),
    Column::mean(PUTS),
    Column::mean(UPDATES),
    Column::median(SENT, 0),
    Column::median(CPU, 0),
    Column::spread(CPU),
    Column::times("IntegraHub / it", CPU, OURS)
        .decimals(3)
        .goals(&[("new, Powertools", AtMost(0.15)), ("replayed, Powertools", AtMost(0.15))]),
];

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    let Options { endpoint, table, rounds, requests } = options;
    let task = serde_json::to_string(&Task::new(table)?)?;
    let mut contenders = Vec::new();
    for program in
        [Program::own(OURS, "claims")?, Program::python("Powertools", "bench/python", "with_powertools.py")]
    {
        let recorder = Recorder::start(endpoint).await;
        let program = program
            .arg(&task)
            .env("AWS_ENDPOINT_URL", recorder.url())
            .env("AWS_LAMBDA_FUNCTION_NAME", "bench");
        contenders.push((program.name.clone(), recorder, Answering::<Took>::start(&program).await?));
    }
    let mut report = Report::new(
        format!(
            "A request of 1 KiB, a response of 300 B; medians of {rounds} blocks of {requests} requests, and means of \
             the calls."
        ),
        &COLUMNS,
    );
    // The first round only warms up.
    for round in 0..=*rounds {
        contenders.rotate_left(1);
        let key = |_| Uuid::new_v4().to_string();
        let of_each: Vec<Vec<String>> =
            contenders.iter().map(|_| (0..*requests).map(key).collect()).collect();
        for (job, case) in Job::ALL {
            for ((name, recorder, contender), keys) in contenders.iter_mut().zip(&of_each) {
                let keys = keys.iter().take(if job == Job::Conflict { CONFLICTS } else { usize::MAX });
                let block = Block { job, keys: keys.cloned().collect() };
                recorder.forget();
                let took = contender.send(&serde_json::to_string(&block)?).await?;
                let calls = recorder.calls()?;
                let of = |operation| calls.iter().filter(|call| call.operation == operation).count();
                let each = |number| number / count(block.keys.len());
                let values = [
                    (CALLS, each(count(calls.len()))),
                    (PUTS, each(count(of(PUTS)))),
                    (UPDATES, each(count(of(UPDATES)))),
                    (SENT, each(count(recorder.bytes()))),
                    (CPU, each(took.cpu_seconds * 1e6)),
                ];
                if round > 0 {
                    report.tell(case, name, &values);
                }
            }
        }
    }
    for (_, _, contender) in contenders {
        contender.stop().await?;
    }
    report.print();
    Ok(())
}
