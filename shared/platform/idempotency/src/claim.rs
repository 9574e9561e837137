//! Claims of idempotency keys, and their possible results.

use std::time::Duration;

use api::Reply;
use api::idempotency_key::{Fingerprint, IdempotencyKey};
use jiff::Timestamp;

use crate::execution::Execution;
use crate::operation::OperationType;

/// Request for the right to execute work under an idempotency key.
#[derive(Clone, Debug)]
pub struct ClaimRequest<'a> {
    /// Type of the work. Each type has its own key space, unless it uses the key space of another
    /// type ([`with_keys_of`](OperationType::with_keys_of)).
    pub operation: OperationType,
    /// Tenant of the request, without `#`. Each tenant has its own keys.
    pub tenant: &'a str,
    /// Idempotency key that the client sent.
    pub key: &'a IdempotencyKey,
    /// Fingerprint of the request's body. A request with another fingerprint under the same key is
    /// a conflict.
    pub fingerprint: &'a Fingerprint,
    /// Fingerprint of the caller's rights, if the response depends on them; a caller with other
    /// rights is then refused. With `None`, each caller of the tenant may get the response.
    pub rights: Option<&'a Fingerprint>,
    /// Target of the work, for example a queue as `<queueManager>:<queue>` or the handler of an
    /// event; empty if the work has no target. An index of the table finds records by their target.
    /// The target is part of the record's key if the operation has keys [per
    /// target](OperationType::per_target).
    pub target: &'a str,
    /// Name of the API key or token that authenticated the caller; empty if there is none. The
    /// decision about the claim does not depend on it: the record stores it for usage counters and
    /// timelines. A takeover keeps the name that is in the record.
    pub key_name: &'a str,
    /// Trace id of the request, for logs and the record.
    pub trace_id: &'a str,
    /// Time for which the record and its response are kept, in whole seconds.
    pub retention: Duration,
}

impl ClaimRequest<'_> {
    pub(crate) fn pk(&self) -> String {
        self.operation.pk(self.tenant, self.key.as_str(), self.target)
    }
}

/// Result of claiming an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants' descriptions name their fields")]
pub enum Claimed {
    /// The caller of the store owns the record now, and must execute the work.
    Execute(Execution),
    /// The request was completed at `completed_at`, with this response.
    Replay { response: Reply, completed_at: Timestamp },
    /// An earlier attempt stored this response, and had not ended when its lease passed. The
    /// response is labelled as in doubt: the effect of the work (for example that messages are
    /// removed) may be final or not. The caller returns the response and
    /// [completes](crate::Store::end) the execution.
    InDoubt { execution: Execution, response: Reply },
    /// The request is refused: the key was used with another request body before.
    Conflict,
    /// The request is refused: a caller with other rights sent it with the same key before.
    OtherRights,
    /// The tenant used keys with other bodies or rights too often. Such requests are refused until
    /// `retry_after` has passed.
    ReusedTooOften { retry_after: Duration },
    /// Another attempt is executing the same request. Its lease (the time in which no other attempt
    /// may start) ends after `retry_after`.
    InProgress { retry_after: Duration },
}
