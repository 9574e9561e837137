//! Cost of the product ingest. Cutting a catalogue is compared with its indispensable parts and
//! with Node.js, writing its products with raw COPY.

pub(crate) mod catalogue;
pub(crate) mod chunks;
pub(crate) mod cut;
mod upsert;

use std::collections::HashMap;
use std::io::Write as _;

use clap::Args;
use tempfile::NamedTempFile;

use crate::child::Program;
use crate::contender::{Answering, once, turns};
use crate::error::Error;
use crate::ingest::cut::Pass;
use crate::report::Goal::AtLeast;
use crate::report::{Column, Report};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Number of items in the catalogue
    #[arg(long, env = "ITEMS", default_value_t = 100_000)]
    items: u32,
    /// Number of runs of each contender
    #[arg(long, env = "ROUNDS", default_value_t = 5)]
    rounds: u32,
    /// URL of the PostgreSQL server on which writing is measured, in new databases; if it is not
    /// given, only the splitting of payloads is measured
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,
}

const PIPELINE: &str = "chunker's pipeline";
const INFLATE: &str = "inflate alone";
const PARSE: &str = "parse alone";
const COMPRESS: &str = "compress alone";
const NODE: &str = "Node.js";

/// Contenders that measure one part of the pipeline each. Their times are added up.
const PARTS: [&str; 3] = [INFLATE, PARSE, COMPRESS];
const SUM: &str = "inflate, parse, compress";

const RATE: &str = "MB/s of JSON";
const CPU: &str = "CPU s";
const COLUMNS: [Column; 5] = [
    Column::median(RATE, 0),
    Column::spread(RATE),
    Column::median(CPU, 3),
    Column::times("chunker / it", RATE, PIPELINE).goals(&[(SUM, AtLeast(0.8)), (NODE, AtLeast(4.0))]),
    Column::of("CPU, it / chunker", CPU, PIPELINE).goals(&[(SUM, AtLeast(0.8))]),
];

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    let mut payload = NamedTempFile::new()?;
    payload.write_all(&catalogue::gzip(options.items, 0)?)?;
    compare(options, &payload.path().display().to_string()).await?.print();
    if let Some(url) = &options.database_url {
        upsert::measure(url, options.items, options.rounds).await?.print();
    }
    Ok(())
}

async fn compare(options: &Options, payload: &str) -> Result<Report, Error> {
    let Options { items, rounds, .. } = options;
    let mut contenders =
        [(PIPELINE, "pipeline"), (INFLATE, "inflate"), (PARSE, "parse"), (COMPRESS, "compress")]
            .into_iter()
            .map(|(name, part)| Ok(Program::own(name, "cut")?.arg(part)))
            .collect::<Result<Vec<_>, Error>>()?;
    contenders.extend(Program::node(NODE, ".local/bench/node-ingest/cut.mjs"));
    let mut report = Report::new(
        format!("{items} items, one array in gzip; medians of {rounds} rounds. The sum is that of a round."),
        &COLUMNS,
    );
    for round in 0..*rounds {
        let mut costs = HashMap::new();
        for contender in turns(&contenders, round) {
            let Pass { bytes, items: found, took } = once::<Answering<Pass>>(contender, payload).await?;
            if found.is_some_and(|found| found != *items) {
                return Err(format!("{} found {found:?} items", contender.name).into());
            }
            let megabytes = f64::from(bytes) / 1e6;
            report.tell("", &contender.name, &[(RATE, megabytes / took.seconds), (CPU, took.cpu_seconds)]);
            costs.insert(contender.name.as_str(), (megabytes, took));
        }
        let parts = || PARTS.iter().filter_map(|part| costs.get(part));
        let megabytes = parts().map(|(megabytes, _)| *megabytes).fold(f64::NAN, f64::max);
        let seconds: f64 = parts().map(|(_, took)| took.seconds).sum();
        let cpu_seconds = parts().map(|(_, took)| took.cpu_seconds).sum();
        report.add("", SUM, &[(RATE, megabytes / seconds), (CPU, cpu_seconds)]);
    }
    Ok(report)
}
