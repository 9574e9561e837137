use serde::{Deserialize, Serialize};

use super::BatchStatus;

/// State of a batch's deactivation, by which products that a full load does not contain become
/// inactive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[expect(missing_docs, reason = "`deactivation` of `ProductBatch` in openapi.yaml describes the states")]
pub enum Deactivation {
    /// The batch is a delta load, which deactivates no products.
    NotApplicable,
    /// The full load has not decided yet which products it deactivates. It does so once all its
    /// chunks are done.
    Pending,
    Done {
        deactivated: u64,
        /// Reason why some of the load's CNPJs were left out of the deactivation; `None` if none
        /// was.
        #[serde(default)]
        left_out: Option<SkipReason>,
    },
    Skipped {
        reason: SkipReason,
    },
    /// The full load would deactivate so many products that a user has to confirm it first.
    Held {
        would_deactivate: u64,
        /// Number of products in other CNPJs that the load had deactivated before it was held.
        #[serde(default)]
        deactivated: u64,
    },
}

/// Reason why a full load deactivates no products, or none of some CNPJs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// A later full load contains the CNPJ, and decides about its products instead.
    LaterFullLoad,
    /// The key of an item could not be read, so any product that seems to be missing may be the
    /// product of that item.
    UnreadableKey,
    /// The load had more items in error than are recorded, so some of their keys are unknown.
    TooManyErrors,
    /// So many later batches contain the load's CNPJs that they cannot be searched, or the load was
    /// received before the start of the history of loads (the period for which batches are
    /// retained).
    TooLate,
    /// The load's CNPJs do not belong to the tenant, or did not when its items were written.
    NotOwned,
    /// The load has no valid item, which is more likely a mistake than an empty pharmacy.
    EmptyLoad,
    /// The load's payload or some of its chunks failed, or the payload was never uploaded. Its
    /// missing products may still become inactive: by a replay, or if a chunk that was given up is
    /// written after all.
    FailedLoad,
}

/// Deactivation of a batch, as the API shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "`deactivation` of `ProductBatch` in openapi.yaml describes each member")]
pub struct DeactivationReport {
    pub state: &'static str,
    pub would_deactivate: u64,
    pub reason: Option<SkipReason>,
}

impl Deactivation {
    /// Returns the state of the deactivation after a replay begins: pending again, unless the
    /// payload itself rules out a deactivation.
    #[must_use]
    pub const fn replayed(self) -> Self {
        match self {
            Self::NotApplicable
            | Self::Skipped {
                reason: SkipReason::UnreadableKey | SkipReason::TooManyErrors | SkipReason::EmptyLoad,
            } => self,
            Self::Pending
            | Self::Done { .. }
            | Self::Held { .. }
            | Self::Skipped {
                reason:
                    SkipReason::LaterFullLoad
                    | SkipReason::TooLate
                    | SkipReason::NotOwned
                    | SkipReason::FailedLoad,
            } => Self::Pending,
        }
    }

    /// Returns the state for a batch that was received before the start of the history of loads
    /// (the period for which batches are retained): a pending deactivation is skipped, any other
    /// state stays.
    #[must_use]
    pub const fn too_late(self) -> Self {
        match self {
            Self::Pending => Self::Skipped { reason: SkipReason::TooLate },
            decided => decided,
        }
    }

    /// Returns the deactivation as the API shows it for a batch with this status. A deactivation
    /// that is pending although the batch is final is shown as skipped. The number of deactivated
    /// products is among the batch's changes, not here.
    #[must_use]
    pub const fn report(self, status: BatchStatus) -> DeactivationReport {
        let (state, would_deactivate, reason) = match self {
            Self::NotApplicable => ("not_applicable", 0, None),
            Self::Pending if status.is_final() => ("skipped", 0, Some(SkipReason::FailedLoad)),
            Self::Pending => ("pending", 0, None),
            Self::Done { left_out, .. } => ("done", 0, left_out),
            Self::Skipped { reason } => ("skipped", 0, Some(reason)),
            Self::Held { would_deactivate, .. } => ("held", would_deactivate, None),
        };
        DeactivationReport { state, would_deactivate, reason }
    }
}

/// Guard against mass deactivation: the limits up to which a full load may deactivate products of
/// an establishment without a confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeactivationGuard {
    /// Maximum percentage of an establishment's active products that may be deactivated without a
    /// confirmation.
    pub percent: u8,
    /// Number of active products up to which an establishment is not guarded.
    pub small: u64,
}

impl Default for DeactivationGuard {
    fn default() -> Self {
        Self { percent: 50, small: 100 }
    }
}

impl DeactivationGuard {
    /// True if a load that would deactivate `would_deactivate` of an establishment's `active`
    /// products has to be confirmed first.
    #[must_use]
    pub fn holds(self, active: u64, would_deactivate: u64) -> bool {
        let share = u128::from(would_deactivate) * 100;
        active > self.small && share > u128::from(active) * u128::from(self.percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_half_of_more_than_a_hundred_is_held() {
        let guard = DeactivationGuard::default();
        for (active, would_deactivate, holds) in [
            (100, 100, false),
            (101, 50, false),
            (101, 51, true),
            (5000, 2500, false),
            (5000, 2501, true),
            (0, 0, false),
            (u64::MAX, u64::MAX, true),
        ] {
            assert_eq!(guard.holds(active, would_deactivate), holds, "{would_deactivate} of {active}");
        }
    }

    #[test]
    fn only_a_batch_under_way_has_a_pending_deactivation() {
        for status in BatchStatus::ALL {
            let report = Deactivation::Pending.report(status);
            let expected =
                if status.is_final() { ("skipped", Some(SkipReason::FailedLoad)) } else { ("pending", None) };
            assert_eq!((report.state, report.reason), expected, "{status}");
        }
    }

    #[test]
    fn the_states_are_shown_as_in_the_contract() {
        for (deactivation, state, would_deactivate, reason) in [
            (Deactivation::NotApplicable, "not_applicable", 0, None),
            (Deactivation::Pending, "skipped", 0, Some("failed_load")),
            (Deactivation::Done { deactivated: 3, left_out: None }, "done", 0, None),
            (
                Deactivation::Done { deactivated: 3, left_out: Some(SkipReason::TooLate) },
                "done",
                0,
                Some("too_late"),
            ),
            (Deactivation::Held { would_deactivate: 7, deactivated: 2 }, "held", 7, None),
            (
                Deactivation::Skipped { reason: SkipReason::LaterFullLoad },
                "skipped",
                0,
                Some("later_full_load"),
            ),
            (Deactivation::Skipped { reason: SkipReason::NotOwned }, "skipped", 0, Some("not_owned")),
        ] {
            assert_eq!(
                serde_json::to_value(deactivation.report(BatchStatus::PartialFail)).unwrap(),
                serde_json::json!({"state": state, "would_deactivate": would_deactivate, "reason": reason})
            );
            // Stored, it comes back as it was.
            let stored = serde_json::to_string(&deactivation).unwrap();
            assert_eq!(serde_json::from_str::<Deactivation>(&stored).unwrap(), deactivation);
        }
    }
}
