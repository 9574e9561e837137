//! Command-line arguments of `integrahub key`, which administers API keys.

use clap::{Args, Subcommand};

use super::{DryRun, Edit, Establishments, TenantFilter};

/// Arguments of `integrahub key`.
#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// Create an API key and print it; it cannot be shown again
    #[command(after_help = "Examples:\n  \
integrahub key create --tenant acme --name orders --scope mq:read,mq:write\n  \
integrahub key create --tenant acme --name till --scope products:write,products:read --all-cnpjs >till.key")]
    Create(KeyCreate),
    /// List API keys with their ids, scopes, states and days of last use
    #[command(visible_alias = "ls")]
    List(TenantFilter),
    /// Show the scopes, establishments, state and expiry of an API key
    Show(KeyName),
    /// Change an API key's name, scopes, establishments or expiry
    #[command(after_help = "Example:\n  integrahub key change orders --tenant acme --scope mq:read,mq:write")]
    Change(KeyChange),
    /// Create a second API key with the same name and rights, and let the first one expire
    #[command(after_help = "Example:\n  integrahub key rotate orders --tenant acme --keep 7d >orders.key")]
    Rotate {
        #[command(flatten)]
        key: KeyName,
        /// Time for which the old key still works, such as 7d or 12h
        #[arg(long, default_value = "7d", value_name = "TIME")]
        keep: String,
        #[command(flatten)]
        dry: DryRun,
    },
    /// Refuse requests with an API key; this takes effect within a minute
    Disable(Edit<KeyName>),
    /// Let a disabled API key work again
    Enable(Edit<KeyName>),
    /// Remove an API key
    #[command(visible_alias = "rm")]
    Remove(Edit<KeyName>),
}

/// Arguments that identify an API key.
#[derive(Clone, Debug, Args)]
pub(crate) struct KeyName {
    /// Name of the key, or its id, the first 8 characters of its hash
    pub(crate) key: String,
    /// Tenant of the key, if several tenants have a key of this name
    #[arg(long)]
    pub(crate) tenant: Option<String>,
}

/// Arguments of `integrahub key create`.
#[derive(Clone, Debug, Args)]
pub(crate) struct KeyCreate {
    /// Tenant of the key
    #[arg(long)]
    pub(crate) tenant: String,
    /// Name of the key
    #[arg(long)]
    pub(crate) name: String,
    /// Scope that the key grants, such as mq:read; several are separated by commas
    #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',', required = true)]
    pub(crate) scopes: Vec<String>,
    #[command(flatten)]
    pub(crate) establishments: Establishments,
    /// Expiry of the key: a time from now such as 90d, or a date such as 2027-06-30; without this
    /// option, never
    #[arg(long, value_name = "WHEN")]
    pub(crate) expires: Option<String>,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// Arguments of `integrahub key change`.
#[derive(Clone, Debug, Args)]
pub(crate) struct KeyChange {
    #[command(flatten)]
    pub(crate) key: KeyName,
    /// New name of the key
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Scopes that replace all present scopes of the key; several are separated by commas
    #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',')]
    pub(crate) scopes: Vec<String>,
    #[command(flatten)]
    pub(crate) establishments: Establishments,
    /// New expiry of the key: a time from now such as 90d, a date such as 2027-06-30, or `never`
    #[arg(long, value_name = "WHEN")]
    pub(crate) expires: Option<String>,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}
