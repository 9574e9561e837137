//! The usage table, as a run through the stream sees it. Tests have another one.

use jiff::Timestamp;
use usage::{Change, Counted, Gap, Mark, State, Targets, UsageError, UsageTable};

/// Declares methods of the table as those of a trait.
macro_rules! ledger {
    ($($(#[$doc:meta])* fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $result:ty;)+) => {
        /// Counters, and the marks of the shards whose changes they hold.
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
    /// Notes that counting began, unless it began before.
    fn begin(&self, now: Timestamp) -> ();
    /// Returns the notes of the last run.
    fn state(&self) -> State;
    /// Returns the targets that have totals of their own.
    fn targets(&self) -> Targets;
    /// Returns the marks of all shards that are known.
    fn marks(&self) -> Vec<Mark>;
    /// Counts changes after the mark that was seen, unless another run has moved it.
    fn count(&self, seen: &Mark, changes: &[Change], targets: &mut Targets) -> Counted;
    /// Notes that a closed shard is counted to its end.
    fn end_shard(&self, seen: &Mark, at: Timestamp) -> Counted;
    /// Deletes the mark of a shard that the stream does not have any more.
    fn forget_shard(&self, mark: &Mark) -> ();
    /// Notes a gap.
    fn note_gap(&self, gap: &Gap) -> ();
    /// Notes that every change before `at` is counted.
    fn read_until(&self, at: Timestamp) -> ();
}
