//! The product catalogue in PostgreSQL.

#![forbid(unsafe_code)]

mod account;
mod batch;
mod config;
mod connection;
mod database;
mod error;
mod finalize;
mod hashes;
mod item_errors;
mod locks;
mod migrate;
mod rows;
mod seal;
mod secret;
mod tls;
mod view;
mod write;

pub use batch::{Begun, NewBatch, PayloadFailure, PendingChunk};
pub use config::{ConfigError, DatabaseConfig, Pem, Tls};
pub use database::Database;
pub use error::DatabaseError;
pub use finalize::Finalized;
pub use migrate::Migrated;
pub use seal::{Seal, SealOutcome, SealedChunk};
pub use view::{BatchFilter, BatchView, ChangesView, ChunksView, PayloadView};
pub use write::Written;
