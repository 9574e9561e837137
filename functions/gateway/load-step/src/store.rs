//! Retries of operations on the store of load tests. An invocation has time for them, and a busy
//! store is no reason to end a test.

use std::error::Error;

use attempt::Retryable as _;
use broker::{Deadline, Jitter, RetryPolicy};
use jiff::Timestamp;
use load_test::store::{TestRun, TestStore, TestStoreError};

/// Pauses between two attempts of an operation on the store, in seconds: first pause, and longest
/// pause. The pause doubles. Each attempt is up to three requests of the AWS SDK.
const PAUSES: (f64, f64) = (0.2, 3.0);

/// Repeats an operation on the store until it succeeds, until it fails with an error that no retry
/// can help, or until there is no time for another attempt before `deadline`.
///
/// # Errors
/// If no attempt succeeds; the error is that of the last one.
pub(crate) async fn insist<T>(
    deadline: Deadline,
    operation: impl AsyncFn() -> Result<T, TestStoreError>,
) -> Result<T, TestStoreError> {
    let (first, longest) = PAUSES;
    let pauses = RetryPolicy::new(first, 2.0, longest).unwrap_or_default();
    let mut pauses = pauses.with_jitter(Jitter::Half);
    loop {
        let error = match operation().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let pause = pauses.next_delay_before(deadline).filter(|_| error.retry().is_transient());
        let Some(pause) = pause else { return Err(error) };
        log(&error);
        tokio::time::sleep(pause).await;
    }
}

/// Records the reason why a load test failed. The workers read it within a second.
///
/// # Errors
/// If the store does not record the reason before `deadline`.
pub(crate) async fn fail(
    store: &TestStore,
    of: &TestRun,
    detail: &str,
    deadline: Deadline,
) -> Result<(), TestStoreError> {
    let (at, test_id) = (Timestamp::now(), of.test_id);
    tracing::warn!(event_type = "load_test.failed", detail, "the load test {test_id} fails: {detail}");
    insist(deadline, async || store.fail(&of.tenant, test_id, at, detail).await).await
}

/// Logs that an operation on the store failed, and that the invocation continues.
pub(crate) fn log(error: &TestStoreError) {
    let error: &dyn Error = error;
    tracing::warn!(
        event_type = "load_store.unavailable",
        error,
        "the store of load tests did not do its part, the step goes on: {error}"
    );
}
