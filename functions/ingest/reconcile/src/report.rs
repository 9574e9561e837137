use runtime::metrics;
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

/// Counts of stalled batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BatchesReport {
    /// Batches that were restarted.
    pub restarted: u64,
    pub finalized: u64,
    /// Final batches whose objects were released.
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
    /// Uploads that were never used.
    pub expired: u64,
    /// Uploads that were used, and whose notification was sent again.
    pub found: u64,
    /// Uploads that were used and that the database knows.
    pub arrived: u64,
}

/// Counts of dropped objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DropsReport {
    pub seen: u64,
    /// Objects that were neither accepted nor refused, and whose notification was sent again.
    pub found: u64,
}

/// Counts of batches that are older than the history of loads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HistoryReport {
    /// Batches that were ended in progress.
    pub too_old: u64,
    /// Batches that were deleted.
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
    /// Events that this run published.
    pub published: u64,
    /// Events that the bus or the topic refused, although it took others.
    pub refused: u64,
    /// Minutes that the oldest event has been waiting; `None` if the database did not answer, or if
    /// events have no destination.
    pub behind_minutes: Option<u64>,
}

impl Report {
    /// Writes the metrics, zeros too.
    pub(crate) fn measure(&self, failures: usize) {
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
        let measures: Vec<_> =
            counted.into_iter().chain(stuck).chain(chunks).chain(behind).chain(events).collect();
        metrics::measure(crate::SERVICE, &measures, Map::new());
    }
}
