//! Command-line arguments of the commands that administer access (`tenant`, `profile`, `target`,
//! `grant`, `cnpj`, `apply`, `export`), and of `record`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::exit::Failure;
use crate::output::Output;

/// Option `--dry-run`: the command shows the change that it would make, and does not make it.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct DryRun {
    /// Check the change and show it, but do not make it
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
}

impl DryRun {
    /// Asks the user to type `name` before something is destroyed, as [`Output::confirm`] does. A
    /// dry run does not ask.
    ///
    /// # Errors
    /// If the user types another text, or there is no terminal to ask on.
    pub(crate) fn confirm(self, question: &str, name: &str, out: &mut Output) -> Result<(), Failure> {
        if self.dry_run { Ok(()) } else { out.confirm(question, name) }
    }
}

/// Arguments of a command that changes or removes one thing, such as an API key: the arguments that
/// identify the thing, and `--dry-run`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Edit<T: Args> {
    #[command(flatten)]
    pub(crate) of: T,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// Tenant whose budget or grant a command shows or removes.
#[derive(Clone, Debug, Args)]
pub(crate) struct TenantOption {
    /// Tenant, by its name or id
    #[arg(long)]
    pub(crate) tenant: String,
}

/// Option `--tenant` of the commands that list keys, profiles, allow-lists or limits. Without it,
/// they list those of all tenants.
#[derive(Clone, Debug, Args)]
pub(crate) struct TenantFilter {
    /// Only list what belongs to this tenant
    #[arg(long)]
    pub(crate) tenant: Option<String>,
}

/// Options for the establishments that an API key or a grant to drop files covers.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Establishments {
    /// CNPJ of an establishment to cover; several are separated by commas
    #[arg(long = "cnpj", value_name = "CNPJ", value_delimiter = ',', conflicts_with = "all_cnpjs")]
    pub(crate) cnpjs: Vec<String>,
    /// Cover all establishments of the tenant
    #[arg(long)]
    pub(crate) all_cnpjs: bool,
}

/// Arguments of `integrahub tenant`.
#[derive(Debug, Subcommand)]
pub(crate) enum Tenant {
    /// Create a tenant, whose id is a new UUID unless it is given
    #[command(after_help = "Example:\n  integrahub tenant create \"Farmácia Central\"")]
    Create {
        /// Display name of the tenant
        name: String,
        /// Id of the tenant, if not a new UUID
        #[arg(long)]
        id: Option<String>,
        #[command(flatten)]
        dry: DryRun,
    },
    /// List the tenants with their states and their numbers of API keys and target profiles
    #[command(visible_alias = "ls")]
    List,
    /// Show a tenant with its keys, profiles, allow-list, limits, budget and grant
    Show(TenantName),
    /// Change a tenant's name
    Change {
        /// Id of the tenant, its name, or the beginning of its id
        tenant: String,
        /// New display name of the tenant
        #[arg(long)]
        name: String,
        #[command(flatten)]
        dry: DryRun,
    },
    /// Let the API keys of a disabled tenant work again
    Enable(Edit<TenantName>),
    /// Refuse requests with any API key of a tenant; this takes effect within a minute
    Disable(Edit<TenantName>),
    /// Remove a tenant; without --cascade, it must have no keys or other entries
    #[command(visible_alias = "rm")]
    Remove {
        /// Id of the tenant, its name, or the beginning of its id
        tenant: String,
        /// Also remove the tenant's keys, profiles, allow-list, limits, budget and grant
        #[arg(long)]
        cascade: bool,
        #[command(flatten)]
        dry: DryRun,
    },
}

/// Argument that identifies the tenant to show, enable or disable.
#[derive(Clone, Debug, Args)]
pub(crate) struct TenantName {
    /// Id of the tenant, its name, or the beginning of its id
    pub(crate) tenant: String,
}

/// Arguments of `integrahub profile`.
#[derive(Debug, Subcommand)]
pub(crate) enum Profile {
    /// Create a target profile from a file or from options
    #[command(after_help = "Examples:\n  \
integrahub profile create orders --tenant acme --file orders.yaml\n  \
integrahub profile create orders --tenant acme --broker rabbitmq --conn-name mq.example.com:5671 --tls \\\n    \
--queue ORDERS.IN --queues 'ORDERS.*' --password-ref secret://mq/orders")]
    Create(Box<ProfileCreate>),
    /// List target profiles
    #[command(visible_alias = "ls")]
    List(TenantFilter),
    /// Show a target profile, in the form that `create --file` reads
    Show(ProfileName),
    /// Remove a target profile
    #[command(visible_alias = "rm")]
    Remove(Edit<ProfileName>),
}

/// Arguments that identify the target profile to create, show or remove.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProfileName {
    /// Name of the profile
    pub(crate) name: String,
    /// Tenant of the profile
    #[arg(long)]
    pub(crate) tenant: String,
}

/// Arguments of `integrahub profile create`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProfileCreate {
    #[command(flatten)]
    pub(crate) profile: ProfileName,
    /// File with the profile as YAML or JSON; `-` is standard input
    #[arg(long, short = 'f', value_name = "FILE", conflicts_with_all = ["broker", "conn_name"])]
    pub(crate) file: Option<PathBuf>,
    /// Kind of broker: rabbitmq or ibmmq
    #[arg(long, required_unless_present = "file")]
    pub(crate) broker: Option<String>,
    /// Host and port of the broker, as `host:5671` or `host(1414)`
    #[arg(long, required_unless_present = "file")]
    pub(crate) conn_name: Option<String>,
    /// Virtual host of RabbitMQ, or queue manager of IBM MQ
    #[arg(long)]
    pub(crate) queue_manager: Option<String>,
    /// Channel of IBM MQ
    #[arg(long)]
    pub(crate) channel: Option<String>,
    /// Queue for requests that name no queue
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Use TLS for the connection to the broker
    #[arg(long)]
    pub(crate) tls: bool,
    /// User name at the broker
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// Reference to the secret with the password, such as secret://mq/orders
    #[arg(long, value_name = "REFERENCE")]
    pub(crate) password_ref: Option<String>,
    /// Patterns of further queues that requests may name; several are separated by commas
    #[arg(long, value_delimiter = ',', value_name = "PATTERN")]
    pub(crate) queues: Vec<String>,
    /// Patterns of exchanges that requests may name
    #[arg(long, value_delimiter = ',', value_name = "PATTERN")]
    pub(crate) exchanges: Vec<String>,
    /// Patterns of routing keys that requests may name
    #[arg(long, value_delimiter = ',', value_name = "PATTERN")]
    pub(crate) routing_keys: Vec<String>,
    /// Let requests replace only the queue, the exchange and the routing key of the profile
    #[arg(long)]
    pub(crate) no_overrides: bool,
    /// Replace the profile if one of this name exists
    #[arg(long)]
    pub(crate) replace: bool,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// Arguments of `integrahub target`.
#[derive(Debug, Subcommand)]
pub(crate) enum Target {
    /// Add entries to a tenant's allow-list of targets that the tenant's requests may name inline
    #[command(after_help = "Example:\n  \
integrahub target allow --tenant acme 'rabbitmq://*.mq.example.com:5671/ORDERS.*?vhost=orders-*'")]
    Allow {
        /// Tenant that owns the allow-list
        #[arg(long)]
        tenant: String,
        /// Entries to add, such as rabbitmq://mq.example.com:5671/ORDERS.*
        #[arg(required = true)]
        entries: Vec<String>,
        #[command(flatten)]
        dry: DryRun,
    },
    /// List the entries of the tenants' allow-lists of targets
    #[command(visible_alias = "ls")]
    List(TenantFilter),
    /// Remove entries of a tenant's allow-list
    #[command(visible_alias = "rm")]
    Remove {
        /// Tenant that owns the allow-list
        #[arg(long)]
        tenant: String,
        /// Entries to remove, as `list` shows them
        #[arg(required_unless_present = "all")]
        entries: Vec<String>,
        /// Remove every entry of the allow-list
        #[arg(long, conflicts_with = "entries")]
        all: bool,
        #[command(flatten)]
        dry: DryRun,
    },
}

/// Arguments of `integrahub grant`.
#[derive(Debug, Subcommand)]
pub(crate) enum Grant {
    /// Permit a tenant to drop files into S3
    #[command(after_help = "Examples:\n  \
integrahub grant create --tenant acme --cnpj 05927228000145,11222333000181\n  \
integrahub grant create --tenant acme --all-cnpjs --bucket partner-files")]
    Create(GrantCreate),
    /// List the grants of all tenants to drop files into S3
    #[command(visible_alias = "ls")]
    List,
    /// Show a tenant's grant to drop files into S3
    Show(TenantOption),
    /// Remove a tenant's grant to drop files into S3
    #[command(visible_alias = "rm")]
    Remove(Edit<TenantOption>),
}

/// Arguments of `integrahub grant create`.
#[derive(Clone, Debug, Args)]
pub(crate) struct GrantCreate {
    /// Tenant that may drop files
    #[arg(long)]
    pub(crate) tenant: String,
    #[command(flatten)]
    pub(crate) establishments: Establishments,
    /// Bucket for dropped files besides the stack's own bucket; several are separated by commas
    #[arg(long = "bucket", value_name = "BUCKET", value_delimiter = ',')]
    pub(crate) buckets: Vec<String>,
    /// Replace the grant if the tenant has one already
    #[arg(long)]
    pub(crate) replace: bool,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// Arguments of `integrahub cnpj`.
#[derive(Debug, Subcommand)]
pub(crate) enum Cnpj {
    /// List establishments with their tenants
    #[command(visible_alias = "ls")]
    List {
        /// Only establishments of this tenant
        #[arg(long)]
        tenant: Option<String>,
        /// Only this establishment
        #[arg(long)]
        cnpj: Option<String>,
    },
    /// Assign establishments without owner to a tenant
    #[command(after_help = "Examples:\n  \
integrahub cnpj assign --tenant acme 05927228000145 11222333000181\n  \
integrahub cnpj assign --tenant acme --file cnpjs.txt")]
    Assign {
        /// Tenant that receives the establishments
        #[arg(long)]
        tenant: String,
        #[command(flatten)]
        which: CnpjList,
        #[command(flatten)]
        dry: DryRun,
    },
    /// Move establishments from one tenant to another
    Move {
        /// Tenant that owns the establishments
        #[arg(long)]
        from: String,
        /// Tenant that receives the establishments
        #[arg(long)]
        to: String,
        #[command(flatten)]
        which: CnpjList,
        #[command(flatten)]
        dry: DryRun,
    },
    /// Take establishments from a tenant, so that they have no owner
    Release {
        /// Tenant that owns the establishments
        #[arg(long)]
        tenant: String,
        #[command(flatten)]
        which: CnpjList,
        #[command(flatten)]
        dry: DryRun,
    },
    /// List establishments that have products and no owner
    Unowned,
}

/// Establishments whose owner a command changes: CNPJs from the command line, from a file, or both.
#[derive(Clone, Debug, Args)]
pub(crate) struct CnpjList {
    /// CNPJs of the establishments
    #[arg(value_name = "CNPJ", required_unless_present = "file")]
    pub(crate) cnpjs: Vec<String>,
    /// File with a CNPJ a line; `-` is standard input
    #[arg(long, short = 'f')]
    pub(crate) file: Option<PathBuf>,
}

/// Arguments of `integrahub apply`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  integrahub apply -f access.yaml --dry-run\n  \
integrahub apply -f access.yaml --keys new-keys.ndjson\n\n\
Lines with + are created, with ~ changed, with - removed. Keys that only the file has are created and \
printed once. Keys have no secrets in the file: their tenant and name identify them.")]
pub(crate) struct Apply {
    /// Access file, as `export` writes it; `-` is standard input
    #[arg(long, short = 'f')]
    pub(crate) file: PathBuf,
    /// Remove the entries that a tenant's lists in the file lack; without this option they stay
    #[arg(long)]
    pub(crate) prune: bool,
    /// File for the new keys, readable by its owner only, in place of standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) keys: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// Arguments of `integrahub export`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  integrahub export --tenant acme >access.yaml")]
pub(crate) struct Export {
    /// Export only this tenant; without this option, all tenants and the rate card
    #[arg(long)]
    pub(crate) tenant: Option<String>,
}

/// Arguments of `integrahub record`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  integrahub record --tenant acme 7b6a1c1e-7a0e-4c34-9c53-2f4b1e6c8a11")]
pub(crate) struct Record {
    /// Tenant that sent the request
    #[arg(long)]
    pub(crate) tenant: String,
    /// Idempotency key of the request
    pub(crate) key: String,
}
