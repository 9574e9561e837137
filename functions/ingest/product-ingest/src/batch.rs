//! Batch of a request: its id and metadata, which are derived from the claim on the request's
//! idempotency key, and the fingerprints of the request and of the caller's rights.

use access::Principal;
use api::{Problem, Reason};
use idempotency::{Execution, Fingerprint};
use ingestion::payload::{self, LoadType, MediaType, PayloadMetadata};
use ingestion::product::{CnpjAccess, PartialPolicy};
use ingestion::{Cnpj, Viewer};
use serde_json::Value;
use uuid::Uuid;

/// Reads the tenant of an API key, and the establishments that it may load, from the key's item.
///
/// # Errors
/// If the key's item has anything other than a UUID and CNPJs: `API_KEY_INVALID`. Ignoring the
/// mistake could let the key load too much.
pub(crate) fn caller(principal: &Principal) -> Result<Viewer, Problem> {
    Viewer::limited(principal.tenant_id()?, principal.cnpjs())
        .map_err(|error| principal.refused("cnpjs", &error))
}

/// Computes the fingerprint of a caller's rights: the establishments it may load. A batch is loaded
/// with the rights of its first request, so a caller with other rights must not get its response.
pub(crate) fn rights(caller: &Viewer) -> Result<Fingerprint, Problem> {
    let cnpjs = match caller.cnpjs() {
        CnpjAccess::Any => Value::Null,
        CnpjAccess::Only(cnpjs) => cnpjs.iter().map(Cnpj::as_str).collect(),
    };
    fingerprint(cnpjs, None)
}

/// Load type and format of a payload, and the policy for its items that lack members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) load_type: LoadType,
    pub(crate) media_type: MediaType,
    pub(crate) partial: PartialPolicy,
}

/// Computes the fingerprint by which a repeated request is recognized: of the members `of`, and of
/// the partial-items policy if the request names one. The deployment's default policy is left out,
/// since it may change between two attempts.
pub(crate) fn fingerprint(mut of: Value, partial: Option<PartialPolicy>) -> Result<Fingerprint, Problem> {
    if let (Some(partial), Some(members)) = (partial, of.as_object_mut()) {
        members.insert("partial_items".to_owned(), partial.as_str().into());
    }
    Fingerprint::of(&of).map_err(|error| Problem::new(Reason::MalformedJson, error.to_string()))
}

/// Derives the batch id from the claim on the client's key, the same in every attempt.
pub(crate) fn batch_id(caller: &Viewer, execution: &Execution) -> Uuid {
    let Execution { idempotency_key, fingerprint, created_at, .. } = execution;
    payload::batch_id(caller.tenant_id(), idempotency_key, fingerprint.as_str(), *created_at)
}

/// Builds the metadata of the batch from the claim on the client's key: the same in every attempt,
/// apart from the trace id.
pub(crate) fn metadata(
    caller: &Viewer,
    kind: Kind,
    execution: &Execution,
    checksum: Option<String>,
) -> PayloadMetadata {
    let batch_id = batch_id(caller, execution);
    tracing::Span::current().record("batch_id", tracing::field::display(batch_id));
    PayloadMetadata {
        batch_id,
        tenant_id: caller.tenant_id(),
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
    fn rights_are_the_set_of_establishments_and_none_is_not_all() {
        let rights = |cnpjs: Option<&[&str]>| {
            let cnpjs = cnpjs.map(|cnpjs| cnpjs.iter().map(|&cnpj| cnpj.to_owned()).collect());
            rights(&Viewer::limited(Uuid::nil(), cnpjs.as_ref()).unwrap()).unwrap().to_string()
        };
        let (one, other) = ("11222333000181", "05927228000145");
        assert_eq!(rights(Some(&[one, other])), rights(Some(&[other, one, "05.927.228/0001-45"])));
        let all = [rights(None), rights(Some(&[])), rights(Some(&[one])), rights(Some(&[one, other]))];
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), all.len());
    }

    #[test]
    fn a_tenant_that_is_no_uuid_takes_nothing_in() {
        let tenant = "11111111-1111-4111-8111-111111111111";
        let known = caller(&Principal::new(tenant, [Scope::ProductsWrite]));
        assert_eq!(known, Ok(Viewer::whole(tenant.parse().unwrap())));
        let problem = caller(&Principal::new("pharmacy", [])).unwrap_err();
        assert_eq!(problem.reason, Reason::ApiKeyInvalid);
    }
}
