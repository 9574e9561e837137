//! `integrahub limit`.

use clap::{Args, Subcommand};

use super::{DryRun, OnlyTenant};

/// Arguments of `integrahub limit`.
#[derive(Debug, Subcommand)]
pub(crate) enum Limit {
    /// Limit a tenant's requests, or its traffic with one target
    #[command(after_help = "Examples:\n  \
integrahub limit set --tenant acme --requests 100/200\n  \
integrahub limit set --tenant acme --target orders --requests 50 --messages 500/1000 --bytes 10485760\n  \
integrahub limit set --tenant acme --queue-manager QM1 --messages none\n\n\
A limit is a rate a second and a burst: 100/200. Without a burst, it is the rate of one second.")]
    Set(LimitSet),
    /// List the limits
    #[command(visible_alias = "ls")]
    List(OnlyTenant),
    /// Show a tenant's limits, or those of the API key with what is left of them
    Show {
        /// Tenant of the limits
        #[arg(long, required_unless_present = "mine")]
        tenant: Option<String>,
        /// Limits that hold for the API key, as the API says
        #[arg(long, conflicts_with = "tenant")]
        mine: bool,
    },
    /// Remove a tenant's own limit, those of one target, or all
    #[command(visible_alias = "rm")]
    Remove(LimitRemove),
}

/// Tenant, and optionally target or queue manager, that a limit is for.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct LimitOf {
    /// Tenant that the limits are for
    #[arg(long)]
    pub(crate) tenant: String,
    /// Target profile that the limits are for, in place of the tenant as a whole
    #[arg(long, value_name = "PROFILE", conflicts_with = "queue_manager")]
    pub(crate) target: Option<String>,
    /// Queue manager or virtual host that the limits are for, in targets without a profile
    #[arg(long, value_name = "NAME")]
    pub(crate) queue_manager: Option<String>,
}

/// Arguments of `integrahub limit set`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct LimitSet {
    #[command(flatten)]
    pub(crate) of: LimitOf,
    /// Requests per second, and the burst, such as 100/200; `none` for no limit
    #[arg(long, value_name = "RATE[/BURST]")]
    pub(crate) requests: Option<String>,
    /// Messages per second, and the burst; `none` for no limit
    #[arg(long, value_name = "RATE[/BURST]")]
    pub(crate) messages: Option<String>,
    /// Bytes of messages per second, and the burst; `none` for no limit
    #[arg(long, value_name = "RATE[/BURST]")]
    pub(crate) bytes: Option<String>,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// Arguments of `integrahub limit remove`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct LimitRemove {
    #[command(flatten)]
    pub(crate) of: LimitOf,
    /// Remove all limits of the tenant
    #[arg(long, conflicts_with_all = ["target", "queue_manager"])]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}
