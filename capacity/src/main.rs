//! Predicts a peak of the product ingest: when each catalogue is final, which resource saturates
//! first, which parameter raises that limit, and the cost. `plan --pharmacies 5000` is an example.
//! `docs/capacity.md` describes the model and what it leaves out.
//!
//! A peak is simulated event by event, without I/O. Random numbers come from a seed, so that the
//! same flags have the same result. Service times and prices are files that can be replaced.

mod answer;
mod cost;
mod database;
mod fair_queue;
mod limits;
mod question;
mod resources;
mod service;
mod service_times;
mod simulation;
#[cfg(test)]
mod tests;
mod text;
mod timeline;
mod worker;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use serde::de::DeserializeOwned;

use answer::Answer;
use cost::PriceLists;
use question::Question;
use service_times::ServiceTimes;

const PRICES: &str = include_str!("../prices.toml");
const SERVICE_TIMES: &str = include_str!("../service-times.toml");

#[derive(Debug, Parser)]
#[command(name = "plan", about = "Predicts a peak of the product ingest")]
struct Cli {
    #[command(flatten)]
    question: Question,
    /// File with prices that replace the built-in ones
    #[arg(long)]
    prices: Option<PathBuf>,
    /// File with service times that replace the built-in ones
    #[arg(long)]
    service_times: Option<PathBuf>,
    /// Format of the output
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// Format in which the prediction is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Tables for people.
    Text,
    /// JSON with all figures, for programs.
    Json,
}

/// Reason why the command could not predict a peak.
#[derive(Debug, thiserror::Error)]
enum PlanError {
    #[error("{0}")]
    Question(String),
    #[error("there are no prices for `{0}`")]
    Region(String),
    #[error("`{0}` cannot be read")]
    Unreadable(PathBuf, #[source] std::io::Error),
    #[error("`{0}` has not the form of the file that comes with this version")]
    Form(PathBuf, #[source] Box<toml::de::Error>),
    #[error("the answer cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(answer) => {
            #[expect(clippy::print_stdout, reason = "the answer")]
            {
                println!("{answer}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            let because = error.source().map(|source| format!(": {source}")).unwrap_or_default();
            #[expect(clippy::print_stderr, reason = "a command's error")]
            {
                eprintln!("{error}{because}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Simulates the peak that the flags describe, and returns the prediction in the format that they
/// name.
///
/// # Errors
/// If the flags contradict each other, or if a file cannot be read or parsed.
fn run(cli: &Cli) -> Result<String, PlanError> {
    let prices = read(cli.prices.as_deref(), PRICES)?;
    let times = read(cli.service_times.as_deref(), SERVICE_TIMES)?;
    let answer = plan(&cli.question, &times, &prices)?;
    Ok(match cli.output {
        Output::Text => answer.to_string(),
        Output::Json => serde_json::to_string_pretty(&answer)?,
    })
}

fn plan(question: &Question, times: &ServiceTimes, prices: &PriceLists) -> Result<Answer, PlanError> {
    question.check(times.sizes).map_err(PlanError::Question)?;
    let prices = prices.of(&question.region).ok_or_else(|| PlanError::Region(question.region.clone()))?;
    Ok(Answer::of(question, times, prices))
}

fn read<T: DeserializeOwned>(path: Option<&Path>, shipped: &str) -> Result<T, PlanError> {
    let text = match path {
        None => shipped.to_owned(),
        Some(path) => {
            std::fs::read_to_string(path).map_err(|error| PlanError::Unreadable(path.to_owned(), error))?
        }
    };
    let path = path.unwrap_or(Path::new("the file of this version"));
    toml::from_str(&text).map_err(|error| PlanError::Form(path.to_owned(), Box::new(error)))
}
