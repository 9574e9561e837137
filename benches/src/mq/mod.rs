//! What the crate `ibm-mq` adds to the library that it calls, beside the calls alone and beside
//! IBM's own client in Python, over the stand-in for a queue manager; and what the library costs
//! `mq-access` as it starts.
//!
//! The stand-in takes the place of IBM's library in all contenders' processes, and of the queue
//! manager. The wall-clock times are its own for the most part, so each process's CPU time is
//! measured as well, and the queue manager's.

mod contender;
mod gateway_crate;
mod manager;
mod report;
mod start;

use clap::{Args, ValueEnum};

use crate::contest;
use crate::error::Error;
use crate::run::Run;
use contender::Contender;
pub(crate) use contender::Contest;
use manager::Manager;
use report::Results;

/// The queue that all contenders use, one after another.
const QUEUE: &str = "BENCH.QUEUE";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Messages of each run
    #[arg(long, env = "MESSAGES", default_value_t = 20_000)]
    messages: u32,
    /// Runs of each contender; a multiple of five gives each the same turns
    #[arg(long, env = "ROUNDS", default_value_t = 5)]
    rounds: u32,
    /// Starts of mq-access with the library, and without
    #[arg(long, env = "STARTS", default_value_t = 40)]
    starts: usize,
    /// The interpreter that has IBM's client
    #[arg(long, env = "BENCH_MQ_PYTHON", default_value = ".local/mqm-standin/bin/python")]
    python: String,
}

/// Work of a run: to put messages, or to get them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Job {
    Put,
    Get,
}

impl Job {
    const ALL: [Self; 2] = [Self::Put, Self::Get];

    const fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
        }
    }
}

/// Numbers of messages in a unit of work.
const UNITS: [u32; 3] = [1, 10, 100];

/// Cost of one run, in the contender's process and in the queue manager's.
#[derive(Clone, Copy, Debug)]
struct Taken {
    run: Run,
    manager_cpu_seconds: f64,
}

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    let manager = Manager::start()?;
    let mut results = Results::default();
    for round in 0..options.rounds {
        for unit in UNITS {
            for contender in contest::turns(&Contender::ALL, round) {
                for job in Job::ALL {
                    let taken = contend(options, &manager, contender, job, unit).await?;
                    progress(round, contender, job, unit, taken.run);
                    results.add(contender, job, unit, taken);
                }
            }
        }
    }
    let starts = start::measure(manager.library(), options.starts).await?;
    #[expect(clippy::print_stdout, reason = "the report")]
    {
        println!("\n{}", report::table(&results, &starts, options.messages, options.rounds));
    }
    Ok(())
}

/// A contender gets the messages that it has put, so that all get what they would have put.
async fn contend(
    options: &Options,
    manager: &Manager,
    contender: Contender,
    job: Job,
    unit: u32,
) -> Result<Taken, Error> {
    let before = manager.cpu()?;
    let run = contender.run(options, manager, job, unit).await?;
    let manager_cpu_seconds = (manager.cpu()? - before).as_secs_f64();
    let expected = if job == Job::Put { options.messages } else { 0 };
    let depth = manager.depth(QUEUE);
    if depth != u64::from(expected) {
        let detail = format!("{} left {depth} messages after a {}", contender.name(), job.name());
        return Err(Error::Unexpected(detail));
    }
    Ok(Taken { run, manager_cpu_seconds })
}

#[expect(clippy::print_stderr, reason = "it takes minutes")]
fn progress(round: u32, contender: Contender, job: Job, unit: u32, run: Run) {
    eprintln!(
        "round {}  {} {:>3} a unit  {:<33}  {:>7.0} messages/s  {:>6.1} µs of CPU a message",
        round + 1,
        job.name(),
        unit,
        contender.name(),
        run.rate(),
        run.cpu_seconds * 1e6 / f64::from(run.messages),
    );
}

/// The contender that is this program: the crate, as mq-access calls it.
pub(crate) async fn contend_as_crate(contest: &Contest) -> Result<(), Error> {
    gateway_crate::run(contest).await?.print()
}
