use runtime::metrics::{self, Metric};
use serde::Serialize;
use serde_json::Map;

/// Results of a run: the function's response, and its metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub objects: ObjectsReport,
    pub batches: BatchesReport,
    pub uploads: UploadsReport,
    pub drops: DropsReport,
    pub history: HistoryReport,
    pub events: EventsReport,
}

/// Counts of payloads that never became batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ObjectsReport {
    pub seen: u64,
    /// Payloads whose notification was sent again.
    pub found: u64,
    /// Payloads whose notification was sent not long ago.
    pub waiting: u64,
    /// Objects that are not payloads, or whose batch was never accepted.
    pub foreign: u64,
}

/// Counts of a reconciliation's stalled batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BatchesReport {
    /// Number of stalled batches that were restarted.
    pub restarted: u64,
    pub finalized: u64,
    /// Number of final batches whose objects were released.
    pub released: u64,
    /// Batches that were restarted in vain for too long; `None` if the database did not answer.
    pub stuck: Option<u64>,
    /// Minutes that the oldest chunk has been waiting to be written; `None` if the database did not
    /// answer.
    pub chunks_behind_minutes: Option<u64>,
}

/// Counts of uploads whose time has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UploadsReport {
    /// Number of announced uploads that were never used.
    pub expired: u64,
    /// Uploads that were used, and whose notification was sent again.
    pub found: u64,
    /// Uploads that were used and that the database knows.
    pub arrived: u64,
}

/// Counts of the dropped objects that a reconciliation checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DropsReport {
    pub seen: u64,
    /// Objects that were neither accepted nor refused, and whose notification was sent again.
    pub found: u64,
}

/// Counts of batches that are older than the history of loads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HistoryReport {
    /// Number of batches in progress that were ended because they are too old.
    pub too_old: u64,
    /// Number of batches, older than the history of loads, that were deleted.
    pub batches_pruned: u64,
    /// Rows of all tables that were deleted.
    pub rows_pruned: u64,
    /// Minutes that the next batch has been waiting to be deleted; `None` if the database did not
    /// answer.
    pub behind_minutes: Option<u64>,
}

/// Counts of events that were not published when their facts were committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EventsReport {
    /// Number of outbox events that this run published.
    pub published: u64,
    /// Events that the bus or the topic refused, although it took others.
    pub refused: u64,
    /// Minutes that the oldest event has been waiting; `None` if the database did not answer, or if
    /// events have no destination.
    pub behind_minutes: Option<u64>,
}

impl Report {
    /// Writes the metrics.
    pub(crate) fn measure(&self, failures: usize) {
        metrics::measure(crate::SERVICE, &self.measures(failures), Map::new());
    }

    /// Returns the metrics: present numbers, whose zero ends alarms, and counts of the work done. A
    /// count of zero is left out: CloudWatch charges for each metric that has a value.
    fn measures(&self, failures: usize) -> Vec<(Metric, u64)> {
        let failures = u64::try_from(failures).unwrap_or(u64::MAX);
        let counted = [
            (metrics::OBJECTS_FOUND, self.objects.found),
            (metrics::OBJECTS_FOREIGN, self.objects.foreign),
            (metrics::BATCHES_RESTARTED, self.batches.restarted),
            (metrics::BATCHES_FINALIZED, self.batches.finalized),
            (metrics::BATCHES_RELEASED, self.batches.released),
            (metrics::UPLOADS_EXPIRED, self.uploads.expired),
            (metrics::UPLOADS_FOUND, self.uploads.found),
            (metrics::DROPS_FOUND, self.drops.found),
            (metrics::BATCHES_TOO_OLD, self.history.too_old),
            (metrics::BATCHES_PRUNED, self.history.batches_pruned),
            (metrics::ROWS_PRUNED, self.history.rows_pruned),
            (metrics::EVENTS_REPUBLISHED, self.events.published),
            (metrics::RECONCILE_FAILURES, failures),
        ];
        // An unknown number must not end an alarm.
        let stuck = self.batches.stuck.map(|stuck| (metrics::BATCHES_STUCK, stuck));
        let chunks = self.batches.chunks_behind_minutes.map(|minutes| (metrics::OLDEST_CHUNK_AGE, minutes));
        let behind = self.history.behind_minutes.map(|minutes| (metrics::PRUNING_BEHIND, minutes));
        let events = self.events.behind_minutes.map(|minutes| (metrics::EVENTS_BEHIND, minutes));
        let counted = counted.into_iter().filter(|(_, count)| *count > 0);
        counted.chain(stuck).chain(chunks).chain(behind).chain(events).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_does_nothing_emits_the_numbers_as_of_now_and_no_counts() {
        let batches =
            BatchesReport { stuck: Some(0), chunks_behind_minutes: Some(0), ..BatchesReport::default() };
        let report = Report { batches, ..Report::default() };
        assert_eq!(report.measures(0), [(metrics::BATCHES_STUCK, 0), (metrics::OLDEST_CHUNK_AGE, 0)]);
        let uploads = UploadsReport { found: 2, ..UploadsReport::default() };
        let measures = Report { uploads, ..Report::default() }.measures(1);
        assert_eq!(measures, [(metrics::UPLOADS_FOUND, 2), (metrics::RECONCILE_FAILURES, 1)]);
    }
}
