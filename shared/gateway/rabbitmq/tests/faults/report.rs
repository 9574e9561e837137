//! Report of the faults: one row for each operation, in the form of the tables in
//! `docs/measurements`.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use mq::BrokerError;

use crate::log;

/// Time by which an operation may exceed its deadline, since the machine may be busy.
const MARGIN: Duration = Duration::from_millis(1000);

static ROWS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Adds a row to the report: `operation` during `fault` had the result `seen` after `took`, and
/// left the messages `on_queue`.
pub(crate) fn row(fault: &str, operation: &str, seen: &str, took: Duration, on_queue: &str) {
    add(format!("| {fault} | {operation} | {seen} | {:.0} ms | {on_queue} |", took.as_secs_f64() * 1e3));
}

pub(crate) fn add(row: String) {
    ROWS.lock().unwrap().push(row);
}

pub(crate) fn rows() -> Vec<String> {
    ROWS.lock().unwrap().clone()
}

/// Returns the name of the error's variant. Adds the error's text to the log that is searched for
/// secrets.
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

/// Runs an operation, and returns its result and duration. Panics if it exceeds its deadline by
/// more than [`MARGIN`].
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
