//! The usage table, as a run through the stream sees it. Tests have another one.

use jiff::Timestamp;
use usage::{Change, Counted, Gap, Mark, State, Targets, UsageError, UsageTable};

/// Declares a trait with these methods of the usage table, and implements the trait for the usage
/// table by calling them. Tests implement the trait in memory.
macro_rules! ledger {
    ($($(#[$doc:meta])* fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $result:ty;)+) => {
        /// Usage table as the reader of the stream uses it: usage counts, and for each shard the
        /// mark up to which its changes are counted.
        pub(crate) trait Ledger: Sync {
            $(
                $(#[$doc])*
                fn $name(
                    &self
                    $(, $argument: $type)*
                ) -> impl Future<Output = Result<$result, UsageError>> + Send;
            )+
        }

        impl Ledger for UsageTable {
            $(
                async fn $name(&self $(, $argument: $type)*) -> Result<$result, UsageError> {
                    Self::$name(self $(, $argument)*).await
                }
            )+
        }
    };
}

ledger! {
    /// Records the time at which counting began. A time that the table has already is kept.
    fn begin(&self, now: Timestamp) -> ();
    /// Returns the state that the last run recorded.
    fn state(&self) -> State;
    /// Returns the targets whose totals the table counts.
    fn targets(&self) -> Targets;
    /// Returns the marks of all known shards. A mark says up to which change a shard is counted.
    fn marks(&self) -> Vec<Mark>;
    /// Counts changes, and moves the shard's mark in the same transaction. Stops if another run has
    /// moved the mark, so that it differs from the expected one.
    fn count(&self, seen: &Mark, changes: &[Change], targets: &mut Targets) -> Counted;
    /// Records that a closed shard is counted to its end. Does nothing if another run has moved its
    /// mark, so that the mark differs from `seen`.
    fn end_shard(&self, seen: &Mark, at: Timestamp) -> Counted;
    /// Deletes the mark of a shard that the stream no longer has.
    fn forget_shard(&self, mark: &Mark) -> ();
    /// Records a gap: a time whose changes may be lost.
    fn note_gap(&self, gap: &Gap) -> ();
    /// Records that every change before `at` is counted.
    fn read_until(&self, at: Timestamp) -> ();
}
