//! What was seen, as rows of a table in the form of `docs/measurements`.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use mq::BrokerError;

use crate::log;

/// What an operation may take beyond its deadline, on a machine that does other things too.
const MARGIN: Duration = Duration::from_millis(1000);

static ROWS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Notes what `fault` did to `operation`.
pub(crate) fn row(fault: &str, operation: &str, seen: &str, took: Duration, on_queue: &str) {
    add(format!("| {fault} | {operation} | {seen} | {:.0} ms | {on_queue} |", took.as_secs_f64() * 1e3));
}

pub(crate) fn add(row: String) {
    ROWS.lock().unwrap().push(row);
}

pub(crate) fn rows() -> Vec<String> {
    ROWS.lock().unwrap().clone()
}

/// The variant's name. What the error says is searched for secrets with the log.
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
        BrokerError::PoolTimeout { .. } => "PoolTimeout",
    }
}

pub(crate) fn outcome<T>(result: &Result<T, BrokerError>) -> &'static str {
    result.as_ref().map_or_else(kind, |_| "ok")
}

/// Runs an operation, and fails where it takes longer than its deadline.
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
