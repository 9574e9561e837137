//! Answers to administrators.

use catalog::{ChangedOwners, OwnedEstablishment, RefusedOwner};
use ingestion::Cnpj;
use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

/// A page of establishments.
#[derive(Debug, Serialize)]
pub(crate) struct Page<T> {
    establishments: Vec<T>,
    /// Cursor of the next page; null on the last one.
    cursor: Option<Cnpj>,
}

/// An establishment that belongs to a tenant.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Owned {
    cnpj: Cnpj,
    tenant: Uuid,
    assigned_at: Timestamp,
    assigned_by: String,
}

/// An establishment that has products and belongs to nobody.
#[derive(Debug, Serialize)]
pub(crate) struct Unowned {
    pub(crate) cnpj: Cnpj,
}

/// Establishments of a change, by what became of them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Changed {
    dry_run: bool,
    changed: Vec<Cnpj>,
    unchanged: Vec<Cnpj>,
    refused: Vec<Refused>,
}

/// An establishment that was not changed, because of its present owner.
#[derive(Debug, Serialize)]
struct Refused {
    cnpj: Cnpj,
    reason: Reason,
    /// Present owner; null if it belongs to nobody.
    owner: Option<Uuid>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Reason {
    OwnedByAnother,
    Unowned,
}

/// Part of a list, which has a place in it.
pub(crate) trait Listed {
    fn cnpj(&self) -> Cnpj;
}

impl Listed for Owned {
    fn cnpj(&self) -> Cnpj {
        self.cnpj
    }
}

impl Listed for Unowned {
    fn cnpj(&self) -> Cnpj {
        self.cnpj
    }
}

impl<T: Listed> Page<T> {
    /// Makes a page, which is the last one if it is not full.
    pub(crate) fn of(establishments: Vec<T>, limit: u32) -> Self {
        let is_full = u32::try_from(establishments.len()).is_ok_and(|length| length >= limit);
        let last = establishments.last().map(Listed::cnpj);
        Self { establishments, cursor: last.filter(|_| is_full) }
    }
}

impl From<OwnedEstablishment> for Owned {
    fn from(owned: OwnedEstablishment) -> Self {
        let OwnedEstablishment { cnpj, tenant_id, assigned_at, assigned_by } = owned;
        Self { cnpj, tenant: tenant_id, assigned_at, assigned_by }
    }
}

impl Changed {
    pub(crate) fn of(owners: ChangedOwners, dry_run: bool) -> Self {
        let ChangedOwners { changed, unchanged, refused } = owners;
        Self { dry_run, changed, unchanged, refused: refused.into_iter().map(Refused::from).collect() }
    }
}

impl From<RefusedOwner> for Refused {
    fn from(RefusedOwner { cnpj, owner }: RefusedOwner) -> Self {
        let reason = if owner.is_some() { Reason::OwnedByAnother } else { Reason::Unowned };
        Self { cnpj, reason, owner }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cnpj(number: u32) -> Cnpj {
        Cnpj::from_base(&format!("{number:012}")).unwrap()
    }

    #[test]
    fn a_full_page_has_a_cursor_and_the_last_one_has_none() {
        let page = |count: u32, limit| {
            let found = (1..=count).map(|number| Unowned { cnpj: cnpj(number) });
            serde_json::to_value(Page::of(found.collect(), limit)).unwrap()
        };
        assert_eq!(page(2, 2)["cursor"], json!(cnpj(2)));
        assert_eq!(page(1, 2), json!({"establishments": [{"cnpj": cnpj(1)}], "cursor": null}));
        assert_eq!(page(0, 2), json!({"establishments": [], "cursor": null}));
    }

    #[test]
    fn an_answer_says_what_changed_and_why_the_rest_did_not() {
        let owner = Uuid::from_u128(7);
        let owners = ChangedOwners {
            changed: vec![cnpj(1), cnpj(2)],
            unchanged: vec![cnpj(3)],
            refused: vec![
                RefusedOwner { cnpj: cnpj(4), owner: Some(owner) },
                RefusedOwner { cnpj: cnpj(5), owner: None },
            ],
        };
        let expected = json!({
            "dryRun": false,
            "changed": [cnpj(1), cnpj(2)],
            "unchanged": [cnpj(3)],
            "refused": [
                {"cnpj": cnpj(4), "reason": "OWNED_BY_ANOTHER", "owner": owner},
                {"cnpj": cnpj(5), "reason": "UNOWNED", "owner": null},
            ],
        });
        assert_eq!(serde_json::to_value(Changed::of(owners, false)).unwrap(), expected);
    }
}
