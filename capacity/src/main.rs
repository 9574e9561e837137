//! Prints what a peak of the ingest comes to: `plan --pharmacies 5000`.

use std::error::Error;
use std::process::ExitCode;

use capacity::Options;
use clap::Parser;

#[derive(Debug, Parser)]
#[command(name = "plan", about = "Predicts a peak of the product ingest")]
struct Cli {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    match capacity::run(&Cli::parse().options) {
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
