//! What the product ingest costs: cutting a catalogue beside what no cutting can do without and
//! beside Node.js, and writing its products beside raw COPY.

pub(crate) mod catalogue;
pub(crate) mod cut;
mod report;
mod upsert;

use std::path::{Path, PathBuf};

use clap::Args;
use tokio::process::Command;

use crate::contest;
use crate::error::Error;
use crate::ingest::cut::{Part, Pass};
use crate::ingest::report::Cuts;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Items of the catalogue
    #[arg(long, env = "ITEMS", default_value_t = 100_000)]
    items: u32,
    /// Runs of each contender
    #[arg(long, env = "ROUNDS", default_value_t = 5)]
    rounds: u32,
    /// Directory of the program in Node.js, as scripts/bench-setup.sh installs it; where it is
    /// missing, there is no such contender
    #[arg(long, env = "BENCH_NODE_INGEST", default_value = ".local/bench/node-ingest")]
    node: PathBuf,
    /// The server that writing is measured on, in databases of its own; with none, only cutting is
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,
}

/// Contender that goes over the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contender {
    Rust(Part),
    Node,
}

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    let payload = catalogue::file(options.items)?;
    let cuts = compare(options, payload.path()).await?;
    let gzip = payload.as_file().metadata()?.len();
    show(&report::cutting(&cuts, options.items, gzip, options.rounds));
    if let Some(url) = &options.database_url {
        let phases = upsert::measure(url, options.items, options.rounds).await?;
        show(&report::writing(&phases, options.items, options.rounds));
    }
    Ok(())
}

pub(crate) fn unexpected(error: &dyn std::error::Error) -> Error {
    Error::Unexpected(error.to_string())
}

#[expect(clippy::print_stdout, reason = "the report")]
fn show(table: &str) {
    println!("\n{table}");
}

async fn compare(options: &Options, payload: &Path) -> Result<Cuts, Error> {
    let script = options.node.join("cut.mjs");
    let mut contenders: Vec<_> = Part::ALL.into_iter().map(Contender::Rust).collect();
    if script.is_file() {
        contenders.push(Contender::Node);
    }
    let mut cuts = Cuts::default();
    for round in 0..options.rounds {
        for contender in &contenders {
            let pass = contender.go(payload, &script).await?;
            if pass.items.is_some_and(|items| items != options.items) {
                return Err(Error::Unexpected(format!("{contender:?} found {:?} items", pass.items)));
            }
            progress(round, *contender, pass);
            cuts.add(*contender, pass);
        }
        contenders.rotate_left(1);
    }
    Ok(cuts)
}

impl Contender {
    async fn go(self, payload: &Path, script: &Path) -> Result<Pass, Error> {
        let mut command = match self {
            Self::Rust(part) => {
                let mut command = contest::own("cut")?;
                command.arg(part.name());
                command
            }
            Self::Node => {
                let mut command = Command::new("node");
                command.arg(script);
                command
            }
        };
        command.arg(payload);
        contest::run(command, &format!("{self:?}"), "cut").await
    }
}

#[expect(clippy::print_stderr, reason = "it takes a while")]
fn progress(round: u32, contender: Contender, pass: Pass) {
    let Pass { seconds, cpu_seconds, .. } = pass;
    let contender = format!("{contender:?}");
    eprintln!("round {:>2}  {contender:<15}  {seconds:>6.3} s  {cpu_seconds:>6.3} s of CPU", round + 1);
}
