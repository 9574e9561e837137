//! Store of load tests (records in DynamoDB, reports in S3), and the engine that runs the tests.
//!
//! A test has a DynamoDB item under its tenant and its id. Ids are UUIDs of version 7, so a
//! tenant's tests sort by their creation. The definition of a test has an item of its own, because
//! each worker reads the test's item once a second. Each attempt of a worker at a minute of the
//! test (step) has an item with the worker's counts (tally). These items are in several partitions,
//! because DynamoDB takes 1,000 writes a second in one.
//!
//! Every write may be repeated; its description names the key. DynamoDB's TTL removes a test when
//! its retention is over.

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
mod worker_states;

pub use creation::Created;
pub use engine::{Engine, EngineError, ExecutionStart};
pub use error::TestStoreError;
pub use record::{Control, Failure, Run, RunEnd, TestRecord, TestRun};
pub use steps::Handled;
pub use worker_states::WorkerStates;

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

/// Time for which a load test is kept after its end: 30 days. The bucket's lifecycle rule keeps
/// reports for the same time.
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
    /// Creates the client. The DynamoDB table `table` must have the keys `pk` and `sk`, and
    /// `expiresAt` as its TTL attribute. Reports are stored below `tests/` in the S3 bucket
    /// `bucket`.
    #[must_use]
    pub fn new(dynamodb: Client, table: String, s3: aws_sdk_s3::Client, bucket: String) -> Self {
        let objects = Objects::new(s3.clone(), bucket);
        Self { dynamodb, table, s3, objects }
    }
}

/// Returns the value of the TTL attribute for an item of a test that has not ended at `now`:
/// [`LONGEST`] plus [`RETENTION`] from then, in seconds since 1970.
fn expiry_of_open(now: Timestamp) -> AttributeValue {
    item::expiry(now, LONGEST.saturating_add(RETENTION))
}
