//! Command-line arguments of `integrahub explain`, which says why a request would be refused.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Operation of the API for which `integrahub explain` checks a caller's rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Operation {
    /// Put messages: POST /messages/produce
    Produce,
    /// Take messages: POST /messages/consume
    Consume,
    /// Look at messages: POST /messages/consume with browseOnly
    Browse,
    /// Move messages: POST /messages/move; only the queue that they leave is checked
    Move,
    /// Count messages: POST /queue/depth
    Depth,
    /// Test a connection: POST /connections/test
    Connect,
    /// List the target profiles: GET /targets
    Targets,
    /// Run a load test: POST /tests
    Test,
    /// Load a catalogue: POST /v1/inovafarma/products
    Send,
    /// Look at batches: GET /v1/inovafarma/batches
    Batches,
    /// Process a batch again: POST /v1/inovafarma/batches/{batch_id}/replay
    Replay,
    /// Look at version and connections: GET /status
    Status,
}

/// Arguments of `integrahub explain`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  \
integrahub explain produce --key orders --tenant acme --target orders --queue ORDERS.NEW\n  \
integrahub explain consume --api-key-file till.key --target 'rabbitmq://mq.example.com:5671/ORDERS?vhost=eu&tls=on'\n  \
integrahub explain send --key till --tenant acme --cnpj 11222333000181\n\n\
Each line is a rule: ✔ it holds, ✘ it refuses the request, ? nobody here can say. Exit code 4: refused.")]
pub(crate) struct Explain {
    /// Operation to check
    #[arg(value_enum)]
    pub(crate) operation: Operation,
    /// Name or id of the API key, in place of a key from --api-key-file or the context
    #[arg(long, visible_aliases = ["key-name", "key-id"], value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Tenant of the key, if several tenants have a key of this name
    #[arg(long, requires = "key")]
    pub(crate) tenant: Option<String>,
    /// Name of a target profile, if --target is an inline target that replaces members of it
    #[arg(long, value_name = "PROFILE")]
    pub(crate) target_ref: Option<String>,
    /// Name of a target profile, or an inline target as
    /// `broker://host:port/queue?vhost=…&channel=…`, with the further options tls=on, user=,
    /// password= (a reference), keyStore=, trustStore=, exchange= and routingKey=
    #[arg(long, short = 't')]
    pub(crate) target: Option<String>,
    /// File with an inline target as YAML or JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) target_file: Option<PathBuf>,
    /// Queue that replaces the queue of the target
    #[arg(long, short = 'Q')]
    pub(crate) queue: Option<String>,
    /// Establishment whose products the request contains
    #[arg(long, value_name = "CNPJ")]
    pub(crate) cnpj: Option<String>,
    /// Resolve the target's host names on this machine, and check the addresses
    #[arg(long)]
    pub(crate) resolve: bool,
}
