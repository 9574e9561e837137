//! Command-line arguments of `integrahub batches` and `integrahub status`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use uuid::Uuid;

use super::LoadType;
use super::choice::choices;
use super::send::duration;

/// Arguments of `integrahub batches`.
#[derive(Debug, Subcommand)]
pub(crate) enum Batches {
    /// List the batches, the newest first
    #[command(visible_alias = "ls")]
    List(BatchList),
    /// Show a batch
    Show {
        /// Id of the batch
        batch: Uuid,
    },
    /// Wait until a batch is final, and show it
    Watch {
        /// Id of the batch
        batch: Uuid,
        /// Longest time to wait, such as 10m; without this option there is no limit
        #[arg(long, value_name = "TIME", value_parser = duration)]
        timeout: Option<Duration>,
    },
    /// List all items of a batch that were not loaded, each with the reason
    #[command(after_help = "Example:\n  \
integrahub batches errors 01a1fd8c-697b-7c4e-8d21-3f5a6b7c8d9e --file errors.ndjson")]
    Errors {
        /// Id of the batch
        batch: Uuid,
        /// File to write the items to, a JSON object a line, in place of standard output
        #[arg(long, short = 'f')]
        file: Option<PathBuf>,
    },
    /// Process the failed chunks of a final batch again, or the whole batch with --scope all
    Replay(BatchReplay),
    /// Confirm the held deactivation of a full load: the products that the load lacks become
    /// inactive
    Confirm {
        /// Id of the batch
        batch: Uuid,
        #[command(flatten)]
        wait: WaitArgs,
    },
}

/// Arguments of `integrahub batches list`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BatchList {
    /// Only batches of this status, such as FAILED
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) status: Option<String>,
    /// Only batches of this load type
    #[arg(long = "type", value_enum)]
    pub(crate) load_type: Option<LoadType>,
    /// Only batches that were loaded from the S3 object with this key
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) source: Option<String>,
    /// Maximum number of batches to list
    #[arg(long, short = 'm', default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max: u32,
}

choices! {
    /// Part of a batch that a replay processes again.
    #[derive(Default)]
    Scope {
        /// The chunks that failed, or the whole payload if it could not be cut into chunks.
        #[default]
        Failed = "failed",
        /// The whole batch.
        All = "all",
    }
}

/// Arguments of `integrahub batches replay`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BatchReplay {
    /// Id of the batch
    pub(crate) batch: Uuid,
    /// Part of the batch to process again
    #[arg(long, value_enum, default_value_t)]
    pub(crate) scope: Scope,
    #[command(flatten)]
    pub(crate) wait: WaitArgs,
}

/// Options of `batches replay` and `batches confirm`: whether to wait for the end of the batch, and
/// for how long.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct WaitArgs {
    /// End as soon as the API has accepted the request, without waiting for the batch
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Longest time to wait for the batch, such as 10m; without this option there is no limit
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "no_wait")]
    pub(crate) timeout: Option<Duration>,
}

/// Arguments of `integrahub status`.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Status {
    /// Only check whether the stores and functions behind the API answer, which needs no API key
    #[arg(long)]
    pub(crate) health: bool,
}
