//! Metrics of requests, read from the usage table, which has their totals since the installation.

use std::collections::BTreeMap;

use runtime::metrics::{OPERATION_BYTES, OPERATION_MESSAGES, OPERATIONS, Scrape, USAGE_READ_UNTIL};
use usage::{Coverage, Total, UsageError, UsageTable};

/// Reads the total usage counters of each operation and target, and the time up to which they are
/// complete, from the usage table.
///
/// # Errors
/// If the table cannot be read.
pub(crate) async fn counters(table: &UsageTable) -> Result<Scrape, UsageError> {
    let (totals, coverage) = tokio::try_join!(table.totals(), table.coverage())?;
    Ok(scrape(&totals, &coverage))
}

fn scrape(totals: &[Total], coverage: &Coverage) -> Scrape {
    let mut scrape = Scrape::default();
    let mut operations = BTreeMap::<_, (u64, u64)>::new();
    for total in totals {
        let (requests, failed) = operations.entry(total.operation.as_str()).or_default();
        *requests = requests.saturating_add(total.counts.requests);
        *failed = failed.saturating_add(total.counts.failed);
    }
    for (operation, (requests, failed)) in operations {
        scrape.put(OPERATIONS, &[operation, "done"], requests.saturating_sub(failed));
        scrape.put(OPERATIONS, &[operation, "failed"], failed);
    }
    for Total { operation, target, counts } in totals.iter().filter(|total| !total.target.is_empty()) {
        let labels = [operation.as_str(), target.as_str()];
        scrape.put(OPERATION_MESSAGES, &labels, counts.messages);
        scrape.put(OPERATION_BYTES, &labels, counts.bytes);
    }
    if let Some(read_until) = coverage.read_until {
        scrape.put(USAGE_READ_UNTIL, &[], read_until.as_second());
    }
    scrape
}

#[cfg(test)]
mod tests {
    use usage::Counts;

    use super::*;

    fn total(operation: &str, target: &str, requests: u64, failed: u64) -> Total {
        let counts = Counts { requests, failed, messages: 3, bytes: 40, ..Counts::default() };
        Total { operation: operation.to_owned(), target: target.to_owned(), counts }
    }

    #[test]
    fn requests_are_counted_by_operation_and_messages_by_target_too() {
        let totals =
            [total("produce", "QM:A", 5, 1), total("produce", "QM:B", 2, 2), total("ingest", "", 1, 0)];
        let read_until = Some("2026-11-27T02:31:00.5Z".parse().unwrap());
        let text = scrape(&totals, &Coverage { read_until, ..Coverage::default() }).text();
        for line in [
            "integrahub_operations_total{operation=\"produce\",outcome=\"done\"} 4",
            "integrahub_operations_total{operation=\"produce\",outcome=\"failed\"} 3",
            "integrahub_operations_total{operation=\"ingest\",outcome=\"failed\"} 0",
            "integrahub_operation_messages_total{operation=\"produce\",target=\"QM:B\"} 3",
            "integrahub_operation_bytes_total{operation=\"produce\",target=\"QM:A\"} 40",
            "integrahub_usage_read_until_timestamp_seconds 1795746660",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains("target=\"\""), "{text}");
        assert_eq!(scrape(&[], &Coverage::default()).text(), "");
    }
}
