//! Usage: counters of the requests, messages and bytes of each tenant, API key and operation, by
//! day and hour.
//!
//! The [contribution](contribution()) of an idempotency record follows from its present attributes,
//! and counts in the hour in which the record was created. The function `metering` reads the stream
//! of the records' table, and adds the differences that each [`Change`] makes to the counters. The
//! same transaction moves the [`ShardPosition`] up to which the shard is counted, so a change is
//! counted once, however often it is read. A [`Recount`] of the records finds what the stream lost.

#![forbid(unsafe_code)]

mod chunk;
mod contribution;
mod counts;
mod coverage;
mod error;
mod hour;
pub mod ingest;
mod key;
mod recount;
mod table;

pub use chunk::{Change, Targets};
pub use contribution::{ATTRIBUTES, Contribution, Item, LineKey, contribution};
pub use counts::{Counts, EndedTests, Line, Total};
pub use coverage::{Coverage, Gap, MeteringState};
pub use error::UsageError;
pub use hour::{Hour, MalformedHour};
pub use recount::Recount;
pub use table::{EndedTest, MOST_LINES, PositionUpdate, ShardPosition, UsageTable};
