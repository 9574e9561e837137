//! Catalogues from request to row with their chunks announced over SQS and over Kafka: the same
//! load to a stack of each kind, in turn.

mod measure;
mod report;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::error::Error;
use crate::transport::measure::Load;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Catalogues that are sent at once
    #[arg(long, env = "CATALOGUES", default_value_t = 8)]
    catalogues: u32,
    /// Items of each
    #[arg(long, env = "ITEMS", default_value_t = 20_000)]
    items: u32,
    /// Stacks of each kind
    #[arg(long, env = "ROUNDS", default_value_t = 3)]
    rounds: u32,
    /// Measure the stack that answers there, and start none
    #[arg(long, env = "API")]
    base_url: Option<String>,
    /// Write what was measured there instead of showing it
    #[arg(long, hide = true)]
    results: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Transport {
    Sqs,
    Kafka,
}

impl Transport {
    /// Returns the transport of the stack which this process was started in.
    fn of_this_stack() -> Self {
        if std::env::var(KAFKA).is_ok_and(|value| value == "1") { Self::Kafka } else { Self::Sqs }
    }
}

/// The variable that chooses a local stack's transport.
const KAFKA: &str = "KAFKA";

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    if let Some(base_url) = &options.base_url {
        let load = measure::load(base_url, options.catalogues, options.items).await?;
        return match &options.results {
            Some(results) => Ok(std::fs::write(results, serde_json::to_vec(&load)?)?),
            None => {
                show(&report::table(&[(Transport::of_this_stack(), load)], options));
                Ok(())
            }
        };
    }
    let mut loads = Vec::new();
    let mut order = [Transport::Sqs, Transport::Kafka];
    for _ in 0..options.rounds {
        for transport in order {
            loads.push((transport, in_a_stack(transport, options).await?));
        }
        // Whoever comes second finds the machine's caches warmer.
        order.reverse();
    }
    show(&report::table(&loads, options));
    Ok(())
}

/// Starts a stack of that kind and this program in it.
async fn in_a_stack(transport: Transport, options: &Options) -> Result<Load, Error> {
    let this = std::env::current_exe()?;
    let stack = this.with_file_name("local");
    let results = tempfile::NamedTempFile::new()?;
    let status = Command::new(stack)
        .args(["test", "--"])
        .arg(&this)
        .args(["transport", "--catalogues", &options.catalogues.to_string()])
        .args(["--items", &options.items.to_string(), "--results"])
        .arg(results.path())
        .env(KAFKA, if transport == Transport::Kafka { "1" } else { "0" })
        // Its progress is not the report.
        .stdout(Stdio::from(std::io::stderr()))
        .kill_on_drop(true)
        .status()
        .await?;
    if !status.success() {
        return Err(Error::Unexpected(format!("the load over {transport:?} failed ({status})")));
    }
    read(results.path())
}

fn read(path: &Path) -> Result<Load, Error> {
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}

#[expect(clippy::print_stdout, reason = "the report")]
fn show(table: &str) {
    println!("\n{table}");
}
