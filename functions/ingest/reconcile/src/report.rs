use runtime::metrics::{self, Metric};
use serde::Serialize;
use serde_json::Map;

/// Results of a reconciliation run, by check: the function's response, and the source of its
/// metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub objects: ObjectsReport,
    pub batches: BatchesReport,
    pub uploads: UploadsReport,
    pub drops: DropsReport,
    pub history: HistoryReport,
    pub events: EventsReport,
}

/// Counts from the check for payloads that never became batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ObjectsReport {
    pub seen: u64,
    /// Number of payloads whose notification was sent again.
    pub found: u64,
    /// Number of payloads whose notification was sent recently, and not repeated.
    pub waiting: u64,
    /// Number of objects that are not payloads, or whose batch was never accepted.
    pub foreign: u64,
}

/// Counts from the checks for stalled batches, for batches that were not finalized, and for final
/// batches whose objects were not tagged for expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BatchesReport {
    /// Number of stalled batches that were restarted.
    pub restarted: u64,
    pub finalized: u64,
    /// Number of final batches whose objects were tagged for expiry.
    pub released: u64,
    /// Number of stalled batches that are too old to be restarted again; `None` if the database did
    /// not respond.
    pub stuck: Option<u64>,
    /// Minutes for which the oldest unwritten chunk has been waiting; `None` if the database did
    /// not respond.
    pub chunks_behind_minutes: Option<u64>,
}

/// Counts from the check for uploads whose URL has expired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UploadsReport {
    /// Number of announced uploads that were never used.
    pub expired: u64,
    /// Number of uploads whose payload arrived and whose notification was sent again.
    pub found: u64,
    /// Number of uploads whose batch is in the database.
    pub arrived: u64,
}

/// Counts from the check for dropped objects that were neither accepted nor refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DropsReport {
    pub seen: u64,
    /// Number of dropped objects, neither accepted nor refused, whose notification was sent again.
    pub found: u64,
}

/// Counts from the check for batches older than the history of loads (the period for which batches
/// are retained).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HistoryReport {
    /// Number of batches in progress that were ended because they were too old.
    pub too_old: u64,
    /// Number of batches that were deleted because they were older than the history of loads (the
    /// period for which batches are retained).
    pub batches_pruned: u64,
    /// Number of rows that were deleted, in all tables.
    pub rows_pruned: u64,
    /// Minutes by which the next batch to be deleted has exceeded its retention; `None` if the
    /// database did not respond.
    pub behind_minutes: Option<u64>,
}

/// Counts from the check for events still in the outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EventsReport {
    /// Number of outbox events that this run published.
    pub published: u64,
    /// Number of events that the bus or the topic refused while it accepted others.
    pub refused: u64,
    /// Age in minutes of the oldest unpublished event; `None` if the database did not respond, or
    /// events have no destination.
    pub behind_minutes: Option<u64>,
}

impl Report {
    /// Writes the run's metrics. `failures` is the number of failed checks.
    pub(crate) fn measure(&self, failures: usize) {
        metrics::measure(crate::SERVICE, &self.measures(failures), Map::new());
    }

    /// Returns the run's metrics: current numbers, whose 0 ends an alarm, and counts of work done.
    /// A count of 0 is omitted, because CloudWatch charges for each metric that has a value.
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
