//! The usage table, as a run through the stream sees it. Tests have another one.

use jiff::Timestamp;
use usage::{Change, Counted, Gap, Mark, State, Targets, UsageError, UsageTable};

/// Declares methods of the usage table also as those of a trait.
macro_rules! ledger {
    ($($(#[$doc:meta])* fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $result:ty;)+) => {
        /// Usage counters, and the marks up to which the shards are counted.
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
    /// Records when counting began, unless that is recorded already.
    fn begin(&self, now: Timestamp) -> ();
    /// Returns the state that the last run recorded.
    fn state(&self) -> State;
    /// Returns the targets that have totals.
    fn targets(&self) -> Targets;
    /// Returns the marks of all known shards.
    fn marks(&self) -> Vec<Mark>;
    /// Counts changes after the mark that was seen, unless another run has moved it.
    fn count(&self, seen: &Mark, changes: &[Change], targets: &mut Targets) -> Counted;
    /// Records that a closed shard is counted to its end.
    fn end_shard(&self, seen: &Mark, at: Timestamp) -> Counted;
    /// Deletes the mark of a shard that the stream does not have any more.
    fn forget_shard(&self, mark: &Mark) -> ();
    /// Records a gap in the stream.
    fn note_gap(&self, gap: &Gap) -> ();
    /// Records that every change before `at` is counted.
    fn read_until(&self, at: Timestamp) -> ();
}
