//! What happens to records, in the log and as metrics.

use idempotency::{Audit, AuditEntry, Happening};
use serde_json::{Map, Value};
use telemetry::metrics;

/// Logs and counts for a function.
#[derive(Clone, Copy, Debug)]
pub struct AuditTrail {
    /// The function's name, as metrics show it.
    pub service: &'static str,
}

impl Audit for AuditTrail {
    fn note(&self, entry: &AuditEntry<'_>) {
        entry.log();
        let properties = [
            ("operation", entry.operation.as_str()),
            ("tenant", entry.tenant),
            ("idempotency_key", entry.idempotency_key),
            ("mq_target", entry.target),
            ("trace_id", entry.trace_id),
        ];
        let properties: Map<_, _> =
            properties.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
        metrics::count(self.service, &[metric(entry.happening)], properties);
    }
}

const fn metric(happening: Happening) -> &'static str {
    match happening {
        Happening::Claimed => metrics::IDEMPOTENCY_CLAIMS,
        Happening::TakenOver => metrics::IDEMPOTENCY_TAKEOVERS,
        Happening::AnsweredInDoubt => metrics::IDEMPOTENCY_IN_DOUBT,
        Happening::Replayed => metrics::IDEMPOTENT_REPLAYS,
        Happening::Conflict => metrics::IDEMPOTENCY_CONFLICTS,
        Happening::ReusedTooOften => metrics::IDEMPOTENCY_KEY_REUSE_ABUSE,
        Happening::InProgress => metrics::IDEMPOTENCY_IN_PROGRESS,
        Happening::Fenced => metrics::IDEMPOTENCY_FENCED,
        Happening::Unreadable => metrics::IDEMPOTENCY_UNREADABLE,
    }
}
