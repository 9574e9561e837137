//! Command-line arguments of `context`, `whoami`, `api`, `completions` and `man`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::Shell;

/// Arguments of `integrahub context`.
#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// Create a context (a named deployment), or change the settings that the options give
    #[command(after_help = "Examples:\n  \
integrahub context create prod --stack integrahub --region sa-east-1\n  \
integrahub context create till --url https://api.example.com --api-key-stdin <till.key")]
    Create(ContextCreate),
    /// List the contexts
    #[command(visible_alias = "ls")]
    List,
    /// Make a context the current one, which later commands use
    Use {
        /// Name of the context
        name: String,
    },
    /// Show the settings of a context
    Show {
        /// Name of the context; without it, the current one is shown
        name: Option<String>,
    },
    /// Print the name of the context that is used
    Current,
    /// Remove a context and its API key
    #[command(visible_alias = "rm")]
    Remove {
        /// Name of the context
        name: String,
    },
}

/// Arguments of `integrahub context create`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ContextCreate {
    /// Name of the context
    pub(crate) name: String,
    /// Read the API key from standard input, and keep it in a file that only you can read
    #[arg(long)]
    pub(crate) api_key_stdin: bool,
    /// Make the context the current one, which later commands use
    #[arg(long = "use")]
    pub(crate) use_it: bool,
}

/// Arguments of `integrahub whoami`.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Whoami {
    /// Call neither the API nor AWS
    #[arg(long)]
    pub(crate) offline: bool,
}

/// Arguments of `integrahub api`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  integrahub api GET /targets\n  \
integrahub api POST /queue/depth --body '{\"targetRef\": \"orders\"}'")]
pub(crate) struct ApiRequest {
    /// HTTP method, such as GET
    pub(crate) method: String,
    /// Path of the request, with its query
    pub(crate) path: String,
    /// Body as text; `@FILE` reads a file, `@-` standard input
    #[arg(long, short = 'd')]
    pub(crate) body: Option<String>,
    /// Idempotency key; without this option a POST gets a new key, which is shown
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Additional header, as `name: value`
    #[arg(long = "header", short = 'H', value_name = "HEADER")]
    pub(crate) headers: Vec<String>,
    /// Print the status and the headers of the response too
    #[arg(long, short = 'i')]
    pub(crate) include: bool,
}

/// Arguments of `integrahub completions`.
#[derive(Clone, Copy, Debug, Args)]
#[command(
    after_help = "Example:\n  integrahub completions bash >~/.local/share/bash-completion/completions/integrahub"
)]
pub(crate) struct Completions {
    /// Shell to print completions for
    pub(crate) shell: Shell,
}

/// Arguments of `integrahub man`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Man {
    /// Directory for the manual pages
    pub(crate) directory: PathBuf,
}
