use serde::Serialize;
use serde_json::Map;
use telemetry::metrics::{self, Measure};

/// What a run found: its answer, and its metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Report {
    pub objects: ObjectsReport,
    pub batches: BatchesReport,
    pub uploads: UploadsReport,
    pub history: HistoryReport,
}

/// Payloads of which no batch came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ObjectsReport {
    pub seen: u64,
    /// Told again.
    pub found: u64,
    /// Told not long ago.
    pub waiting: u64,
    /// No payloads, or none that was ever accepted.
    pub foreign: u64,
}

/// Batches that stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct BatchesReport {
    pub set_going: u64,
    pub finalized: u64,
    /// At their end, whose objects may expire now.
    pub let_go: u64,
    /// Past the time for which a batch is set going; nothing where that was not found out.
    pub stuck: Option<u64>,
}

/// Uploads whose time was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct UploadsReport {
    /// Never used.
    pub expired: u64,
    /// There, and told again.
    pub found: u64,
    /// There, and worked on.
    pub arrived: u64,
}

/// Batches that are older than the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct HistoryReport {
    /// Were under way, and were ended.
    pub too_old: u64,
    /// Deleted.
    pub batches_pruned: u64,
    /// Deleted, of all tables.
    pub rows_pruned: u64,
    /// How long the next batch to be deleted has been waiting for that; nothing where that was not found out.
    pub behind_minutes: Option<u64>,
}

impl Report {
    /// Writes all of it down as metrics, zeros too.
    pub(crate) fn measure(&self, failures: usize) {
        let failures = u64::try_from(failures).unwrap_or(u64::MAX);
        let counted = [
            (metrics::OBJECTS_FOUND, self.objects.found),
            (metrics::OBJECTS_FOREIGN, self.objects.foreign),
            (metrics::BATCHES_SET_GOING, self.batches.set_going),
            (metrics::BATCHES_FINALIZED, self.batches.finalized),
            (metrics::BATCHES_LET_GO, self.batches.let_go),
            (metrics::UPLOADS_EXPIRED, self.uploads.expired),
            (metrics::UPLOADS_FOUND, self.uploads.found),
            (metrics::BATCHES_TOO_OLD, self.history.too_old),
            (metrics::BATCHES_PRUNED, self.history.batches_pruned),
            (metrics::ROWS_PRUNED, self.history.rows_pruned),
            (metrics::RECONCILE_FAILURES, failures),
        ];
        // What is not known must not look like an end of the alarm.
        let stuck = self.batches.stuck.map(|stuck| (metrics::BATCHES_STUCK, stuck));
        let behind = self.history.behind_minutes.map(|minutes| (metrics::PRUNING_BEHIND, minutes));
        let measures: Vec<_> = counted
            .into_iter()
            .chain(stuck)
            .chain(behind)
            .map(|(name, value)| (name, Measure::Count(value)))
            .collect();
        metrics::measure(crate::SERVICE, &measures, Map::new());
    }
}
