//! Command-line arguments of `integrahub test`, which runs load tests.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use uuid::Uuid;

use super::send::duration;

/// Arguments of `integrahub test`.
#[derive(Debug, Subcommand)]
pub(crate) enum Tests {
    /// Start a load test and follow it to its end
    Run(TestRun),
    /// Show a test and its report
    Show(TestShow),
    /// List the tests, the newest first
    #[command(visible_alias = "ls")]
    List {
        /// Maximum number of tests to list
        #[arg(long, short = 'm', default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        max: u32,
    },
    /// Stop a load test before its end
    Stop {
        /// Id of the test
        test: Uuid,
    },
    /// Delete a test that has ended, and its report
    #[command(visible_alias = "rm")]
    Delete {
        /// Id of the test
        test: Uuid,
    },
}

/// Arguments of `integrahub test run`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  integrahub test run morning-peak.yaml --html report.html\n\n\
The file has the body of POST /tests as YAML or JSON. Exit code 99: the test ran and did not meet `expect`.")]
pub(crate) struct TestRun {
    /// File that describes the load test; `-` is standard input
    pub(crate) file: PathBuf,
    /// End as soon as the API has accepted the test, without waiting for its end
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Longest time to wait, such as 2h; after it, the test continues
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "no_wait")]
    pub(crate) timeout: Option<Duration>,
    /// File to write the report to, as an HTML page
    #[arg(long, value_name = "FILE", conflicts_with = "no_wait")]
    pub(crate) html: Option<PathBuf>,
    /// Id of a finished test whose figures the report compares with those of this test
    #[arg(long, value_name = "TEST")]
    pub(crate) baseline: Option<Uuid>,
    /// Idempotency key of an earlier `test run` command, to follow the test that it started
    #[arg(long)]
    pub(crate) key: Option<Uuid>,
}

/// Arguments of `integrahub test show`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TestShow {
    /// Id of the test
    pub(crate) test: Uuid,
    /// File to write the report to, as an HTML page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Id of a finished test whose figures the report compares with those of this test
    #[arg(long, value_name = "TEST")]
    pub(crate) baseline: Option<Uuid>,
}
