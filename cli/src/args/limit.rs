//! Command-line arguments of `integrahub limit`, which administers the rate limits of tenants.

use clap::{Args, Subcommand};

use super::{DryRun, TenantFilter};

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
    /// List the rate limits of one tenant or of all
    #[command(visible_alias = "ls")]
    List(TenantFilter),
    /// Show a tenant's rate limits, or with --mine those of the API key and what is left of each
    Show {
        /// Tenant of the limits
        #[arg(long, required_unless_present = "mine")]
        tenant: Option<String>,
        /// Ask the API for the limits that apply to the API key of this command
        #[arg(long, conflicts_with = "tenant")]
        mine: bool,
    },
    /// Remove the limit of a tenant as a whole, the limits of one target, or all limits of the
    /// tenant
    #[command(visible_alias = "rm")]
    Remove(LimitRemove),
}

/// Subject of rate limits: a tenant as a whole, one of its target profiles, or a queue manager
/// (with RabbitMQ, a virtual host) that the tenant's inline targets name.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct LimitOf {
    /// Tenant that the limits are for
    #[arg(long)]
    pub(crate) tenant: String,
    /// Target profile that the limits are for, in place of the tenant as a whole
    #[arg(long, value_name = "PROFILE", conflicts_with = "queue_manager")]
    pub(crate) target: Option<String>,
    /// Queue manager or virtual host that the limits are for, in requests without a profile
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
