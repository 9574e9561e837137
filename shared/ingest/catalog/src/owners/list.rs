//! Lists of establishments, with owners and without.

use ingestion::Cnpj;
use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::database::Database;
use crate::error::DatabaseError;
use crate::rows::cnpj;

/// Establishment that belongs to a tenant, as administrators see it in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnedEstablishment {
    /// CNPJ of the establishment.
    pub cnpj: Cnpj,
    /// Id of the tenant that owns the establishment.
    #[serde(rename = "tenant")]
    pub tenant_id: Uuid,
    /// Time at which the establishment was assigned to its owner.
    pub assigned_at: Timestamp,
    /// Name of the person or program that assigned the establishment. `first load` if the owner was
    /// the first tenant to load it, and `upgrade` with a remark if a migration assigned it.
    pub assigned_by: String,
}

/// Conditions that establishments in a list must meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerFilter {
    /// Tenant that owns the establishments; `None` for any.
    pub tenant: Option<Uuid>,
    /// CNPJ of the only establishment to list; `None` for all.
    pub cnpj: Option<Cnpj>,
}

const PAGE: &str = "SELECT cnpj, tenant_id, assigned_at, assigned_by FROM establishments \
     WHERE ($1::uuid IS NULL OR tenant_id = $1) AND ($2::bpchar IS NULL OR cnpj = $2::bpchar) \
     AND cnpj > $3::bpchar ORDER BY cnpj LIMIT $4";
/// Query for up to `$2` establishments after the CNPJ `$1` that have products and no owner. Its
/// recursion reads a single product of each establishment.
const UNOWNED: &str = "WITH RECURSIVE loaded AS ( \
         (SELECT cnpj FROM products WHERE cnpj > $1::bpchar ORDER BY cnpj LIMIT 1) UNION ALL \
         SELECT (SELECT p.cnpj FROM products p WHERE p.cnpj > l.cnpj ORDER BY p.cnpj LIMIT 1) \
         FROM loaded l WHERE l.cnpj IS NOT NULL) \
     SELECT l.cnpj FROM loaded l WHERE l.cnpj IS NOT NULL \
     AND NOT EXISTS (SELECT FROM establishments e WHERE e.cnpj = l.cnpj) ORDER BY l.cnpj LIMIT $2";

impl Database {
    /// Returns a page of up to `limit` establishments that have an owner, ordered by CNPJ; `after`
    /// is the last CNPJ on the previous page.
    pub async fn owned_establishments(
        &self,
        filter: &OwnerFilter,
        after: Option<Cnpj>,
        limit: u32,
    ) -> Result<Vec<OwnedEstablishment>, DatabaseError> {
        let cnpj = filter.cnpj.as_ref().map(Cnpj::as_str);
        let after = after.as_ref().map_or("", Cnpj::as_str);
        let rows = self.read(PAGE, &[&filter.tenant, &cnpj, &after, &i64::from(limit)]).await?;
        rows.iter().map(owned).collect()
    }

    /// Returns a page of up to `limit` establishments that have products and no owner, ordered by
    /// CNPJ; `after` is the last CNPJ on the previous page.
    pub async fn unowned_establishments(
        &self,
        after: Option<Cnpj>,
        limit: u32,
    ) -> Result<Vec<Cnpj>, DatabaseError> {
        let after = after.as_ref().map_or("", Cnpj::as_str);
        let rows = self.read(UNOWNED, &[&after, &i64::from(limit)]).await?;
        rows.iter().map(|row| cnpj(row, "cnpj")).collect()
    }
}

fn owned(row: &Row) -> Result<OwnedEstablishment, DatabaseError> {
    Ok(OwnedEstablishment {
        cnpj: cnpj(row, "cnpj")?,
        tenant_id: row.try_get("tenant_id")?,
        assigned_at: row.try_get("assigned_at")?,
        assigned_by: row.try_get("assigned_by")?,
    })
}
