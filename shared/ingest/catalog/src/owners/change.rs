//! Changes of owners by an administrator.

use std::collections::BTreeMap;

use ingestion::Cnpj;
use uuid::Uuid;

use crate::connection::{Connection, Session};
use crate::database::Database;
use crate::error::DatabaseError;
use crate::locks::{self, LockMode, MOST_WITHOUT_GATE};
use crate::rows::{cnpj, texts};

/// Change of the tenant that owns establishments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerChange {
    /// Gives establishments without an owner to a tenant.
    Assign {
        /// Tenant that becomes the owner.
        tenant: Uuid,
    },
    /// Gives establishments of one tenant to another.
    Move {
        /// Tenant that owns the establishments before the transfer.
        from: Uuid,
        /// Tenant that owns the establishments after the transfer.
        to: Uuid,
    },
    /// Takes establishments from a tenant, so that they have no owner.
    Release {
        /// Tenant that owns the establishments before their release.
        tenant: Uuid,
    },
}

/// Request to change the owner of establishments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerRequest<'a> {
    /// Change of owner to make.
    pub change: OwnerChange,
    /// Establishments whose owner changes.
    pub cnpjs: &'a [Cnpj],
    /// Name of the person or program that requests the change, which is stored with the owner.
    pub by: &'a str,
    /// True for a dry run, which changes nothing and returns what would change.
    pub dry_run: bool,
}

/// Result of a change of owners: the establishments of the request by outcome, each group in the
/// order of CNPJs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedOwners {
    /// Establishments whose owner was changed or, in a dry run, would be changed.
    pub changed: Vec<Cnpj>,
    /// Establishments that had the requested owner already.
    pub unchanged: Vec<Cnpj>,
    /// Establishments that were not changed, because their present owner is not the one that the
    /// change expects.
    pub refused: Vec<RefusedOwner>,
}

/// Establishment that was not changed because its present owner is not the one that the change
/// expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedOwner {
    /// CNPJ of the establishment.
    pub cnpj: Cnpj,
    /// Present owner of the establishment; `None` if it has none.
    pub owner: Option<Uuid>,
}

/// Effect of a change of owner on one establishment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Changed,
    Unchanged,
    Refused,
}

const OWNERS: &str = "SELECT cnpj, tenant_id FROM establishments WHERE cnpj = ANY($1::bpchar[])";
const ASSIGN: &str = "INSERT INTO establishments (cnpj, tenant_id, assigned_by) \
     SELECT c.cnpj, $2, $3 FROM unnest($1::bpchar[]) AS c (cnpj) ON CONFLICT (cnpj) DO UPDATE \
     SET tenant_id = excluded.tenant_id, assigned_at = excluded.assigned_at, assigned_by = excluded.assigned_by";
const RELEASE: &str = "DELETE FROM establishments WHERE cnpj = ANY($1::bpchar[])";

impl OwnerChange {
    /// Returns the owner after the change; `None` for no owner.
    const fn new_owner(self) -> Option<Uuid> {
        match self {
            Self::Assign { tenant } => Some(tenant),
            Self::Move { to, .. } => Some(to),
            Self::Release { .. } => None,
        }
    }

    /// Returns the owner that the establishments must have before the change; `None` for no owner.
    const fn expected_owner(self) -> Option<Uuid> {
        match self {
            Self::Assign { .. } => None,
            Self::Move { from, .. } => Some(from),
            Self::Release { tenant } => Some(tenant),
        }
    }

    fn effect(self, owner: Option<Uuid>) -> Effect {
        if owner == self.new_owner() {
            Effect::Unchanged
        } else if owner == self.expected_owner() {
            Effect::Changed
        } else {
            Effect::Refused
        }
    }
}

impl Database {
    /// Changes the owner of establishments, in transactions of at most 32 establishments. Each is
    /// changed under its lock, so that no chunk is written partly for one owner and partly for
    /// another. A repeated call reports the establishments as unchanged. Each transaction is logged
    /// after its commit.
    ///
    /// # Errors
    /// If the database fails, or other transactions hold a lock for too long. Earlier transactions
    /// stay committed.
    pub async fn change_owners(&self, request: OwnerRequest<'_>) -> Result<ChangedOwners, DatabaseError> {
        let mut cnpjs = request.cnpjs.to_vec();
        cnpjs.sort_unstable();
        cnpjs.dedup();
        self.with_connection(async |connection| {
            let mut all = ChangedOwners::default();
            for slice in cnpjs.chunks(MOST_WITHOUT_GATE) {
                let part = change(connection, &OwnerRequest { cnpjs: slice, ..request }).await?;
                all.changed.extend(part.changed);
                all.unchanged.extend(part.unchanged);
                all.refused.extend(part.refused);
            }
            Ok(all)
        })
        .await
    }
}

async fn change(
    connection: &mut Connection,
    request: &OwnerRequest<'_>,
) -> Result<ChangedOwners, DatabaseError> {
    let names = texts(request.cnpjs);
    let mut session = connection.begin().await?;
    // A dry run holds up no chunk: it changes nothing that a lock would protect.
    let rows = if request.dry_run {
        session.query(OWNERS, &[&names]).await?
    } else {
        let [_, rows] = session
            .query_each([
                (LockMode::Exclusive.statement(), &[&locks::numbers(request.cnpjs)]),
                (OWNERS, &[&names]),
            ])
            .await
            .map_err(DatabaseError::while_locking)?;
        rows
    };
    let owners = rows
        .iter()
        .map(|row| Ok((cnpj(row, "cnpj")?, row.try_get("tenant_id")?)))
        .collect::<Result<BTreeMap<Cnpj, Uuid>, DatabaseError>>()?;
    let mut answer = ChangedOwners::default();
    for cnpj in request.cnpjs {
        let owner = owners.get(cnpj).copied();
        match request.change.effect(owner) {
            Effect::Changed => answer.changed.push(*cnpj),
            Effect::Unchanged => answer.unchanged.push(*cnpj),
            Effect::Refused => answer.refused.push(RefusedOwner { cnpj: *cnpj, owner }),
        }
    }
    if !request.dry_run && !answer.changed.is_empty() {
        give(&mut session, &answer.changed, request).await?;
        session.commit().await?;
        report(&answer.changed, request);
    }
    Ok(answer)
}

/// Writes the new owner of establishments, or deletes their owner.
async fn give(
    session: &mut Session<'_>,
    cnpjs: &[Cnpj],
    request: &OwnerRequest<'_>,
) -> Result<(), DatabaseError> {
    let names = texts(cnpjs);
    match request.change.new_owner() {
        Some(tenant) => session.execute(ASSIGN, &[&names, &tenant, &request.by]).await?,
        None => session.execute(RELEASE, &[&names]).await?,
    };
    Ok(())
}

/// Logs a committed change of owners: who requested it, and which establishments it gave to which
/// tenant.
fn report(changed: &[Cnpj], request: &OwnerRequest<'_>) {
    let (count, by) = (changed.len(), request.by);
    let cnpjs = texts(changed).join(" ");
    match request.change {
        OwnerChange::Assign { tenant } => tracing::info!(
            event_type = "establishments.assigned",
            by,
            %tenant,
            cnpjs,
            "{count} establishments were assigned to the tenant {tenant} by `{by}`"
        ),
        OwnerChange::Move { from, to } => tracing::info!(
            event_type = "establishments.moved",
            by,
            %from,
            %to,
            cnpjs,
            "{count} establishments were moved from the tenant {from} to {to} by `{by}`"
        ),
        OwnerChange::Release { tenant } => tracing::info!(
            event_type = "establishments.released",
            by,
            %tenant,
            cnpjs,
            "{count} establishments of the tenant {tenant} were released by `{by}`"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Uuid = Uuid::from_u128(1);
    const B: Uuid = Uuid::from_u128(2);
    const C: Uuid = Uuid::from_u128(3);

    #[test]
    fn a_change_is_made_once_and_only_where_its_expected_owner_is() {
        use Effect::{Changed, Refused, Unchanged};
        let owners = [None, Some(A), Some(B), Some(C)];
        for (change, expected) in [
            (OwnerChange::Assign { tenant: A }, [Changed, Unchanged, Refused, Refused]),
            (OwnerChange::Move { from: A, to: B }, [Refused, Changed, Unchanged, Refused]),
            (OwnerChange::Move { from: A, to: A }, [Refused, Unchanged, Refused, Refused]),
            (OwnerChange::Release { tenant: A }, [Unchanged, Changed, Refused, Refused]),
        ] {
            assert_eq!(owners.map(|owner| change.effect(owner)), expected, "{change:?}");
        }
    }
}
