//! The contender of the project: the code of `chunker` and of `upsert`, with S3 on the one side and
//! PostgreSQL on the other, and without the queue between them. A chunk's file stays in memory, or
//! lies in the bucket, as it does where the two are functions.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use catalog::{Database, DatabaseConfig, NewBatch, Seal, SealedChunk, WriteOutcome};
use chunker::pipeline::{self, Outcome, Output, RunError};
use chunker::{Cut, CutSpec};
use clap::ValueEnum;
use futures_util::future::BoxFuture;
use ingestion::chunk::{Generation, Plan, decode};
use ingestion::payload::chunk_key;
use ingestion::product::{BatchStamp, ItemError};
use ingestion::split::Format;
use jiff::Timestamp;
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::ClockId;
use objects::Objects;
use runtime::{Environment, Sdk};
use tokio::runtime::{Builder, Runtime};
use uuid::Uuid;

use super::contender::Loaded;
use crate::error::Error;
use crate::function::cpu;
use crate::ingest::catalogue::{new_batch, rules};
use crate::ingest::cut::NoReport;
use crate::ingest::unexpected;

/// Chunks that are written at once: two instances of `upsert`, with a connection each. They take
/// turns for the establishment's lock, so while PostgreSQL writes one chunk the next is read.
const WRITERS: usize = 2;
const MAX_FILE: usize = 32 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// Chunks stay in memory
    Memory,
    /// Chunks are put into the bucket and read from there
    Bucket,
}

/// The contender's process: takes keys, a line each, and answers each with what it took.
pub(crate) async fn serve(way: Way) -> Result<(), Error> {
    let mut environment = Environment::of_process();
    let bucket = environment.required("PAYLOAD_BUCKET");
    let url: String = environment.required("DATABASE_URL");
    environment.check().map_err(|error| unexpected(&error))?;
    let config = DatabaseConfig::from_url(&url).map_err(|error| unexpected(&error))?;
    let writers = (0..WRITERS).map(|_| Arc::new(Database::new(config.clone()))).collect();
    let sdk = Sdk::from_environment().await;
    let objects = Objects::new(aws_sdk_s3::Client::new(&sdk.objects()), bucket);
    // Instances have processors of their own.
    let instances = Builder::new_multi_thread().worker_threads(WRITERS).enable_all().build()?;
    let loader = Loader { objects, database: Database::new(config), writers, way };
    let served = loader.serve(&instances).await;
    instances.shutdown_background();
    served
}

struct Loader {
    objects: Objects,
    /// The chunker's.
    database: Database,
    writers: Vec<Arc<Database>>,
    way: Way,
}

impl Loader {
    async fn serve(&self, instances: &Runtime) -> Result<(), Error> {
        for key in std::io::stdin().lines() {
            let line = serde_json::to_string(&self.load(key?.trim(), instances).await?)?;
            #[expect(clippy::print_stdout, reason = "what the comparison reads")]
            {
                println!("{line}");
            }
        }
        Ok(())
    }

    async fn load(&self, key: &str, instances: &Runtime) -> Result<Loaded, Error> {
        let (started, cpu_before) = (Instant::now(), cpu(ClockId::CLOCK_PROCESS_CPUTIME_ID)?);
        let batch = new_batch(Timestamp::now());
        let chunks = Chunks {
            batch_id: batch.metadata.batch_id,
            objects: (self.way == Way::Bucket).then(|| self.objects.clone()),
            files: Arc::default(),
        };
        self.database.begin_chunking(&batch, Plan::default()).await?;
        let cut = self.cut(key, &batch, &chunks).await?;
        let items = cut.items_parsed;
        let count = u32::try_from(cut.chunks.len()).map_err(|error| unexpected(&error))?;
        self.database.seal(chunks.batch_id, Generation::FIRST, &seal(cut)).await?;
        let (chunks, next) = (Arc::new(chunks), Arc::new(AtomicU32::new(0)));
        let writing = self.writers.iter().map(|database| {
            let (database, chunks, next) = (Arc::clone(database), Arc::clone(&chunks), Arc::clone(&next));
            instances.spawn(async move { write(&database, &chunks, &next, count).await })
        });
        let mut written = 0;
        for instance in writing.collect::<Vec<_>>() {
            written += instance.await.map_err(|error| unexpected(&error))??;
        }
        let seconds = started.elapsed().as_secs_f64();
        let cpu_seconds = cpu(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.saturating_sub(cpu_before).as_secs_f64();
        let peak = getrusage(UsageWho::RUSAGE_SELF).map_err(std::io::Error::from)?.max_rss();
        let peak_kilobytes = u32::try_from(peak).map_err(|error| unexpected(&error))?;
        Ok(Loaded { items, written, seconds, cpu_seconds, peak_kilobytes })
    }

    async fn cut(&self, key: &str, batch: &NewBatch, chunks: &Chunks) -> Result<Cut, Error> {
        let job = CutSpec {
            format: Format::Array,
            rules: rules()?,
            plan: Plan::default(),
            batch: BatchStamp::new(batch.metadata.received_at, batch.metadata.batch_id),
            generation: Generation::FIRST,
            max_bytes: u64::MAX,
            bounds: chunker::Bounds::default(),
            checksum: None,
        };
        let head = self.objects.head(key).await.map_err(|error| unexpected(&error))?;
        let mut payload = self.objects.body(key, &head);
        match pipeline::run(job, &mut payload, chunks).await.map_err(|error| trouble(&error.to_string()))? {
            Outcome::Cut(cut) if cut.items_in_error == 0 => Ok(cut),
            other => Err(trouble(&format!("the catalogue was not cut: {other:?}"))),
        }
    }
}

fn trouble(what: &str) -> Error {
    Error::Unexpected(what.to_owned())
}

/// Chunks' files by their index.
type Files = Vec<(u32, Vec<u8>)>;

/// Store of the chunks' files between the two functions.
struct Chunks {
    batch_id: Uuid,
    objects: Option<Objects>,
    files: Arc<Mutex<Files>>,
}

impl Chunks {
    fn key(&self, index: u32) -> String {
        chunk_key(self.batch_id, Generation::FIRST, index)
    }

    async fn get(&self, index: u32) -> Result<Vec<u8>, Error> {
        if let Some(objects) = &self.objects {
            return objects.get(&self.key(index), MAX_FILE).await.map_err(|error| unexpected(&error));
        }
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let place = files.iter().position(|(number, _)| *number == index);
        place.map(|place| files.swap_remove(place).1).ok_or_else(|| trouble("a chunk is missing"))
    }
}

impl Output for Chunks {
    type Report = NoReport;

    fn report(&self) -> NoReport {
        NoReport
    }

    fn store(&self, index: u32, file: Vec<u8>) -> BoxFuture<'static, Result<(), RunError>> {
        let (objects, files, key) = (self.objects.clone(), Arc::clone(&self.files), self.key(index));
        Box::pin(async move {
            match objects {
                Some(objects) => objects.put(&key, file).await?,
                None => files.lock().unwrap_or_else(PoisonError::into_inner).push((index, file)),
            }
            Ok(())
        })
    }

    async fn record(&self, _: &[ItemError]) -> Result<(), RunError> {
        Ok(())
    }
}

/// Writes chunks as long as there is another one; says how many rows changed.
async fn write(database: &Database, chunks: &Chunks, next: &AtomicU32, count: u32) -> Result<u64, Error> {
    let mut rows = 0;
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= count {
            return Ok(rows);
        }
        let chunk = decode(&chunks.get(index).await?).map_err(|error| unexpected(&error))?;
        let WriteOutcome::Done { result, .. } = database.write_chunk(&chunk).await? else {
            return Err(trouble("a chunk was written before"));
        };
        rows += result.changes().inserted + result.changes().updated;
    }
}

fn seal(cut: Cut) -> Seal {
    let chunks = cut.chunks.into_iter().filter_map(|chunk| {
        let uri = format!("s3://bench/{}", chunk.index);
        let first_cnpj = *chunk.cnpjs.first()?;
        Some(SealedChunk { index: chunk.index, uri, items: chunk.items, first_cnpj, cnpjs: chunk.cnpjs })
    });
    Seal {
        payload_bytes: cut.bytes,
        checksum: cut.checksum,
        items_parsed: cut.items_parsed,
        items_in_error: cut.items_in_error,
        unreadable_keys: cut.unreadable_keys,
        items_partial: cut.items_partial,
        errors_omitted: cut.errors_omitted,
        errors_uri: None,
        chunks: chunks.collect(),
    }
}
