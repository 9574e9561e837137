//! Command-line arguments of `integrahub doctor`, which looks for faults in a deployment.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `integrahub doctor`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = "Examples:\n  \
integrahub doctor\n  \
integrahub doctor --tenant acme --target orders\n  \
integrahub doctor --before --config-env production --strict")]
pub(crate) struct Doctor {
    /// Check what the next deployment needs, and invoke no function
    #[arg(long, conflicts_with_all = ["tenant", "target"])]
    pub(crate) before: bool,
    /// File of SAM CLI with the parameters of the next deployment [default: samconfig.toml]
    #[arg(long, value_name = "FILE", requires = "before")]
    pub(crate) parameters: Option<PathBuf>,
    /// Environment of the parameter file, as `--config-env` of SAM CLI
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) config_env: String,
    /// Only check the target profiles of this tenant
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    /// Only check the target profiles of this name
    #[arg(long, value_name = "PROFILE")]
    pub(crate) target: Option<String>,
    /// File (zip) to write the report to, with a description of the stack and the last errors in
    /// the logs of its functions
    #[arg(long, value_name = "FILE")]
    pub(crate) bundle: Option<PathBuf>,
    /// End with the exit code 11 if there are warnings
    #[arg(long)]
    pub(crate) strict: bool,
}
