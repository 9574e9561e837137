//! The product catalogue in PostgreSQL: everything of the product ingest that touches it.
//!
//! ```no_run
//! # async fn upsert(sdk: aws::Sdk, chunk: ingestion::chunk::Chunk) -> Result<(), catalog::DatabaseError> {
//! let database = catalog::Database::from_environment(&sdk).await?;
//! match database.write_chunk(&chunk).await? {
//!     catalog::Written::Done { result, batch, .. } => println!("{:?}, the batch is {batch}", result.changes()),
//!     catalog::Written::AlreadyDone { .. } | catalog::Written::Superseded => println!("nothing to do"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Who calls what
//!
//! | caller | calls |
//! |---|---|
//! | `migrate` | [`Database::migrate`] |
//! | `chunker` | [`allowed_cnpjs`](Database::allowed_cnpjs) of an old batch, [`begin_chunking`](Database::begin_chunking), [`record_item_errors`](Database::record_item_errors) while it reads, [`seal`](Database::seal) at the end, or [`fail_payload`](Database::fail_payload); [`finalize`](Database::finalize) where no chunk is left |
//! | `upsert` | [`write_chunk`](Database::write_chunk), [`note_failed_attempt`](Database::note_failed_attempt) where that failed, [`final_batch`](Database::final_batch) and [`note_let_go`](Database::note_let_go) of one that became final |
//! | `dead-letter` | [`fail_chunk`](Database::fail_chunk), [`fail_payload`](Database::fail_payload) |
//! | `batches` | [`batch`](Database::batch), [`batches`](Database::batches), [`item_errors`](Database::item_errors); [`objects_to_replay`](Database::objects_to_replay) and [`replay`](Database::replay) |
//! | `reconcile` | [`unknown`](Database::unknown), [`take_stopped`](Database::take_stopped), [`take_unfinished`](Database::take_unfinished) and [`finalize`](Database::finalize), [`take_kept`](Database::take_kept), [`stuck`](Database::stuck); [`end_too_old`](Database::end_too_old), [`prune`](Database::prune), [`advance_history`](Database::advance_history) |
//!
//! Every call may be repeated: each says by what. A call is one transaction, except for the end of
//! a full load: that takes a transaction for every 32 establishments, and `write_chunk` begins it
//! after the chunk's own. Where a call is cut off, the next one goes on from there, also with the
//! guard's look at all establishments.
//!
//! # Locks
//!
//! A transaction of more than 32 establishments takes a gate first, of which there is one. Only
//! chunks have so many; the end of a load never takes it. Then there is one order for everybody, so
//! nobody waits in a circle: the locks of the establishments (advisory, in the order of their
//! numbers), rows of products, the chunk's row, the batch's row. Under an establishment's lock
//! nobody else writes its products, so what was looked up stays true until the commit.
//!
//! # Which version wins
//!
//! Of all items of a product that were ever written, the one with the greatest [`Version`](ingestion::product::Version). A row remembers the version that wrote it. A later version
//! with the same content writes nothing, so it leaves no trace in the row, but in its chunk: for each item, 8 bytes of its key's hash and 5 of its
//! content's. Before a row is overwritten by something that is newer than what the row remembers, chunks of other batches are asked whether they contained the very content that
//! is there, in a version newer still. The answer can only be yes for batches received at or after the item's effective time, and where the source does not date the
//! present content before it; so a change that arrives in the usual order asks nobody.
//!
//! # Which products are active
//!
//! Of all batches that have a say about a product, the one received last decides: a batch that contained it says yes, a full load that decided about its establishment
//! and did not contain it says no. An item in error says neither. So
//!
//! - at the end of a full load ([`finalize`](Database::finalize)) those active products become inactive that neither it nor a batch received later contained, by the hashes
//!   of their chunks;
//! - a product that is inactive or new becomes active when a chunk contains it, unless a full load received later has decided and lacks it;
//! - a full load leaves an establishment to a later full load that knows it too, and the report says "skipped" where that is true of all of its establishments. One that had an
//!   unreadable key, or no valid item, decides nothing, and one that had items in error says nothing of their products: nobody leaves anything to these;
//! - the guard looks at each establishment by itself, so that a large one does not hide a small one
//!   that vanishes; where it holds for one, nothing of the batch is deactivated. It is asked again
//!   under the locks of each slice: where products came in between for which it holds, the load is
//!   held from there on.
//!
//! # Replays
//!
//! A replay is a new generation of the batch, in which chosen chunks are pending again. Each keeps its object and its hashes, so that what the batch contained is known
//! meanwhile; and what a full load decided once stays decided, so that late batches meet the same answer throughout. At its end the load
//! looks at the establishments for which it had not decided: those that were held or left to others. The numbers of a batch are those of its last generation.
//!
//! # What is too old
//!
//! The history of loads begins at a time in the database, `batch_history.kept_since`. What was
//! received before it is too old to be compared with what came since: its chunks are not written,
//! it decides nothing, and it is deleted (`pruning.rs`). Every row counts as confirmed at that
//! time.
//!
//! # Connection and time
//!
//! A [`Database`] has one connection, checked before each call, since between the invocations of a
//! function anything may have happened to it. Prepared statements stay with it. Each call has a
//! budget of 25 s, and the server ends by itself what a frozen or dead function left: statements
//! after 20 s, waits for a lock after 15 s, transactions that idle after 10 s, and statements whose
//! client is gone after one. A call that waited for locks in vain fails with
//! [`DatabaseError::Contended`].
//!
//! # Migrations
//!
//! `migrations/V<number>__<name>.sql`, embedded in the binary, applied in their order under an advisory lock, each in a transaction. One that was applied is never changed: the next
//! one changes what it made.

#![forbid(unsafe_code)]

mod account;
mod attempts;
mod batch;
mod config;
mod connection;
mod database;
mod error;
mod finalize;
mod hashes;
mod item_errors;
mod last;
mod locks;
mod migrate;
mod place;
mod pruning;
mod replay;
mod rows;
mod seal;
mod secret;
mod stopped;
mod tls;
mod view;
mod visible;
mod write;

pub use attempts::GivenUp;
pub use batch::{Begun, NewBatch, PayloadFailure, PendingChunk};
pub use config::{ConfigError, DatabaseConfig, Pem, Tls};
pub use database::Database;
pub use error::DatabaseError;
pub use finalize::{Finalized, deactivation_guard};
pub use item_errors::{ItemErrorPage, LISTED_ITEM_ERRORS};
pub use last::FinalBatch;
pub use migrate::Migrated;
pub use pruning::Pruned;
pub use replay::{BegunReplay, ReplayOutcome, ReplayRequest};
pub use seal::{Seal, SealOutcome, SealedChunk};
pub use stopped::{Patience, StoppedBatch, Stuck};
pub use view::{BatchFilter, BatchView, ChangesView, ChunksView, PayloadView};
pub use write::Written;
