//! The morning peak: many tenants' catalogues arrive within a short time by every way in, beside
//! requests to the gateway, queries and broken input. Then quiet tenants load alone and beside a
//! flood, and one establishment loads many chunks on a slow database. Every item is accounted for.

mod account;
mod backlog;
mod fairness;
mod load;
mod morning;
mod round;
mod send;
mod slow;
mod tenant;

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, value_parser};
use runtime::Sdk;
use tokio::sync::watch;
use tokio_postgres::Client;

use crate::callers::{Caller, Phase};
use crate::clients::broker::Queues;
use crate::database::connect;
use crate::error::Error;
use crate::http_client::Http;
use crate::peak::tenant::Tenant;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Number of tenants that send catalogues
    #[arg(long, env = "PEAK_TENANTS", default_value_t = 8)]
    tenants: u32,
    /// Number of catalogues of each tenant
    #[arg(long, env = "CATALOGUES", default_value_t = 5)]
    catalogues: u32,
    /// Number of items of the largest catalogues; most catalogues have a hundredth of it
    #[arg(long, env = "ITEMS", default_value_t = 20_000)]
    items: u32,
    /// Number of seconds within which all catalogues are sent
    #[arg(long, env = "WINDOW", default_value_t = 30)]
    window: u32,
    /// Number of items of a flood, as a multiple of the items of all quiet catalogues together
    #[arg(long, env = "PEAK_FLOOD", default_value_t = 100)]
    flood: u32,
    /// Number of chunks of one establishment to load on a slowed-down database; 0 skips this part
    #[arg(long, env = "PEAK_CHUNKS", default_value_t = 200)]
    #[arg(value_parser = value_parser!(u32).range(..=200))]
    chunks: u32,
    /// Number of milliseconds for which the slowed-down database holds each chunk's locks beyond
    /// its work
    #[arg(long, env = "PEAK_SLOW_MS", default_value_t = 2000)]
    #[arg(value_parser = value_parser!(u32).range(..=8000))]
    slow_ms: u32,
    #[arg(long, env = "API")]
    base_url: String,
    #[arg(long, env = "AMQP_URL", hide_env_values = true)]
    amqp_url: String,
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// Bucket for files that are dropped into the ingest
    #[arg(long, env = "PAYLOAD_BUCKET")]
    bucket: String,
    /// DynamoDB table of API keys and grants
    #[arg(long, env = "ACCESS_TABLE")]
    access_table: String,
}

impl Options {
    fn window(&self) -> Duration {
        Duration::from_secs(self.window.into())
    }

    /// Returns the number of items of a small catalogue.
    fn few(&self) -> u32 {
        (self.items / 100).max(1)
    }
}

/// Time limit for storing a file in S3.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Running stack, with the clients that the benchmark uses.
struct Stack<'a> {
    options: &'a Options,
    /// Caller that sends the catalogues. Requests beside them use a copy in the phase
    /// [`Phase::Meanwhile`].
    caller: Caller,
    s3: aws_sdk_s3::Client,
    queues: Queues,
    observer: Client,
}

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    let sdk = Sdk::from_environment().await;
    let stack = Stack {
        options,
        caller: Caller {
            http: Http::new(&options.base_url)?,
            tally: Arc::default(),
            phase: watch::channel(Phase::Unmeasured).1,
        },
        s3: aws_sdk_s3::Client::new(&sdk.single_attempt(TIMEOUT)),
        queues: Queues::open(&options.amqp_url).await?,
        observer: connect(&options.database_url).await?,
    };
    let dynamodb = aws_sdk_dynamodb::Client::new(sdk.standard());
    let tenant = async || Tenant::store(&dynamodb, &options.access_table).await;
    let mut tenants = Vec::new();
    for _ in 0..options.tenants {
        tenants.push(tenant().await?);
    }
    morning::measure(&stack, &tenants, &tenant().await?).await?;
    fairness::measure(&stack, &tenants, &tenant().await?).await?;
    slow::measure(&stack, &tenant().await?).await
}
