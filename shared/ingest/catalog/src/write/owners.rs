//! Establishments of a chunk whose products its tenant may not write.

use std::collections::HashSet;

use ingestion::Cnpj;
use ingestion::chunk::{Chunk, Row};
use uuid::Uuid;

use crate::connection::Session;
use crate::error::DatabaseError;
use crate::locks::LockMode;
use crate::owners::OwnerRule;
use crate::rows::{cnpj, texts};

/// Query for those of the locked establishments `$2` that the tenant of the batch `$1` does not
/// own, usually none, with whether another tenant owns them. `OFFSET 0` prevents the planner from
/// merging the inner query, so that it makes an index lookup for each establishment.
pub(super) const NOT_OWNED: &str = "SELECT a.cnpj, e.tenant_id IS NOT NULL AS is_owned \
     FROM batches b CROSS JOIN unnest($2::bpchar[]) AS a (cnpj) LEFT JOIN LATERAL ( \
         SELECT o.tenant_id FROM establishments o WHERE o.cnpj = a.cnpj OFFSET 0) e ON true \
     WHERE b.batch_id = $1 AND e.tenant_id IS DISTINCT FROM b.tenant_id";
const CLAIM: &str = "INSERT INTO establishments (cnpj, tenant_id, assigned_by) \
     SELECT c.cnpj, b.tenant_id, 'first load' FROM batches b CROSS JOIN unnest($2::bpchar[]) AS c (cnpj) \
     WHERE b.batch_id = $1 ON CONFLICT DO NOTHING";
/// Records that items of the batch `$1` in the establishments `$2` were refused. While this is
/// recorded, no earlier full load leaves the deactivation in these establishments to this batch.
const REFUSED: &str = "UPDATE batch_cnpjs SET refused = true \
     WHERE batch_id = $1 AND cnpj = ANY($2::bpchar[]) AND NOT refused";

/// Establishments of a chunk that its tenant does not own.
#[derive(Default)]
pub(super) struct NotOwned(HashSet<Cnpj>);

impl NotOwned {
    /// Reads the rows of [`NOT_OWNED`], and makes the tenant the owner of establishments without an
    /// owner if the rule says so. Owners may be changed only under exclusive locks: returns `None`
    /// if one would have to be changed while the locks are shared.
    pub(super) async fn of(
        session: &mut Session<'_>,
        batch_id: Uuid,
        rows: &[tokio_postgres::Row],
        rule: OwnerRule,
        mode: LockMode,
    ) -> Result<Option<Self>, DatabaseError> {
        let (mut not_owned, mut unowned) = (HashSet::new(), Vec::new());
        for row in rows {
            let cnpj = cnpj(row, "cnpj")?;
            if rule == OwnerRule::Entry || row.try_get("is_owned")? {
                not_owned.insert(cnpj);
            } else {
                unowned.push(cnpj);
            }
        }
        if unowned.is_empty() {
            return Ok(Some(Self(not_owned)));
        }
        if mode == LockMode::Shared {
            return Ok(None);
        }
        let claimed = session.execute(CLAIM, &[&batch_id, &texts(&unowned)]).await?;
        if usize::try_from(claimed) == Ok(unowned.len()) {
            Ok(Some(Self(not_owned)))
        } else {
            Err(DatabaseError::Moved)
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, row: &Row) -> bool {
        self.0.contains(&row.key.cnpj)
    }

    /// Returns the rows of the chunk whose establishments the tenant owns. Only these are recorded
    /// as contained in the chunk, since a refused row says nothing about another tenant's product.
    pub(super) fn others<'a>(&self, chunk: &'a Chunk) -> Vec<&'a Row> {
        chunk.rows().iter().filter(|row| !self.contains(row)).collect()
    }

    /// Records with the locked batch that items of these establishments were refused.
    pub(super) async fn note(&self, session: &mut Session<'_>, batch_id: Uuid) -> Result<(), DatabaseError> {
        let cnpjs: Vec<Cnpj> = self.0.iter().copied().collect();
        session.execute(REFUSED, &[&batch_id, &texts(&cnpjs)]).await?;
        Ok(())
    }
}
