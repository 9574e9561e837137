//! Claims, and their possible results.

use std::time::Duration;

use api::Reply;
use api::idempotency_key::{Fingerprint, IdempotencyKey};
use jiff::Timestamp;

use crate::execution::Execution;
use crate::operation::OperationType;

/// Request for the right to execute work under a key.
#[derive(Clone, Debug)]
pub struct ClaimRequest<'a> {
    /// Type of the work; keys of different types meet only if one was made with the keys of the
    /// other ([`with_keys_of`](OperationType::with_keys_of)).
    pub operation: OperationType,
    /// Tenant of the request; keys of different tenants never meet. Without `#`.
    pub tenant: &'a str,
    /// Idempotency key of the client.
    pub key: &'a IdempotencyKey,
    /// Fingerprint, which distinguishes the request from another under the key.
    pub fingerprint: &'a Fingerprint,
    /// Fingerprint of the caller's rights, if the work depends on them. A record without it is
    /// returned to every caller of the tenant.
    pub rights: Option<&'a Fingerprint>,
    /// Queue of the work, `<queueManager>:<queue>`, by which the index finds the record; empty if
    /// there is none. It is part of the record's key if the operation has keys [per
    /// target](OperationType::per_target).
    pub target: &'a str,
    /// Name of the API key or of the token by which the caller was found, for the record alone:
    /// usage is counted by it. Empty if there is no caller. A takeover leaves the name that the
    /// record has.
    pub key_name: &'a str,
    /// Trace id for logs and the record.
    pub trace_id: &'a str,
    /// Time for which the result is kept, in whole seconds.
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
    /// The caller owns the key, and must execute the work.
    Execute(Execution),
    /// The work was done before, at `completed_at`, with this response.
    Replay { response: Reply, completed_at: Timestamp },
    /// The work was prepared by an execution whose lease has passed: the response is stored, it is
    /// unknown whether the side effect was made final, and the response shows that. The caller
    /// returns it and [completes](crate::Store::end) the execution.
    InDoubt { execution: Execution, response: Reply },
    /// The key was used with another request body.
    Conflict,
    /// The key was used for the same request, by a caller with other rights.
    OtherRights,
    /// Keys were used with other bodies or rights too often; refused until `retry_after` has
    /// passed.
    ReusedTooOften { retry_after: Duration },
    /// Another attempt is executing the same request.
    InProgress { retry_after: Duration },
}
