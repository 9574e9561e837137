//! What PostgreSQL does for a row: `Database::write_chunk` beside raw binary COPY of the same rows
//! into a table of the same form. Each round has a database of its own.

use std::time::Duration;

use bytes::Bytes;
use catalog::{Database, DatabaseConfig, NewBatch, Seal, SealedChunk, WriteOutcome};
use futures_util::{SinkExt as _, TryStreamExt as _};
use ingestion::batch::Changes;
use ingestion::chunk::{Chunk, Generation, Plan, Planner};
use ingestion::generate::Layout;
use ingestion::product::{BatchStamp, ItemPlace};
use jiff::Timestamp;
use tokio_postgres::Client;

use super::catalogue::{edition, new_batch, rules};
use super::unexpected;
use crate::database::{Server, backend, connect};
use crate::error::Error;
use crate::function::cpu;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Copy,
    Fresh,
    Unchanged,
    /// Unchanged rows whose items come in another order than that of their keys.
    Scattered,
    Newer,
}

impl Phase {
    pub(super) const ALL: [Self; 5] =
        [Self::Copy, Self::Fresh, Self::Unchanged, Self::Scattered, Self::Newer];
}

/// All rows once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) phase: Phase,
    /// CPU time of the process that serves the connection.
    pub(super) cpu: Duration,
    /// Bytes.
    pub(super) wal: u32,
}

/// Rows of a chunk and of a COPY.
const CHUNK: u32 = 1000;

pub(super) async fn measure(url: &str, items: u32, rounds: u32) -> Result<Vec<Measured>, Error> {
    let server = Server::connect(url).await?;
    let mut measured = Vec::new();
    for number in 1..=rounds {
        let database = server.create().await?;
        let outcome = round(&database, items).await;
        server.drop(&database).await?;
        for one in outcome? {
            progress(number, one, items);
            measured.push(one);
        }
    }
    Ok(measured)
}

async fn round(config: &DatabaseConfig, items: u32) -> Result<[Measured; 5], Error> {
    let bench = Bench { database: Database::new(config.clone()), observer: connect(config).await?, items };
    bench.database.migrate().await?;
    // Autovacuum comes when it likes, and what it writes would be counted.
    let tables = "ALTER TABLE products SET (autovacuum_enabled = false); \
         CREATE TABLE reference (LIKE products INCLUDING ALL) WITH (autovacuum_enabled = false)";
    bench.observer.batch_execute(tables).await?;
    let all = u64::from(items);
    let fresh = bench.load(Phase::Fresh, 0, Changes { inserted: all, ..Changes::default() }).await?;
    bench.observer.batch_execute("ANALYZE products").await?;
    let copy = bench.copy().await?;
    let none = Changes { unchanged: all, ..Changes::default() };
    let unchanged = bench.load(Phase::Unchanged, 0, none).await?;
    let scattered = bench.load(Phase::Scattered, 0, none).await?;
    let newer = bench.load(Phase::Newer, 1, Changes { updated: all, ..Changes::default() }).await?;
    Ok([copy, fresh, unchanged, scattered, newer])
}

struct Bench {
    database: Database,
    observer: Client,
    items: u32,
}

impl Bench {
    /// Loads one edition of the catalogue, chunk by chunk, which must change what is `expected`.
    async fn load(&self, phase: Phase, edition: u32, expected: Changes) -> Result<Measured, Error> {
        let batch = batch(phase)?;
        let chunks = chunks(&batch, phase, self.items, edition)?;
        self.database.begin_chunking(&batch, Plan::default()).await?;
        self.database.seal(batch.metadata.batch_id, Generation::FIRST, &seal(&chunks, self.items)?).await?;
        let clock = backend(self.writer().await?)?;
        let (wal_before, cpu_before) = (self.wal().await?, cpu(clock)?);
        let mut changes = Changes::default();
        for chunk in &chunks {
            let WriteOutcome::Done { result, .. } = self.database.write_chunk(chunk).await? else {
                return Err(Error::Unexpected("a chunk was written before".to_owned()));
            };
            let of_chunk = result.changes();
            changes.inserted += of_chunk.inserted;
            changes.updated += of_chunk.updated;
            changes.unchanged += of_chunk.unchanged;
            changes.stale += of_chunk.stale;
        }
        let (cpu_after, wal_after) = (cpu(clock)?, self.wal().await?);
        if changes != expected {
            return Err(Error::Unexpected(format!("{phase:?} changed {changes:?}")));
        }
        measured(phase, cpu_after.saturating_sub(cpu_before), wal_after - wal_before)
    }

    /// Copies the rows that are there into the other table, as many at a time as a chunk has and in
    /// a chunk's order.
    async fn copy(&self) -> Result<Measured, Error> {
        let mut files = Vec::new();
        for first in (0..self.items).step_by(CHUNK.try_into().unwrap_or(usize::MAX)) {
            files.push(self.rows(first).await?);
        }
        let statement = self.observer.prepare("COPY reference FROM STDIN (FORMAT binary)").await?;
        let pid: i32 = self.observer.query_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)?;
        let clock = backend(pid)?;
        let (wal_before, cpu_before) = (self.wal().await?, cpu(clock)?);
        let mut copied = 0;
        for file in files {
            let mut sink = Box::pin(self.observer.copy_in::<_, Bytes>(&statement).await?);
            sink.send(file).await?;
            copied += sink.as_mut().finish().await?;
        }
        let (cpu_after, wal_after) = (cpu(clock)?, self.wal().await?);
        if copied != u64::from(self.items) {
            return Err(Error::Unexpected(format!("{copied} rows were copied")));
        }
        measured(Phase::Copy, cpu_after.saturating_sub(cpu_before), wal_after - wal_before)
    }

    /// Returns one chunk's rows as COPY writes them.
    async fn rows(&self, first: u32) -> Result<Bytes, Error> {
        let query = format!(
            "COPY (SELECT * FROM products WHERE last_item_index >= {first} AND last_item_index < {} \
             ORDER BY cnpj, shopid, productid) TO STDOUT (FORMAT binary)",
            first.saturating_add(CHUNK)
        );
        let parts: Vec<Bytes> = self.observer.copy_out(query.as_str()).await?.try_collect().await?;
        Ok(parts.concat().into())
    }

    /// Returns the pid of the process that serves the connection that chunks are written on.
    async fn writer(&self) -> Result<i32, Error> {
        let query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() \
             AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
        Ok(self.observer.query_one(query, &[]).await?.try_get(0)?)
    }

    /// Returns the position where the log of writes ends.
    async fn wal(&self) -> Result<i64, Error> {
        let query = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
        Ok(self.observer.query_one(query, &[]).await?.try_get(0)?)
    }
}

fn measured(phase: Phase, cpu: Duration, wal: i64) -> Result<Measured, Error> {
    Ok(Measured { phase, cpu, wal: u32::try_from(wal).map_err(|error| unexpected(&error))? })
}

fn batch(phase: Phase) -> Result<NewBatch, Error> {
    // Received one after the other.
    let second = match phase {
        Phase::Copy | Phase::Fresh => 0,
        Phase::Unchanged => 60,
        Phase::Scattered => 120,
        Phase::Newer => 180,
    };
    let received_at = Timestamp::from_second(1_800_000_000 + second).map_err(|error| unexpected(&error))?;
    Ok(new_batch(received_at))
}

fn chunks(batch: &NewBatch, phase: Phase, items: u32, number: u32) -> Result<Vec<Chunk>, Error> {
    let (catalogue, rules) = (edition(items, number), rules()?);
    let stamp = BatchStamp::new(batch.metadata.received_at, batch.metadata.batch_id);
    let mut planner = Planner::new(Plan::default(), stamp, Generation::FIRST);
    let mut chunks = Vec::new();
    for index in 0..items {
        let source = if phase == Phase::Scattered { scattered(index, items) } else { index };
        let item = catalogue.item(source, Layout::Array);
        let place = ItemPlace { index: index.into(), offset: 0 };
        let product =
            rules.parse(place, item.as_bytes()).map_err(|error| Error::Unexpected(format!("{error:?}")))?;
        chunks.extend(planner.push(product, index.into()));
    }
    chunks.extend(planner.finish());
    Ok(chunks)
}

/// Another place for each of `items` places, far from its neighbours'.
fn scattered(index: u32, items: u32) -> u32 {
    // A prime that divides no number of items which anybody measures, so all places are different.
    const STRIDE: u64 = 15_485_863;
    u32::try_from(u64::from(index) * STRIDE % u64::from(items.max(1))).unwrap_or(index)
}

fn seal(chunks: &[Chunk], items: u32) -> Result<Seal, Error> {
    let sealed = |chunk: &Chunk| {
        let cnpjs = chunk.cnpjs();
        let first_cnpj = *cnpjs.first()?;
        let uri = format!("s3://bench/{}", chunk.index());
        Some(SealedChunk { index: chunk.index(), uri, items: chunk.items(), first_cnpj, cnpjs })
    };
    let empty = || Error::Unexpected("a chunk is empty".to_owned());
    Ok(Seal {
        payload_bytes: items.into(),
        checksum: String::new(),
        items_parsed: items.into(),
        items_in_error: 0,
        unreadable_keys: 0,
        items_partial: 0,
        errors_omitted: 0,
        errors_uri: None,
        chunks: chunks.iter().map(sealed).collect::<Option<_>>().ok_or_else(empty)?,
    })
}

#[expect(clippy::print_stderr, reason = "it takes a while")]
fn progress(round: u32, measured: Measured, items: u32) {
    let Measured { phase, cpu, wal } = measured;
    let phase = format!("{phase:?}");
    let (cpu, wal) = (cpu.as_secs_f64() * 1e6 / f64::from(items), wal / items.max(1));
    eprintln!("round {round:>2}  {phase:<9}  {cpu:>5.1} µs of CPU and {wal:>4} bytes of WAL a row");
}
