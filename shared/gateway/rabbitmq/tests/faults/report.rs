//! Observations, as rows of a table in the form of `docs/measurements`.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use mq::BrokerError;

use crate::log;

/// Time that an operation may take beyond its deadline, on a busy machine.
const MARGIN: Duration = Duration::from_millis(1000);

static ROWS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Records the effect of `fault` on `operation`.
pub(crate) fn row(fault: &str, operation: &str, seen: &str, took: Duration, on_queue: &str) {
    add(format!("| {fault} | {operation} | {seen} | {:.0} ms | {on_queue} |", took.as_secs_f64() * 1e3));
}

pub(crate) fn add(row: String) {
    ROWS.lock().unwrap().push(row);
}

pub(crate) fn rows() -> Vec<String> {
    ROWS.lock().unwrap().clone()
}

/// Name of the error's variant. The error's text is added to the log, to be searched for secrets.
pub(crate) fn kind(error: &BrokerError) -> &'static str {
    log::note(&format!("{error:?} {error}"));
    match error {
        BrokerError::QueueNotFound { .. } => "QueueNotFound",
        BrokerError::ExchangeNotFound { .. } => "ExchangeNotFound",
        BrokerError::Unroutable { .. } => "Unroutable",
        BrokerError::AuthenticationFailed { .. } => "AuthenticationFailed",
        BrokerError::Rejected { .. } => "Rejected",
        BrokerError::QueueFull { .. } => "QueueFull",
        BrokerError::Unreachable { .. } => "Unreachable",
        BrokerError::Timeout { .. } => "Timeout",
        BrokerError::InDoubt { .. } => "InDoubt",
        BrokerError::Unsupported { .. } => "Unsupported",
        BrokerError::MessageTooLarge { .. } => "MessageTooLarge",
        BrokerError::AddressRefused { .. } => "AddressRefused",
        BrokerError::PoolTimeout { .. } => "PoolTimeout",
    }
}

pub(crate) fn outcome<T>(result: &Result<T, BrokerError>) -> &'static str {
    result.as_ref().map_or_else(kind, |_| "ok")
}

/// Runs an operation, and fails if it takes longer than its deadline.
pub(crate) async fn timed<T>(
    deadline: broker::Deadline,
    operation: impl Future<Output = T>,
) -> (T, Duration) {
    let started = Instant::now();
    let limit = deadline.remaining() + MARGIN;
    let result = operation.await;
    let took = started.elapsed();
    assert!(took <= limit, "it took {took:?}, longer than {limit:?}");
    (result, took)
}
