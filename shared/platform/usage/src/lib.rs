//! Usage: what each tenant, key and operation did in a day.
//!
//! An idempotency record [contributes](contribution()) a function of its present image to the hour
//! in which it was created. A reader of the records' stream adds the difference of each
//! [`Change`] to the counters. It does so in the same transaction as it moves the shard's
//! [`Mark`], so a change is counted once, however often it is read. A [`Recount`] of the records
//! finds what the stream lost.

#![forbid(unsafe_code)]

mod chunk;
mod contribution;
mod counts;
mod error;
mod hour;
pub mod ingest;
mod key;
mod recount;
mod standing;
mod table;

pub use chunk::{Change, Targets};
pub use contribution::{ATTRIBUTES, Contribution, Item, Window, contribution};
pub use counts::{Counts, EndedTests, Line, Total};
pub use error::UsageError;
pub use hour::{Hour, MalformedHour};
pub use recount::Recount;
pub use standing::{Gap, Standing, State};
pub use table::{Counted, EndedTest, LINES_MOST, Mark, UsageTable};
