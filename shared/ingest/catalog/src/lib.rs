//! The product catalogue in PostgreSQL: every statement of the product ingest, and publishing the
//! events in the table `outbox`.
//!
//! ```no_run
//! # async fn write(sdk: runtime::Sdk, chunk: ingestion::chunk::Chunk) -> Result<(), catalog::DatabaseError> {
//! let database = catalog::Database::from_environment(&sdk).await?;
//! if let catalog::WriteOutcome::Done { result, batch, .. } = database.write_chunk(&chunk).await? {
//!     println!("{:?}, the batch is {batch}", result.changes());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Every call may be repeated; its documentation names the key that makes it idempotent. A call is
//! one transaction, except for those that end a full load, which take a transaction for every 32
//! establishments. A call that is cut off leaves what it committed, and the next one continues from
//! there. Every call fails if the database does. Its documentation names only other reasons, and
//! what remains after a failure.
//!
//! `docs/batches.md` explains the states of a batch, and `docs/ingest-internals.md` which version
//! of a product wins and which products are active.
//!
//! # Locks
//!
//! All transactions lock in one order, so no two wait for each other:
//!
//! 1. a gate, if the transaction has more than 32 locks of establishments. Gates limit how many
//!    transactions hold many locks: there are six, and a last one above 128 locks;
//! 2. the establishments (advisory locks, in the order of their numbers);
//! 3. rows of owners and of products;
//! 4. the chunk's row;
//! 5. the batch's row.
//!
//! Only chunks can have more than 32 establishments. The end of a full load takes them in slices,
//! and never needs a gate. While a transaction holds an establishment's lock alone, no other writes
//! the establishment's products or its owner, so the rows that it read stay the same until it
//! commits.
//!
//! # Connection and time
//!
//! A [`Database`] has one connection with its prepared statements, and checks it before each call:
//! a function may be frozen for hours between two invocations. Each call has a budget of 25 s. The
//! server ends what a frozen or dead function leaves: statements after 20 s, waits for a lock after
//! 15 s, transactions that idle after 10 s, and statements whose client is gone after 1 s. A call
//! that waited for locks in vain fails with [`DatabaseError::Contended`].
//!
//! # Migrations
//!
//! `migrations/V<number>__<name>.sql`, embedded in the binary, are applied in their order under an
//! advisory lock, each in a transaction. A migration that was applied is never changed: the next
//! one changes what it made.

mod account;
mod attempts;
mod batch;
mod config;
mod connection;
mod database;
mod drop_scans;
mod error;
mod final_batches;
mod finalize;
mod hashes;
mod item_errors;
mod locked_batch;
mod locks;
mod metrics;
mod migrate;
mod outbox;
mod owners;
mod plan;
mod pruning;
mod replay;
mod row_location;
mod rows;
mod seal;
mod secret;
mod stopped;
mod tls;
mod usage;
mod view;
mod visible;
mod warnings;
mod write;

pub use attempts::GivenUp;
pub use batch::{BatchRow, ChunkingOutcome, FailedChunking, PayloadFailure};
pub use config::{ConfigError, DatabaseConfig, Pem, Tls};
pub use database::Database;
pub use drop_scans::DropScan;
pub use error::{DatabaseError, SecretFault};
pub use final_batches::FinalBatch;
pub use finalize::{Finalized, deactivation_guard};
pub use item_errors::{ItemErrorPage, LISTED_ITEM_ERRORS};
pub use metrics::{Counted, IngestMetrics};
pub use migrate::Migrated;
pub use outbox::{Backlog, LeftEvents, Links, OutboxError, OutboxEvent, OutboxMode};
pub use owners::{
    ChangedOwners, OwnedEstablishment, OwnerChange, OwnerFilter, OwnerRequest, OwnerRule, OwnerRuleError,
    RefusedOwner,
};
pub use pruning::Pruned;
pub use replay::{BegunReplay, ReplayOutcome, ReplayRequest};
pub use seal::{Seal, SealOutcome, SealedChunk};
pub use stopped::{BatchToRecover, StallThresholds, StuckBatches};
pub use usage::{UsageDay, UsageItems};
pub use view::{BatchFilter, BatchView, ChangesView, ChunksView, ERRORS_FILE, PayloadView, errors_url};
pub use write::WriteOutcome;
