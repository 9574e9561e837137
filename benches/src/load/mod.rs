//! Loading of a catalogue from its S3 object to committed rows: the ingest's own code, compared
//! with programs in Node.js and Python that use the usual libraries there.

pub(crate) mod ours;

use catalog::{Database, DatabaseConfig};
use clap::Args;
use objects::Objects;
use runtime::Sdk;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::child::Program;
use crate::contender::{Answering, Contender as _, turns};
use crate::cpu::Took;
use crate::database::{Server, connect, of_others};
use crate::error::Error;
use crate::ingest::catalogue::gzip;
use crate::report::Goal::AtLeast;
use crate::report::{Column, Report};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Number of items in the catalogue
    #[arg(long, env = "ITEMS", default_value_t = 100_000)]
    items: u32,
    /// Number of runs of each contender
    #[arg(long, env = "ROUNDS", default_value_t = 5)]
    rounds: u32,
    /// URL of the PostgreSQL server, on which databases are created
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// Bucket that holds the catalogues during the benchmark
    #[arg(long, env = "PAYLOAD_BUCKET")]
    bucket: String,
}

/// Cost of loading one catalogue, from the first read of its S3 object to the last commit.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Loaded {
    items: u64,
    /// Number of rows that were inserted or updated.
    written: u64,
    #[serde(flatten)]
    took: Took,
    peak_kilobytes: u32,
}

const OURS: &str = "IntegraHub";
const RATE: &str = "rows/s";
const CPU: &str = "CPU µs a row";
const POSTGRES: &str = "of PostgreSQL";
const ALL_CPU: &str = "of both";
const PEAK: &str = "peak MB";
const COLUMNS: [Column; 7] = [
    Column::median(RATE, 0),
    Column::spread(RATE),
    Column::median(CPU, 1),
    Column::median(POSTGRES, 1),
    Column::median(PEAK, 0),
    Column::times("IntegraHub / it", RATE, OURS).goals(&[
        ("fresh, Node.js", AtLeast(3.0)),
        ("fresh, Python", AtLeast(2.0)),
        ("unchanged, Node.js", AtLeast(8.0)),
        ("unchanged, Python", AtLeast(5.0)),
    ]),
    Column::of("CPU, it / IntegraHub", ALL_CPU, OURS),
];

/// Number of items in the catalogue that each contender loads first, unmeasured, to warm up.
const WARM_UP: u32 = 5000;

/// SQL query for a checksum of the whole table `products`. Different spellings of the same number
/// give the same checksum.
const SUM: &str = "SELECT sum(hashtextextended(concat_ws('|', cnpj, shopid, productid, title, description, ean, brand, ncm, \
     category, imagelink, coalesce(color, '-'), price, pricepromo, wholesaleprice, trim_scale(quantity), trim_scale(size), \
     trim_scale(measure), trim_scale(wholesalemin), indice, source_created_at, source_updated_at, extra), 0))::text FROM products";

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    let Options { items, rounds, database_url, bucket } = options;
    let sdk = Sdk::from_environment().await;
    let objects = Objects::new(aws_sdk_s3::Client::new(&sdk.objects()), bucket.clone());
    // Not where payloads are, so nobody is told of them.
    let folder = format!("bench/{}", Uuid::new_v4().simple());
    let [warm_up, first, second] =
        ["warm-up", "first", "second"].map(|name| format!("{folder}/{name}.json.gz"));
    for (key, items, edition) in [(&warm_up, WARM_UP, 0), (&first, *items, 0), (&second, *items, 1)] {
        objects.put(key, gzip(items, edition)?).await?;
    }
    let mut contenders = vec![Program::own(OURS, "load-rows")?];
    contenders.extend(Program::node("Node.js", ".local/bench/node-load/load.mjs"));
    contenders.push(Program::python("Python", "bench/python", "load.py"));
    let about = format!("{items} items in one object; medians of {rounds} rounds.");
    let server = Server::connect(database_url).await?;
    let report = Report::new(about, &COLUMNS);
    let mut comparison = Comparison { warm_up, first, second, items: *items, sums: None, report };
    for round in 0..*rounds {
        for contender in turns(&contenders, round) {
            server.during(async |url: &str| comparison.measure(contender, url).await).await?;
        }
    }
    comparison.report.print();
    Ok(())
}

struct Comparison {
    /// S3 key of the small catalogue that each contender loads first, unmeasured.
    warm_up: String,
    /// S3 key of the measured catalogue.
    first: String,
    /// S3 key of the next edition of the measured catalogue, in which every product changes.
    second: String,
    items: u32,
    /// Checksums of the rows after each phase, which all contenders must share; `None` at first.
    sums: Option<Vec<String>>,
    report: Report,
}

impl Comparison {
    /// Measures one contender in a database of its own.
    async fn measure(&mut self, program: &Program, url: &str) -> Result<(), Error> {
        let observer = connect(url).await?;
        Database::new(DatabaseConfig::from_url(url)?).migrate().await?;
        // Autovacuum comes when it likes.
        observer.batch_execute("ALTER TABLE products SET (autovacuum_enabled = false)").await?;
        let program = program.clone().env("DATABASE_URL", url);
        let mut contender = Answering::<Loaded>::start(&program).await?;
        contender.send(&self.warm_up).await?;
        observer.batch_execute("TRUNCATE products").await?;
        let (first, second) = (&self.first, &self.second);
        let (all, items) = (u64::from(self.items), f64::from(self.items));
        let micros = |seconds: f64| seconds * 1e6 / items;
        let mut sums = Vec::<String>::new();
        for (phase, key, written) in [("fresh", first, all), ("unchanged", first, 0), ("newer", second, all)]
        {
            let before = of_others(&observer).await?;
            let loaded = contender.send(key).await?;
            let postgres = of_others(&observer).await?.saturating_sub(before).as_secs_f64();
            if (loaded.items, loaded.written) != (all, written) {
                return Err(format!("{}, {phase}: {loaded:?}", program.name).into());
            }
            let Took { seconds, cpu_seconds } = loaded.took;
            let figures = [
                (RATE, items / seconds),
                (CPU, micros(cpu_seconds)),
                (POSTGRES, micros(postgres)),
                (ALL_CPU, micros(cpu_seconds + postgres)),
                (PEAK, f64::from(loaded.peak_kilobytes) / 1000.0),
            ];
            self.report.tell(phase, &program.name, &figures);
            sums.push(observer.query_one(SUM, &[]).await?.try_get(0)?);
            // As autovacuum would soon.
            observer.batch_execute("ANALYZE products").await?;
        }
        contender.stop().await?;
        if *self.sums.get_or_insert_with(|| sums.clone()) == sums {
            return Ok(());
        }
        Err(format!("{} left other rows than the others", program.name).into())
    }
}
