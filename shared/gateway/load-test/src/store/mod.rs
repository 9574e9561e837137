//! DynamoDB's record of load tests, their reports in S3, and the engine that runs them.
//!
//! A test is an item by its tenant and its id. Ids are UUIDs of version 7, so a tenant's tests are
//! in the order of their creation. What a test was asked to do is an item of its own, because each
//! worker reads the test's item once a second. Each step of a worker has an item with its tally, in
//! one of several partitions, because DynamoDB takes 1,000 writes a second in one.
//!
//! Every write may be repeated; its description names the key. DynamoDB's TTL removes a test when
//! its retention is over.

mod attendance;
mod creation;
mod deletion;
mod engine;
mod error;
mod item;
mod life;
mod reading;
mod record;
mod reports;
mod steps;
mod update;

pub use attendance::Attendance;
pub use creation::Created;
pub use engine::{Engine, EngineError, Start};
pub use error::TestStoreError;
pub use record::{Control, Failure, Run, RunEnd, TestRecord, TestRun};
pub use steps::Handled;

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;
use objects::Objects;

type Item = HashMap<String, AttributeValue>;

/// Longest time from a load test's creation to its end: a week for its runs, and a day for the time
/// before and after them.
const LONGEST: Duration = Duration::from_secs(8 * 86_400);

/// Retention of a load test after its end: 30 days. The bucket's lifecycle rule keeps reports for
/// the same time.
pub const RETENTION: Duration = Duration::from_secs(30 * 86_400);

/// Client of the DynamoDB table of load tests, and of the S3 bucket with their reports.
#[derive(Clone, Debug)]
pub struct TestStore {
    dynamodb: Client,
    table: String,
    s3: aws_sdk_s3::Client,
    objects: Objects,
}

impl TestStore {
    /// Creates the client. `table` must have the keys `pk` and `sk`, and `expiresAt` as its TTL
    /// attribute. Reports are stored below `tests/` in `bucket`.
    #[must_use]
    pub fn new(dynamodb: Client, table: String, s3: aws_sdk_s3::Client, bucket: String) -> Self {
        let objects = Objects::new(s3.clone(), bucket);
        Self { dynamodb, table, s3, objects }
    }
}

/// Returns the value of the TTL attribute for an item of a test that has not ended at `now`.
fn expiry_of_open(now: Timestamp) -> AttributeValue {
    item::expiry(now, LONGEST.saturating_add(RETENTION))
}
