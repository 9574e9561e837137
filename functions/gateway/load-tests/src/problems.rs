//! Problem responses of this function.

use std::error::Error;

use api::{Problem, Reason};
use load_test::store::{EngineError, TestStoreError};

/// Returns the problem for a load test that does not exist. A test of another tenant gets the same
/// problem.
pub(crate) fn not_found() -> Problem {
    Problem::new(Reason::TestNotFound, "the tenant has no test of this id, or not any more")
}

/// Builds the problem for a failure of the DynamoDB table or the S3 bucket of load tests: it does
/// not respond, or holds malformed data.
pub(crate) fn from_store(error: &TestStoreError) -> Problem {
    unavailable(error, "what is known of load tests cannot be read or written now")
}

/// Builds the problem for a load test whose execution could not be started. A retry with the same
/// idempotency key starts the execution of the same test.
pub(crate) fn from_engine(error: &EngineError) -> Problem {
    unavailable(error, "the test could not be started; send it again with the same key")
}

fn unavailable(error: &(dyn Error + 'static), detail: &str) -> Problem {
    tracing::error!(event_type = "load_tests.store_unavailable", error, "{detail}: {error}");
    Problem::new(Reason::StoreUnavailable, detail)
}
