//! Audit receiver that writes the events of idempotency records to the log and to metrics.

use crate::{Audit, AuditEntry, AuditEvent};
use runtime::metrics::{self, Metric};
use serde_json::{Map, Value};

/// Audit receiver that logs each entry, and counts it in a metric of the function `service`.
#[derive(Clone, Copy, Debug)]
pub struct AuditTrail {
    /// Name of the function, for the metric's dimension `service`.
    pub service: &'static str,
}

impl Audit for AuditTrail {
    fn note(&self, entry: &AuditEntry<'_>) {
        entry.log();
        let properties = [
            ("operation", entry.operation),
            ("tenant", entry.tenant),
            ("idempotency_key", entry.idempotency_key),
            ("mq_target", entry.target),
            ("trace_id", entry.trace_id),
        ];
        let properties: Map<_, _> =
            properties.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
        metrics::count(self.service, &[metric(entry.event)], properties);
    }
}

const fn metric(event: AuditEvent) -> Metric {
    match event {
        AuditEvent::Claimed => metrics::IDEMPOTENCY_CLAIMS,
        AuditEvent::TakenOver => metrics::IDEMPOTENCY_TAKEOVERS,
        AuditEvent::AnsweredInDoubt => metrics::IDEMPOTENCY_IN_DOUBT,
        AuditEvent::Replayed => metrics::IDEMPOTENT_REPLAYS,
        AuditEvent::Conflict => metrics::IDEMPOTENCY_CONFLICTS,
        AuditEvent::ReusedTooOften => metrics::IDEMPOTENCY_KEY_REUSE_ABUSE,
        AuditEvent::InProgress => metrics::IDEMPOTENCY_IN_PROGRESS,
        AuditEvent::Fenced => metrics::IDEMPOTENCY_FENCED,
        AuditEvent::Unreadable => metrics::IDEMPOTENCY_UNREADABLE,
    }
}
