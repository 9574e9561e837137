//! From who asks and what was claimed to the batch that it becomes.

use access::Principal;
use api::{Problem, Reason};
use idempotency::{Execution, Fingerprint};
use ingestion::Viewer;
use ingestion::payload::{self, LoadType, MediaType, PayloadMetadata};
use ingestion::product::{CnpjAccess, PartialPolicy};
use serde_json::Value;
use uuid::Uuid;

/// Whose batch it is, and what it may load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) tenant_id: Uuid,
    pub(crate) cnpjs: CnpjAccess,
}

impl Caller {
    /// # Errors
    /// `API_KEY_INVALID` if the key's item has something else than a UUID and CNPJs: a key that may
    /// load too much would be worse than one that does not work.
    pub(crate) fn of(principal: &Principal) -> Result<Self, Problem> {
        let viewer = Viewer::limited(principal.tenant_id()?, principal.cnpjs());
        let viewer = viewer.map_err(|error| principal.refused("cnpjs", &error))?;
        Ok(Self { tenant_id: viewer.tenant_id(), cnpjs: viewer.cnpjs().clone() })
    }
}

/// What is said of a payload beside its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) load_type: LoadType,
    pub(crate) media_type: MediaType,
    pub(crate) partial: PartialPolicy,
}

/// The fingerprint of what makes two requests the same: these members, and the policy about partial
/// items if the request names one. What the deployment says instead may change between two attempts.
pub(crate) fn fingerprint(mut of: Value, partial: Option<PartialPolicy>) -> Result<Fingerprint, Problem> {
    if let (Some(partial), Some(members)) = (partial, of.as_object_mut()) {
        members.insert("partial_items".to_owned(), partial.as_str().into());
    }
    Fingerprint::of(&of).map_err(|error| Problem::new(Reason::MalformedJson, error.to_string()))
}

/// The id of the batch that a claim is for; the same in every attempt.
pub(crate) fn batch_id(caller: &Caller, execution: &Execution) -> Uuid {
    let Execution { idempotency_key, fingerprint, created_at, .. } = execution;
    payload::batch_id(caller.tenant_id, idempotency_key, fingerprint.as_str(), *created_at)
}

/// The batch that a claim is for; the same in every attempt, but for the trace.
pub(crate) fn metadata(
    caller: &Caller,
    kind: Kind,
    execution: &Execution,
    checksum: Option<String>,
) -> PayloadMetadata {
    let batch_id = batch_id(caller, execution);
    tracing::Span::current().record("batch_id", tracing::field::display(batch_id));
    PayloadMetadata {
        batch_id,
        tenant_id: caller.tenant_id,
        load_type: kind.load_type,
        media_type: kind.media_type,
        idempotency_key: execution.idempotency_key.clone(),
        received_at: execution.created_at,
        checksum,
        trace_id: execution.trace_id.clone(),
        partial: kind.partial,
        source: None,
    }
}

#[cfg(test)]
mod tests {
    use access::Scope;

    use super::*;

    #[test]
    fn a_tenant_that_is_no_uuid_takes_nothing_in() {
        let tenant = "11111111-1111-4111-8111-111111111111";
        let caller = Caller::of(&Principal::new(tenant, [Scope::ProductsWrite])).unwrap();
        assert_eq!((caller.tenant_id.to_string().as_str(), caller.cnpjs), (tenant, CnpjAccess::Any));
        let problem = Caller::of(&Principal::new("pharmacy", [])).unwrap_err();
        assert_eq!(problem.reason, Reason::ApiKeyInvalid);
    }
}
