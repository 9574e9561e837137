//! Cost of a row to PostgreSQL: `Database::write_chunk` beside raw binary COPY of the same rows
//! into a table of the same form. Each round has a database of its own.

use bytes::Bytes;
use catalog::{Database, DatabaseConfig, OwnerRule};
use futures_util::{SinkExt as _, TryStreamExt as _};
use ingestion::batch::Changes;
use ingestion::chunk::{Generation, Plan, decode};
use ingestion::generate::Layout;
use ingestion::product::BatchStamp;
use jiff::Timestamp;
use tokio_postgres::Client;

use super::catalogue::{edition, new_batch};
use super::chunks::{Files, Stored, cut, write};
use crate::database::{Server, connect, of_others};
use crate::error::Error;
use crate::report::Goal::AtMost;
use crate::report::{Column, Report};

const COPY: &str = "raw binary COPY";
const MICROS: &str = "µs of PostgreSQL's CPU a row";
const WAL: &str = "WAL, B a row";
const COLUMNS: [Column; 4] = [
    Column::median(MICROS, 1),
    Column::spread(MICROS),
    Column::of("/ COPY", MICROS, COPY).goals(&[
        ("fresh", AtMost(1.8)),
        ("unchanged", AtMost(0.6)),
        ("newer", AtMost(2.8)),
    ]),
    Column::median(WAL, 0).goals(&[("unchanged", AtMost(16.0))]),
];

/// Cost of writing all rows: CPU time in µs, and bytes of WAL.
#[derive(Clone, Copy, Debug)]
struct Cost {
    micros: f64,
    wal: f64,
}

/// Load of one edition of the catalogue. Its batch is received `second` seconds after the start of
/// the round.
#[derive(Clone, Copy, Debug)]
struct Load {
    second: i64,
    edition: u32,
    /// Function from an item's position in the payload, and the number of items, to its position in
    /// the catalogue.
    order: fn(u32, u32) -> u32,
}

/// Number of rows in a chunk and in a COPY.
const CHUNK: u32 = 1000;

pub(super) async fn measure(url: &str, items: u32, rounds: u32) -> Result<Report, Error> {
    let server = Server::connect(url).await?;
    let about = format!("{items} rows in chunks of {CHUNK}; medians of {rounds} rounds.");
    let mut report = Report::new(about, &COLUMNS);
    for _ in 0..rounds {
        let costs = server.during(async |url: &str| round(url, items).await).await?;
        for (name, Cost { micros, wal }) in costs {
            let items = f64::from(items);
            report.tell("", name, &[(MICROS, micros / items), (WAL, wal / items)]);
        }
    }
    Ok(report)
}

async fn round(url: &str, items: u32) -> Result<[(&'static str, Cost); 5], Error> {
    let database = Database::new(DatabaseConfig::from_url(url)?).with_owner_rule(OwnerRule::First);
    let bench = Bench { database, observer: connect(url).await?, copier: connect(url).await?, items };
    bench.database.migrate().await?;
    // Autovacuum comes when it likes, and what it writes would be counted.
    let tables = "ALTER TABLE products SET (autovacuum_enabled = false); \
         CREATE TABLE reference (LIKE products INCLUDING ALL) WITH (autovacuum_enabled = false)";
    bench.observer.batch_execute(tables).await?;
    let first = Load { second: 0, edition: 0, order: |index, _| index };
    let fresh = bench.load(first, |changes| changes.inserted).await?;
    bench.observer.batch_execute("ANALYZE products").await?;
    let copy = bench.copy().await?;
    let unchanged = bench.load(Load { second: 60, ..first }, |changes| changes.unchanged).await?;
    // Its items come in another order than that of their keys.
    let in_disorder = Load { second: 120, order: scattered, ..first };
    let in_disorder = bench.load(in_disorder, |changes| changes.unchanged).await?;
    let next = Load { second: 180, edition: 1, ..first };
    let newer = bench.load(next, |changes| changes.updated).await?;
    Ok([
        (COPY, copy),
        ("fresh", fresh),
        ("unchanged", unchanged),
        ("unchanged, items in another order than keys", in_disorder),
        ("newer", newer),
    ])
}

struct Bench {
    database: Database,
    /// Connection that reads the costs and the rows to copy.
    observer: Client,
    /// Connection that runs COPY into the table `reference`.
    copier: Client,
    items: u32,
}

impl Bench {
    /// Loads an edition of the catalogue, chunk by chunk, and returns its cost. `counted` returns
    /// the number of a chunk's items that have the expected outcome; all items must have it.
    async fn load(&self, load: Load, counted: fn(Changes) -> u64) -> Result<Cost, Error> {
        let received_at = Timestamp::from_second(1_800_000_000 + load.second)?;
        let batch = new_batch(received_at);
        let batch_id = batch.metadata.batch_id;
        let files = Files::default();
        let mut payload = Stored(self.payload(load).into());
        let cut = cut(BatchStamp::new(received_at, batch_id), &mut payload, &files).await?;
        let mut chunks = Vec::new();
        for chunk in &cut.chunks {
            chunks.push(decode(&files.take(chunk.index)?)?);
        }
        self.database.begin_chunking(&batch, Plan::default()).await?;
        self.database.seal(batch_id, Generation::FIRST, &cut).await?;
        let write = async {
            let mut rows = 0;
            for chunk in &chunks {
                rows += counted(write(&self.database, chunk).await?);
            }
            Ok::<_, Error>(rows)
        };
        self.cost(&format!("{load:?}"), write).await
    }

    /// Runs work on all rows, and returns its cost in PostgreSQL's processes.
    ///
    /// # Errors
    /// If the work returns another number of rows than the catalogue has items.
    async fn cost(&self, what: &str, work: impl Future<Output = Result<u64, Error>>) -> Result<Cost, Error> {
        let (wal_before, cpu_before) = (self.wal().await?, of_others(&self.observer).await?);
        let rows = work.await?;
        let (cpu_after, wal_after) = (of_others(&self.observer).await?, self.wal().await?);
        if rows != u64::from(self.items) {
            return Err(format!("{what}: {rows} rows instead of {}", self.items).into());
        }
        let micros = cpu_after.saturating_sub(cpu_before).as_secs_f64() * 1e6;
        Ok(Cost { micros, wal: u32::try_from(wal_after - wal_before)?.into() })
    }

    fn payload(&self, load: Load) -> Vec<u8> {
        let catalogue = edition(self.items, load.edition);
        let item = |index| catalogue.item((load.order)(index, self.items), Layout::Array);
        format!("[{}]", (0..self.items).map(item).collect::<Vec<_>>().join(",")).into_bytes()
    }

    /// Copies all rows of `products` into the table `reference` by COPY, in parts of a chunk's size
    /// and order, and returns the cost.
    async fn copy(&self) -> Result<Cost, Error> {
        let mut files = Vec::new();
        for first in (0..self.items).step_by(CHUNK.try_into().unwrap_or(usize::MAX)) {
            files.push(self.rows(first).await?);
        }
        let statement = self.copier.prepare("COPY reference FROM STDIN (FORMAT binary)").await?;
        let copy = async {
            let mut copied = 0;
            for file in files {
                let mut sink = Box::pin(self.copier.copy_in::<_, Bytes>(&statement).await?);
                sink.send(file).await?;
                copied += sink.as_mut().finish().await?;
            }
            Ok::<_, Error>(copied)
        };
        self.cost("COPY", copy).await
    }

    /// Returns the rows of one chunk in COPY's binary format.
    async fn rows(&self, first: u32) -> Result<Bytes, Error> {
        let query = format!(
            "COPY (SELECT * FROM products WHERE last_item_index >= {first} AND last_item_index < {} \
             ORDER BY cnpj, shopid, productid) TO STDOUT (FORMAT binary)",
            first.saturating_add(CHUNK)
        );
        let parts: Vec<Bytes> = self.observer.copy_out(query.as_str()).await?.try_collect().await?;
        Ok(parts.concat().into())
    }

    /// Returns the present end of the WAL (write-ahead log), in bytes.
    async fn wal(&self) -> Result<i64, Error> {
        let query = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
        Ok(self.observer.query_one(query, &[]).await?.try_get(0)?)
    }
}

/// Returns the catalogue position of the item at `index` of a payload in disorder. Neighbours in
/// the payload are far apart in the catalogue, and no two items share a position.
fn scattered(index: u32, items: u32) -> u32 {
    // A prime that divides no number of items which anybody measures, so all places are different.
    const STRIDE: u64 = 15_485_863;
    u32::try_from(u64::from(index) * STRIDE % u64::from(items.max(1))).unwrap_or(index)
}
