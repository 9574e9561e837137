//! Usage table as the reader of the stream uses it: a trait, so that tests can have a table in
//! memory.

use jiff::Timestamp;
use usage::{Change, Gap, MeteringState, PositionUpdate, ShardPosition, Targets, UsageError, UsageTable};

/// Declares the trait `CountingTable` with these methods of the usage table, and implements it for
/// the usage table by calling the methods of the same names. Tests implement it in memory.
macro_rules! counting_table {
    ($($(#[$doc:meta])* fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $result:ty;)+) => {
        /// Usage table as the reader of the stream uses it. It has the usage counters and, for each
        /// shard, the position up to which the shard's changes are counted.
        pub(crate) trait CountingTable: Sync {
            $(
                $(#[$doc])*
                fn $name(
                    &self
                    $(, $argument: $type)*
                ) -> impl Future<Output = Result<$result, UsageError>> + Send;
            )+
        }

        impl CountingTable for UsageTable {
            $(
                async fn $name(&self $(, $argument: $type)*) -> Result<$result, UsageError> {
                    Self::$name(self $(, $argument)*).await
                }
            )+
        }
    };
}

counting_table! {
    /// Records `now` as the time at which counting began, unless the table has an earlier time.
    fn begin(&self, now: Timestamp) -> ();
    /// Returns the state of counting that earlier invocations recorded.
    fn state(&self) -> MeteringState;
    /// Returns the operations and targets that have totals of their own in the table.
    fn targets(&self) -> Targets;
    /// Returns the positions of all known shards, up to which their changes are counted.
    fn positions(&self) -> Vec<ShardPosition>;
    /// Counts changes of a shard, and moves the shard's position in the same transactions. New
    /// targets that get totals of their own are added to `targets`. Stops if the position is not
    /// `seen`, because another invocation has moved it.
    fn count(&self, seen: &ShardPosition, changes: &[Change], targets: &mut Targets) -> PositionUpdate;
    /// Records that a closed shard is counted to its end, by a reading of the stream that began at
    /// `at`. Does nothing if the shard's position is not `seen`, because another invocation has
    /// moved it.
    fn end_shard(&self, seen: &ShardPosition, at: Timestamp) -> PositionUpdate;
    /// Deletes the position of a shard that the stream no longer has.
    fn forget_shard(&self, position: &ShardPosition) -> ();
    /// Records a gap: a period in which changes may have been lost uncounted.
    fn note_gap(&self, gap: &Gap) -> ();
    /// Records that every change of the stream before `at` is counted.
    fn read_until(&self, at: Timestamp) -> ();
}
