//! Command-line arguments of `integrahub budget` and `integrahub rates`.

use std::path::PathBuf;

use ::access::rates::Amount;
use clap::{Args, Subcommand};

use super::{DryRun, Edit, TenantOption};

/// Arguments of `integrahub budget`.
#[derive(Debug, Subcommand)]
pub(crate) enum Budget {
    /// Set the monthly budget of a tenant
    #[command(after_help = "Examples:\n  \
integrahub budget set --tenant acme --amount 100.00\n  \
integrahub budget set --tenant acme --amount 100.00 --refuse --warn-at 50 --warn-at 90\n\n\
The amount is in the currency of the rate card. Months are those of UTC.")]
    Set(BudgetSet),
    /// Show a tenant's monthly budget, and the amount spent so far
    Show(TenantOption),
    /// Remove a tenant's monthly budget
    #[command(visible_alias = "rm")]
    Remove(Edit<TenantOption>),
}

/// Arguments of `integrahub budget set`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BudgetSet {
    /// Tenant that the budget is for
    #[arg(long)]
    pub(crate) tenant: String,
    /// Amount that the tenant may spend each month
    #[arg(long)]
    pub(crate) amount: Amount,
    /// Refuse the tenant's requests once the amount is spent, until the month is over
    #[arg(long)]
    pub(crate) refuse: bool,
    /// Percentage of the amount at which to warn, in addition to 100; without this option, 80
    #[arg(long, value_name = "PERCENT")]
    pub(crate) warn_at: Vec<u32>,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// Arguments of `integrahub rates`.
#[derive(Debug, Subcommand)]
pub(crate) enum Rates {
    /// Set the rate card, which has the prices of usage, from a file of YAML or JSON
    Set {
        /// File with `currency` and `rates`; `-` is standard input
        file: PathBuf,
        #[command(flatten)]
        dry: DryRun,
    },
    /// Show the rate card, which has the prices of usage
    Show,
    /// Remove the rate card, so that no usage has a price
    #[command(visible_alias = "rm")]
    Remove(DryRun),
}
