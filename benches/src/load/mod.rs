//! A catalogue from its object in S3 to committed rows: the ingest's own code beside programs in
//! Node.js and in Python that do the same with what one takes for it there.

mod contender;
pub(crate) mod ours;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use catalog::Database;
use clap::Args;
use objects::Objects;
use runtime::Sdk;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::database::{Server, connect, of_others};
use crate::error::Error;
use crate::ingest::catalogue::gzip;
use crate::ingest::unexpected;
use contender::{Contender, Loaded, Who};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Items of the catalogue
    #[arg(long, env = "ITEMS", default_value_t = 100_000)]
    items: u32,
    /// Runs of each contender
    #[arg(long, env = "ROUNDS", default_value_t = 5)]
    rounds: u32,
    /// Directory of the program in Node.js, as scripts/bench-setup.sh installs it; where it is
    /// missing, there is no such contender
    #[arg(long, env = "BENCH_NODE_LOAD", default_value = ".local/bench/node-load")]
    node: PathBuf,
    /// The interpreter that has psycopg; where it is missing, there is no such contender
    #[arg(long, env = "BENCH_PYTHON", default_value = ".local/bench/python/bin/python")]
    python: PathBuf,
    /// The server, on which databases are made
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// The bucket that the catalogues lie in meanwhile
    #[arg(long, env = "PAYLOAD_BUCKET")]
    bucket: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Fresh,
    Unchanged,
    Newer,
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    who: Who,
    phase: Phase,
    loaded: Loaded,
    /// CPU time of the processes that serve the contender's connections.
    postgres: Duration,
}

/// Items of the catalogue that a contender gets first, which only warms up.
const WARM_UP: u32 = 5000;

/// All that a row says, whatever its spelling, as one number for the whole table.
const SUM: &str = "SELECT sum(hashtextextended(concat_ws('|', cnpj, shopid, productid, title, description, ean, brand, ncm, \
     category, imagelink, coalesce(color, '-'), price, pricepromo, wholesaleprice, trim_scale(quantity), trim_scale(size), \
     trim_scale(measure), trim_scale(wholesalemin), indice, source_created_at, source_updated_at, extra), 0))::text FROM products";

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    let sdk = Sdk::from_environment().await;
    let objects = Objects::new(aws_sdk_s3::Client::new(&sdk.objects()), options.bucket.clone());
    // Not where payloads are, so nobody is told of them.
    let key = |name: &str| format!("bench/{}/{name}.json.gz", Uuid::new_v4().simple());
    let keys = Keys { warm_up: key("warm-up"), first: key("first"), second: key("second") };
    for (key, items, edition) in
        [(&keys.warm_up, WARM_UP, 0), (&keys.first, options.items, 0), (&keys.second, options.items, 1)]
    {
        objects.put(key, gzip(items, edition)?).await.map_err(|error| unexpected(&error))?;
    }
    let server = Server::connect(&options.database_url).await?;
    let mut all = Vec::new();
    let mut who = Who::ALL;
    let mut sums = None;
    for round in 1..=options.rounds {
        for who in who {
            let measured = measure(who, options, &server, &keys, &mut sums).await?;
            for one in &measured {
                report::progress(round, one);
            }
            all.extend(measured);
        }
        who.rotate_left(1);
    }
    #[expect(clippy::print_stdout, reason = "the report")]
    {
        println!("\n{}", report::table(&all, options.items, options.rounds));
    }
    Ok(())
}

struct Keys {
    warm_up: String,
    first: String,
    second: String,
}

/// Measures one contender in a database of its own. Every contender must leave the same rows, which
/// the first one puts into `sums`.
async fn measure(
    who: Who,
    options: &Options,
    server: &Server,
    keys: &Keys,
    sums: &mut Option<[String; 2]>,
) -> Result<Vec<Measured>, Error> {
    let config = server.create().await?;
    let measured = async {
        let observer = connect(&config).await?;
        Database::new(config.clone()).migrate().await?;
        // Autovacuum comes when it likes.
        observer.batch_execute("ALTER TABLE products SET (autovacuum_enabled = false)").await?;
        let Some(contender) = Contender::start(who, options, &config)? else { return Ok(Vec::new()) };
        let items = options.items.into();
        phases(who, contender, &observer, keys, items, sums).await
    }
    .await;
    server.drop(&config).await?;
    measured
}

async fn phases(
    who: Who,
    mut contender: Contender,
    observer: &Client,
    keys: &Keys,
    items: u64,
    sums: &mut Option<[String; 2]>,
) -> Result<Vec<Measured>, Error> {
    contender.load(&keys.warm_up).await?;
    observer.batch_execute("TRUNCATE products").await?;
    let mut measured = Vec::new();
    let mut found = Vec::new();
    for (phase, key, expected) in [
        (Phase::Fresh, &keys.first, items),
        (Phase::Unchanged, &keys.first, 0),
        (Phase::Newer, &keys.second, items),
    ] {
        let before = of_others(observer).await?;
        let loaded = contender.load(key).await?;
        let postgres = of_others(observer).await?.saturating_sub(before);
        if (loaded.items, loaded.written) != (items, expected) {
            return Err(Error::Unexpected(format!("{} in {phase:?}: {loaded:?}", who.name())));
        }
        measured.push(Measured { who, phase, loaded, postgres });
        if phase != Phase::Unchanged {
            found.push(sum(observer).await?);
        }
        if phase == Phase::Fresh {
            // As autovacuum would soon.
            observer.batch_execute("ANALYZE products").await?;
        }
    }
    contender.stop().await?;
    let found: [String; 2] = found.try_into().unwrap_or_default();
    if *sums.get_or_insert_with(|| found.clone()) == found {
        Ok(measured)
    } else {
        Err(Error::Unexpected(format!("{} left other rows than the others", who.name())))
    }
}

async fn sum(observer: &Client) -> Result<String, Error> {
    Ok(observer.query_one(SUM, &[]).await?.try_get(0)?)
}
