//! Viewers of batches, and the batches that they may see.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::cnpj::{Cnpj, CnpjError};
use crate::payload::AcceptedBatch;
use crate::product::CnpjAccess;

/// Viewer of batches: a tenant, with the establishments to which the caller's API key is limited.
/// Every query of batches takes a viewer, so no route shows more than its caller may see.
///
/// A limited caller sees a batch if one of these conditions holds:
///
/// - when the batch was accepted, it was allowed to load only establishments of the caller's limit;
/// - its payload was read to the end, and has only products of establishments in that limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Viewer {
    tenant_id: Uuid,
    cnpjs: CnpjAccess,
}

impl Viewer {
    /// Creates the viewer for an API key that is limited to the establishments `cnpjs` of its
    /// tenant, or is not limited if `cnpjs` is `None`.
    ///
    /// # Errors
    /// If one of `cnpjs` is not a CNPJ.
    pub fn limited(tenant_id: Uuid, cnpjs: Option<&BTreeSet<String>>) -> Result<Self, CnpjError> {
        let cnpjs = match cnpjs {
            None => CnpjAccess::Any,
            Some(cnpjs) => CnpjAccess::Only(cnpjs.iter().map(|cnpj| cnpj.parse()).collect::<Result<_, _>>()?),
        };
        Ok(Self { tenant_id, cnpjs })
    }

    /// Creates a viewer of all batches of the tenant, for functions that work for no particular
    /// caller.
    #[must_use]
    pub const fn whole(tenant_id: Uuid) -> Self {
        Self { tenant_id, cnpjs: CnpjAccess::Any }
    }

    /// Returns the tenant whose batches the viewer sees.
    #[must_use]
    pub const fn tenant_id(&self) -> Uuid {
        self.tenant_id
    }

    /// Returns the establishments that the viewer may load, and that a batch sent by it may
    /// contain.
    #[must_use]
    pub const fn cnpjs(&self) -> &CnpjAccess {
        &self.cnpjs
    }

    /// Returns the viewer's establishments as a parameter for SQL queries; `None` if any may be
    /// seen.
    #[must_use]
    pub fn limits(&self) -> Option<Vec<&str>> {
        match &self.cnpjs {
            CnpjAccess::Any => None,
            CnpjAccess::Only(cnpjs) => Some(cnpjs.iter().map(Cnpj::as_str).collect()),
        }
    }

    /// True if the viewer may see a batch whose payload was not read yet: the batch is the
    /// tenant's, and may load only establishments that the viewer may load.
    #[must_use]
    pub fn sees(&self, batch: &AcceptedBatch) -> bool {
        let is_within = match (&self.cnpjs, &batch.cnpjs) {
            (CnpjAccess::Any, _) => true,
            (CnpjAccess::Only(_), CnpjAccess::Any) => false,
            (CnpjAccess::Only(mine), CnpjAccess::Only(theirs)) => theirs.is_subset(mine),
        };
        is_within && batch.metadata.tenant_id == self.tenant_id
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::payload::{LoadType, MediaType, PayloadMetadata};

    const TENANT: Uuid = Uuid::from_u128(1);
    const A: &str = "11222333000181";
    const B: &str = "05927228000145";

    fn viewer(cnpjs: &[&str]) -> Viewer {
        let cnpjs = cnpjs.iter().map(|&cnpj| cnpj.to_owned()).collect();
        Viewer::limited(TENANT, Some(&cnpjs)).unwrap()
    }

    fn batch(tenant_id: Uuid, cnpjs: &CnpjAccess) -> AcceptedBatch {
        AcceptedBatch {
            metadata: PayloadMetadata {
                batch_id: Uuid::nil(),
                tenant_id,
                load_type: LoadType::Full,
                media_type: MediaType::Json,
                idempotency_key: String::new(),
                received_at: Timestamp::UNIX_EPOCH,
                checksum: None,
                trace_id: String::new(),
                partial: crate::product::PartialPolicy::Warn,
                source: None,
            },
            payload_bytes: None,
            cnpjs: cnpjs.clone(),
            upload_expires_at: None,
        }
    }

    #[test]
    fn a_batch_is_shown_to_those_who_may_load_all_that_it_can_contain() {
        let of = |cnpjs: &[&str]| batch(TENANT, viewer(cnpjs).cnpjs());
        let any = batch(TENANT, &CnpjAccess::Any);
        assert!(Viewer::whole(TENANT).sees(&any) && Viewer::whole(TENANT).sees(&of(&[A])));
        assert!(viewer(&[A, B]).sees(&of(&[A])) && viewer(&[A]).sees(&of(&[A])));
        assert!(!viewer(&[A]).sees(&of(&[A, B])) && !viewer(&[A]).sees(&of(&[B])));
        assert!(!viewer(&[A, B]).sees(&any), "it may contain anything");
        assert!(!viewer(&[]).sees(&of(&[A])));
    }

    #[test]
    fn another_tenant_s_batch_is_never_shown() {
        let other = batch(Uuid::from_u128(2), viewer(&[A]).cnpjs());
        assert!(!Viewer::whole(TENANT).sees(&other) && !viewer(&[A]).sees(&other));
    }

    #[test]
    fn a_key_with_something_else_than_cnpjs_sees_nothing() {
        let wrong = BTreeSet::from([A.to_owned(), "11222333000180".to_owned()]);
        assert!(Viewer::limited(TENANT, Some(&wrong)).is_err());
        assert_eq!(Viewer::limited(TENANT, None), Ok(Viewer::whole(TENANT)));
        assert_eq!(viewer(&[A, B]).limits(), Some(vec![B, A]));
    }
}
