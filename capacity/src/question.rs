use clap::{Args, value_parser};

use crate::database::DatabaseSize;
use crate::limits::MOST_BODY;
use crate::service_times::{ByChange, Sizes};

/// Maximum number of chunks of a peak, which bounds the simulation's time and memory.
const MOST_CHUNKS: u64 = 4_000_000;

/// Flags of the command line: the peak load to simulate, and the deployment that receives it.
/// Defaults are those of the template.
#[derive(Clone, Debug, Args)]
pub(crate) struct Question {
    /// Number of pharmacies, each of which sends its catalogue once
    #[arg(long, default_value_t = 1000, value_parser = value_parser!(u32).range(1..=500_000))]
    pub(crate) pharmacies: u32,
    /// Number of products in each catalogue
    #[arg(long, default_value_t = 20_000, value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) products: u32,
    /// Share of the products that changed since the last load, from 0 to 1
    #[arg(long, default_value_t = 0.05, value_parser = share)]
    pub(crate) changed: f64,
    /// Share of the products that are new, from 0 to 1; 1 is the first load
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    pub(crate) new: f64,
    /// Number of minutes within which all catalogues arrive
    #[arg(long, default_value_t = 10.0, value_parser = minutes)]
    pub(crate) window: f64,
    /// All loads are deltas, which deactivate no products at their end
    #[arg(long)]
    pub(crate) delta: bool,
    /// Catalogues that one more tenant sends at the beginning, as a multiple of all other
    /// catalogues; 0 for no such tenant
    #[arg(long, default_value_t = 0, value_parser = value_parser!(u32).range(0..=1000))]
    pub(crate) flood: u32,
    /// SQS messages have no message group, so that the queues are not fair
    #[arg(long)]
    pub(crate) without_groups: bool,
    /// Database: `8acu` for ACUs of Aurora Serverless v2, `2` for vCPUs of it, or an RDS instance
    /// such as `db.r7g.xlarge`
    #[arg(long, default_value = "8acu")]
    pub(crate) database: DatabaseSize,
    /// Number of chunks that are written at the same time (`UpsertConcurrency`)
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u32).range(2..=1000))]
    pub(crate) upsert_concurrency: u32,
    /// Number of payloads that are cut at the same time; by default that of `--upsert-concurrency`,
    /// because the template has one parameter for both
    #[arg(long, value_parser = value_parser!(u32).range(1..=1000))]
    pub(crate) chunker_concurrency: Option<u32>,
    /// Maximum number of items in a chunk (`CHUNK_ITEMS`)
    #[arg(long, default_value_t = 1000, value_parser = value_parser!(u32).range(500..=2000))]
    pub(crate) chunk_items: u32,
    /// Memory of the function `upsert` in MB
    #[arg(long, default_value_t = 512, value_parser = value_parser!(u32).range(128..=10_240))]
    pub(crate) memory: u32,
    /// Number of Lambda executions that the account may run at once
    #[arg(long, default_value_t = 1000, value_parser = value_parser!(u32).range(1..))]
    pub(crate) account_concurrency: u32,
    /// Number of requests per second that the API admits (`ApiRateLimit`)
    #[arg(long, default_value_t = 500, value_parser = value_parser!(u32).range(1..))]
    pub(crate) api_rate: u32,
    /// Number of days for which the database keeps the history of loads (`HistoryDays`)
    #[arg(long, default_value_t = 90)]
    pub(crate) history_days: u32,
    /// Maximum size of a decompressed catalogue in bytes (`MaxPayloadBytes`)
    #[arg(long, default_value_t = 200_000_000, value_parser = value_parser!(u32).range(1_000_000..))]
    pub(crate) max_payload_bytes: u32,
    /// AWS region whose prices are used
    #[arg(long, default_value = "us-east-1")]
    pub(crate) region: String,
    /// Number of cores of a single machine that runs everything, including the functions and a
    /// stand-in for AWS; without it, functions run on Lambda
    #[arg(long, value_parser = value_parser!(u32).range(1..=1024))]
    pub(crate) local_cores: Option<u32>,
    /// Seed of the random numbers for arrivals and for the order of messages
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

impl Question {
    /// Checks that the flags do not contradict each other, and returns a sentence about the first
    /// contradiction as the error. A peak with more than [`MOST_CHUNKS`] chunks is an error, too.
    pub(crate) fn check(&self, sizes: Sizes) -> Result<(), String> {
        let decoded = f64::from(self.products) * sizes.decoded;
        if self.changed + self.new > 1.0 {
            let wrong =
                "--changed and --new are more than all products; without --changed, 0.05 of them changed";
            return Err(wrong.to_owned());
        }
        // The deployment refuses such a catalogue, so there is nothing to predict.
        if decoded > f64::from(self.max_payload_bytes) {
            let Self { products, max_payload_bytes, .. } = self;
            return Err(format!(
                "a catalogue of {products} products has about {decoded:.0} bytes, and the deployment \
                 takes {max_payload_bytes}: ask for fewer products, or raise MaxPayloadBytes there and \
                 --max-payload-bytes here"
            ));
        }
        let chunks = u64::from(self.payloads()) * u64::from(self.chunks());
        if chunks > MOST_CHUNKS {
            return Err(format!("{chunks} chunks cannot be simulated, at most {MOST_CHUNKS}"));
        }
        Ok(())
    }

    /// Returns whether a catalogue is too large for a request body, and is uploaded to S3 instead.
    pub(crate) fn is_uploaded(&self, sizes: Sizes) -> bool {
        f64::from(self.products) * sizes.gzip > MOST_BODY
    }

    /// Returns the number of chunks of one catalogue.
    pub(crate) const fn chunks(&self) -> u32 {
        self.products.div_ceil(self.chunk_items)
    }

    /// Returns the number of rows in the chunk with this index.
    pub(crate) fn rows(&self, chunk: u32) -> u32 {
        self.chunk_items.min(self.products.saturating_sub(chunk.saturating_mul(self.chunk_items)))
    }

    /// Returns the number of catalogues from the tenant that floods the others.
    pub(crate) const fn flood_payloads(&self) -> u32 {
        self.pharmacies.saturating_mul(self.flood)
    }

    pub(crate) const fn payloads(&self) -> u32 {
        self.pharmacies.saturating_add(self.flood_payloads())
    }

    pub(crate) fn chunker_concurrency(&self) -> u32 {
        self.chunker_concurrency.unwrap_or(self.upsert_concurrency)
    }

    /// Returns the mean of a figure per row, weighted by the shares of new, changed and unchanged
    /// rows. The argument has the figure for each of the three.
    pub(crate) fn mean(&self, [new, changed, unchanged]: ByChange) -> f64 {
        self.new * new + self.changed * changed + (1.0 - self.new - self.changed) * unchanged
    }
}

fn share(text: &str) -> Result<f64, &'static str> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or("must be between 0 and 1")
}

fn minutes(text: &str) -> Result<f64, &'static str> {
    let minutes = text.parse().ok().filter(|minutes| (0.0..=1440.0).contains(minutes));
    minutes.ok_or("must be between 0 and 1440")
}
