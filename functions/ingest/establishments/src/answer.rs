//! Responses to administrators' requests, as JSON.

use catalog::{ChangedOwners, RefusedOwner};
use ingestion::Cnpj;
use serde::Serialize;
use serde_json::{Value, json};

/// Builds a page of a list of establishments, the last of which is `last`. `cursor` leads to the
/// next page. A page with fewer than `limit` establishments is the last page, and its `cursor` is
/// null.
pub(crate) fn page(establishments: &[impl Serialize], last: Option<Cnpj>, limit: u32) -> Value {
    let is_full = u32::try_from(establishments.len()).is_ok_and(|length| length >= limit);
    json!({"establishments": establishments, "cursor": last.filter(|_| is_full)})
}

/// Builds the JSON of an establishment that has products and no owner.
pub(crate) fn unowned(cnpj: &Cnpj) -> Value {
    json!({"cnpj": cnpj})
}

/// Builds the response to a change of owners: the establishments changed, unchanged and refused.
pub(crate) fn changed(owners: &ChangedOwners, dry_run: bool) -> Value {
    let ChangedOwners { changed, unchanged, refused } = owners;
    let refused: Vec<Value> = refused.iter().map(refusal).collect();
    json!({"dryRun": dry_run, "changed": changed, "unchanged": unchanged, "refused": refused})
}

/// Builds the JSON of an establishment whose owner was not changed, because its current owner is
/// not the expected one; `owner` is null if it has none.
fn refusal(RefusedOwner { cnpj, owner }: &RefusedOwner) -> Value {
    let reason = if owner.is_some() { "OWNED_BY_ANOTHER" } else { "UNOWNED" };
    json!({"cnpj": cnpj, "reason": reason, "owner": owner})
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn cnpj(number: u32) -> Cnpj {
        Cnpj::from_base(&format!("{number:012}")).unwrap()
    }

    #[test]
    fn a_full_page_has_a_cursor_and_the_last_one_has_none() {
        let page = |count: u32, limit| {
            let found: Vec<Cnpj> = (1..=count).map(cnpj).collect();
            page(&found.iter().map(unowned).collect::<Vec<_>>(), found.last().copied(), limit)
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
        assert_eq!(changed(&owners, false), expected);
    }
}
