//! Conditions in SQL for the batches that a [`Viewer`](ingestion::Viewer) may see.
//!
//! Every query of batches for a caller has the condition of the macro `visible`, which contains
//! that of `accepted_within`. Both macros take the name of the SQL parameter with the viewer's
//! establishments, whose value is null for a viewer of all of them. For `NOT IN` with a subquery of
//! its own, PostgreSQL builds one hash table a statement, so the cost is linear in the number of
//! compared establishments.

/// Builds the SQL condition that batch `b` was allowed, when it was accepted, to load only
/// establishments that the viewer may see.
macro_rules! accepted_within {
    ($cnpjs:literal) => {
        concat!(
            "(b.allowed_cnpjs IS NOT NULL AND NOT EXISTS (SELECT FROM unnest(b.allowed_cnpjs) AS a (cnpj) ",
            "WHERE a.cnpj NOT IN (SELECT unnest(",
            $cnpjs,
            "::text[]))))"
        )
    };
}

/// Builds the SQL condition that the viewer may see batch `b`. A batch that is being deleted is
/// visible to no viewer.
macro_rules! visible {
    ($tenant:literal, $cnpjs:literal) => {
        concat!(
            "b.tenant_id = ",
            $tenant,
            " AND NOT b.is_pruned AND (",
            $cnpjs,
            "::text[] IS NULL OR ",
            crate::visible::accepted_within!($cnpjs),
            " OR b.sealed_at IS NOT NULL AND EXISTS (SELECT FROM batch_cnpjs c WHERE c.batch_id = b.batch_id) ",
            "AND NOT EXISTS (SELECT FROM batch_cnpjs c WHERE c.batch_id = b.batch_id ",
            "AND c.cnpj::text NOT IN (SELECT unnest(",
            $cnpjs,
            "::text[]))))"
        )
    };
}

pub(crate) use {accepted_within, visible};
