//! The usage table, as a run through the stream sees it. Tests have another one.

use jiff::Timestamp;
use usage::{Change, Counted, Gap, Mark, State, Targets, UsageError, UsageTable};

/// Counters, and the marks of the shards whose changes they hold.
pub(crate) trait Ledger: Sync {
    /// Notes that counting began, unless it began before.
    fn begin(&self, now: Timestamp) -> impl Future<Output = Result<(), UsageError>> + Send;

    /// Returns the notes of the last run.
    fn state(&self) -> impl Future<Output = Result<State, UsageError>> + Send;

    /// Returns the targets that have totals.
    fn targets(&self) -> impl Future<Output = Result<Targets, UsageError>> + Send;

    /// Returns the marks of all shards that are known.
    fn marks(&self) -> impl Future<Output = Result<Vec<Mark>, UsageError>> + Send;

    /// Counts changes after the mark that was seen, unless another run has moved it.
    fn count(
        &self,
        seen: &Mark,
        changes: &[Change],
        targets: &mut Targets,
    ) -> impl Future<Output = Result<Counted, UsageError>> + Send;

    /// Notes that a closed shard is counted to its end.
    fn end_shard(
        &self,
        seen: &Mark,
        at: Timestamp,
    ) -> impl Future<Output = Result<Counted, UsageError>> + Send;

    /// Deletes the mark of a shard that the stream does not have any more.
    fn forget_shard(&self, mark: &Mark) -> impl Future<Output = Result<(), UsageError>> + Send;

    /// Notes a gap.
    fn note_gap(&self, gap: &Gap) -> impl Future<Output = Result<(), UsageError>> + Send;

    /// Notes that every change before `at` is counted.
    fn read_until(&self, at: Timestamp) -> impl Future<Output = Result<(), UsageError>> + Send;
}

impl Ledger for UsageTable {
    async fn begin(&self, now: Timestamp) -> Result<(), UsageError> {
        Self::begin(self, now).await
    }

    async fn state(&self) -> Result<State, UsageError> {
        Self::state(self).await
    }

    async fn targets(&self) -> Result<Targets, UsageError> {
        Self::targets(self).await
    }

    async fn marks(&self) -> Result<Vec<Mark>, UsageError> {
        Self::marks(self).await
    }

    async fn count(
        &self,
        seen: &Mark,
        changes: &[Change],
        targets: &mut Targets,
    ) -> Result<Counted, UsageError> {
        Self::count(self, seen, changes, targets).await
    }

    async fn end_shard(&self, seen: &Mark, at: Timestamp) -> Result<Counted, UsageError> {
        Self::end_shard(self, seen, at).await
    }

    async fn forget_shard(&self, mark: &Mark) -> Result<(), UsageError> {
        Self::forget_shard(self, mark).await
    }

    async fn note_gap(&self, gap: &Gap) -> Result<(), UsageError> {
        Self::note_gap(self, gap).await
    }

    async fn read_until(&self, at: Timestamp) -> Result<(), UsageError> {
        Self::read_until(self, at).await
    }
}
