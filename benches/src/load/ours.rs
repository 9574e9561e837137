//! The contender of the project: the code of `chunker` and of `upsert`, with S3 on the one side and
//! PostgreSQL on the other, and without the queue between them. A chunk's file stays in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use catalog::{Database, DatabaseConfig, OwnerRule};
use ingestion::chunk::{Generation, Plan, decode};
use ingestion::product::BatchStamp;
use jiff::Timestamp;
use nix::sys::resource::{UsageWho, getrusage};
use objects::Objects;
use runtime::{Environment, Sdk};
use tokio::runtime::{Builder, Runtime};

use super::Loaded;
use crate::contender::serve;
use crate::cpu::Stopwatch;
use crate::error::Error;
use crate::ingest::catalogue::new_batch;
use crate::ingest::chunks::{self, Files, cut};

/// Number of chunks that are written at the same time, like two instances of `upsert` with a
/// connection each. They wait for the same establishment's lock, so one reads the next chunk while
/// PostgreSQL writes the other.
const WRITERS: usize = 2;

/// Runs the process of the project's contender, which reads the S3 keys of catalogues from its
/// standard input.
pub(crate) async fn contend() -> Result<(), Error> {
    let mut environment = Environment::of_process();
    let bucket = environment.required("PAYLOAD_BUCKET");
    let url: String = environment.required("DATABASE_URL");
    environment.check()?;
    let config = DatabaseConfig::from_url(&url)?;
    let writer = || Database::new(config.clone()).with_owner_rule(OwnerRule::First);
    let writers = (0..WRITERS).map(|_| Arc::new(writer())).collect();
    let sdk = Sdk::from_environment().await;
    let objects = Objects::new(aws_sdk_s3::Client::new(&sdk.objects()), bucket);
    // Instances have processors of their own.
    let instances = Builder::new_multi_thread().worker_threads(WRITERS).enable_all().build()?;
    let loader = Loader { objects, database: Database::new(config), writers };
    let served = serve(async |key: &str| loader.load(key, &instances).await).await;
    instances.shutdown_background();
    served
}

struct Loader {
    objects: Objects,
    /// Database connection of the chunker's part.
    database: Database,
    /// Database connections of the two instances of `upsert`.
    writers: Vec<Arc<Database>>,
}

impl Loader {
    async fn load(&self, key: &str, instances: &Runtime) -> Result<Loaded, Error> {
        let stopwatch = Stopwatch::start()?;
        let batch = new_batch(Timestamp::now());
        let batch_id = batch.metadata.batch_id;
        let files = Files::default();
        self.database.begin_chunking(&batch, Plan::default()).await?;
        let head = self.objects.head(key).await?;
        let mut payload = self.objects.body(key, &head);
        let stamp = BatchStamp::new(batch.metadata.received_at, batch_id);
        let cut = cut(stamp, &mut payload, &files).await?;
        let items = cut.items_parsed;
        let count = u32::try_from(cut.chunks.len())?;
        self.database.seal(batch_id, Generation::FIRST, &cut).await?;
        let next = Arc::new(AtomicU32::new(0));
        let writing = self.writers.iter().map(|database| {
            let (database, files, next) = (Arc::clone(database), files.clone(), Arc::clone(&next));
            instances.spawn(async move { write(&database, &files, &next, count).await })
        });
        let mut written = 0;
        for instance in writing.collect::<Vec<_>>() {
            written += instance.await??;
        }
        let took = stopwatch.stop()?;
        let peak = getrusage(UsageWho::RUSAGE_SELF)?.max_rss();
        Ok(Loaded { items, written, took, peak_kilobytes: u32::try_from(peak)? })
    }
}

/// Writes the next chunks until all `count` chunks are taken, and returns the number of rows that
/// changed.
async fn write(database: &Database, files: &Files, next: &AtomicU32, count: u32) -> Result<u64, Error> {
    let mut rows = 0;
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= count {
            return Ok(rows);
        }
        let changes = chunks::write(database, &decode(&files.take(index)?)?).await?;
        rows += changes.inserted + changes.updated;
    }
}
