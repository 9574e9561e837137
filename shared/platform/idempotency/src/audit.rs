//! Audit events of idempotency records, for logs and metrics.

use std::fmt::Debug;

use crate::claim::ClaimRequest;
use crate::execution::Execution;

/// Event in the life of an idempotency record, for the audit trail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditEvent {
    /// A new record was created, and the request is executed.
    Claimed,
    /// Request taken over: its last attempt failed or outlived its lease (the time in which no
    /// other may start), and a new attempt begins.
    TakenOver,
    /// Stored response returned, labelled as in doubt: an attempt stored it and then outlived its
    /// lease, so it is unknown whether the work took effect.
    AnsweredInDoubt,
    /// The caller got the stored response of a completed record.
    Replayed,
    /// The request was refused: the key was used with another body, or by a caller with other
    /// rights.
    Conflict,
    /// The request was refused: the tenant reused idempotency keys with other bodies or rights more
    /// often than [`ReuseLimits`](crate::ReuseLimits) allow.
    ReusedTooOften,
    /// The request was refused, because the same request is being executed.
    InProgress,
    /// A write was refused and changed nothing, because another execution owns the record now.
    Fenced,
    /// A record is malformed, or a stored response is missing or altered.
    Unreadable,
}

impl AuditEvent {
    /// Returns the name of the audit event in logs.
    #[must_use]
    pub const fn event_type(self) -> &'static str {
        match self {
            Self::Claimed => "idempotency.claimed",
            Self::TakenOver => "idempotency.taken_over",
            Self::AnsweredInDoubt => "idempotency.answered_in_doubt",
            Self::Replayed => "idempotency.replayed",
            Self::Conflict => "idempotency.conflict",
            Self::ReusedTooOften => "idempotency.reused_too_often",
            Self::InProgress => "idempotency.in_progress",
            Self::Fenced => "idempotency.fenced",
            Self::Unreadable => "idempotency.unreadable",
        }
    }

    /// True if an operator should investigate the event.
    #[must_use]
    pub const fn is_alarming(self) -> bool {
        matches!(self, Self::Conflict | Self::ReusedTooOften | Self::Fenced | Self::Unreadable)
    }
}

/// Entry of the audit trail about one event of an idempotency record. It identifies the request,
/// and never contains its body.
#[derive(Clone, Copy, Debug)]
pub struct AuditEntry<'a> {
    /// Kind of event that the entry reports.
    pub event: AuditEvent,
    /// Type of the requested work, such as `PRODUCE`.
    pub operation: &'a str,
    /// Id of the tenant that sent the request.
    pub tenant: &'a str,
    /// Idempotency key of the request, in canonical spelling.
    pub idempotency_key: &'a str,
    /// Target of the requested work, such as a queue as `<queueManager>:<queue>`; may be empty.
    pub target: &'a str,
    /// Trace id of the request that caused the event. The execution that owns the record may have
    /// another trace id.
    pub trace_id: &'a str,
    /// Number of the attempt (execution of the request) that caused the event, from 1; `None` if
    /// the request was granted no attempt.
    pub attempt: Option<u32>,
}

impl<'a> AuditEntry<'a> {
    pub(crate) fn of_request(event: AuditEvent, request: &ClaimRequest<'a>) -> Self {
        Self {
            event,
            operation: request.operation.as_str(),
            tenant: request.tenant,
            idempotency_key: request.key.as_str(),
            target: request.target,
            trace_id: request.trace_id,
            attempt: None,
        }
    }

    pub(crate) fn of_execution(event: AuditEvent, execution: &'a Execution) -> Self {
        Self {
            event,
            operation: &execution.operation,
            tenant: &execution.tenant,
            idempotency_key: &execution.idempotency_key,
            target: &execution.target,
            trace_id: &execution.trace_id,
            attempt: Some(execution.attempt),
        }
    }

    /// Writes the entry as a structured log event.
    pub fn log(&self) {
        let Self { event, operation, tenant, idempotency_key, target, trace_id, attempt } = *self;
        let event_type = event.event_type();
        let mq_target = (!target.is_empty()).then_some(target);
        macro_rules! entry {
            ($level:ident) => {
                tracing::$level!(
                    event_type,
                    operation,
                    tenant,
                    idempotency_key,
                    mq_target,
                    trace_id,
                    attempt,
                    "{operation} {idempotency_key}: {event_type}"
                )
            };
        }
        if event.is_alarming() {
            entry!(warn);
        } else {
            entry!(info);
        }
    }
}

/// Receiver of the audit events of idempotency records, for logs and metrics.
pub trait Audit: Debug + Send + Sync {
    /// Receives an entry of the audit trail. A request waits for the call, so it must neither block
    /// nor fail.
    fn note(&self, entry: &AuditEntry<'_>);
}

/// Audit receiver that writes each entry to the log.
#[derive(Clone, Copy, Debug)]
pub struct Log;

impl Audit for Log {
    fn note(&self, entry: &AuditEntry<'_>) {
        entry.log();
    }
}
