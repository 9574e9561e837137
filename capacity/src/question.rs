use clap::{Args, value_parser};

use crate::database::DatabaseSize;
use crate::limits::MOST_BODY;
use crate::service_times::{ByChange, Sizes};

/// Maximum number of chunks of a simulated peak, which bounds the simulation's time and memory.
const MOST_CHUNKS: u64 = 4_000_000;

/// Peak load to simulate, and the deployment that receives it. Defaults are those of the template.
#[derive(Clone, Debug, Args)]
pub(crate) struct Question {
    /// Pharmacies, each of which sends its catalogue once
    #[arg(long, default_value_t = 1000, value_parser = value_parser!(u32).range(1..=500_000))]
    pub(crate) pharmacies: u32,
    /// Products of each catalogue
    #[arg(long, default_value_t = 20_000, value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) products: u32,
    /// Share of the products that changed since the last load
    #[arg(long, default_value_t = 0.05, value_parser = share)]
    pub(crate) changed: f64,
    /// Share of the products that are new: 1 is the first load
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    pub(crate) new: f64,
    /// Minutes within which all catalogues arrive
    #[arg(long, default_value_t = 10.0, value_parser = minutes)]
    pub(crate) window: f64,
    /// The loads are deltas, which deactivate nothing at their end
    #[arg(long)]
    pub(crate) delta: bool,
    /// Flood of one more tenant at the beginning, as a multiple of what all others send together
    #[arg(long, default_value_t = 0, value_parser = value_parser!(u32).range(0..=1000))]
    pub(crate) flood: u32,
    /// Messages carry no group, so that queues are not fair
    #[arg(long)]
    pub(crate) without_groups: bool,
    /// Database: `8acu` of Aurora Serverless v2, `2` for as many vCPUs of it, or an instance of RDS
    /// as `db.r7g.xlarge`
    #[arg(long, default_value = "8acu")]
    pub(crate) database: DatabaseSize,
    /// Chunks that are written at the same time (`UpsertConcurrency`)
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u32).range(2..=1000))]
    pub(crate) upsert_concurrency: u32,
    /// Payloads that are cut at the same time; by default as many as `--upsert-concurrency`,
    /// because the template has one parameter for both
    #[arg(long, value_parser = value_parser!(u32).range(1..=1000))]
    pub(crate) chunker_concurrency: Option<u32>,
    /// Items of a chunk (`CHUNK_ITEMS`)
    #[arg(long, default_value_t = 1000, value_parser = value_parser!(u32).range(500..=2000))]
    pub(crate) chunk_items: u32,
    /// MB of memory of `upsert`
    #[arg(long, default_value_t = 512, value_parser = value_parser!(u32).range(128..=10_240))]
    pub(crate) memory: u32,
    /// Executions that the account may run at once
    #[arg(long, default_value_t = 1000, value_parser = value_parser!(u32).range(1..))]
    pub(crate) account_concurrency: u32,
    /// Requests per second that the API admits (`ApiRateLimit`)
    #[arg(long, default_value_t = 500, value_parser = value_parser!(u32).range(1..))]
    pub(crate) api_rate: u32,
    /// Days for which the database keeps what batches contained (`HistoryDays`)
    #[arg(long, default_value_t = 90)]
    pub(crate) history_days: u32,
    /// Most decoded bytes of a catalogue (`MaxPayloadBytes`)
    #[arg(long, default_value_t = 200_000_000, value_parser = value_parser!(u32).range(1_000_000..))]
    pub(crate) max_payload_bytes: u32,
    /// Region of the prices
    #[arg(long, default_value = "us-east-1")]
    pub(crate) region: String,
    /// Cores of one machine that does everything, the functions and a stand-in for AWS included
    #[arg(long, value_parser = value_parser!(u32).range(1..=1024))]
    pub(crate) local_cores: Option<u32>,
    /// Seed of the arrivals and of the order of messages
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

impl Question {
    /// Checks the flags against each other, and returns a sentence about the first contradiction.
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

    /// Returns whether a catalogue is too large for a request, so that it is uploaded to S3.
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
    /// rows.
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
