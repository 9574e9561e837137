//! Parsing of administrators' requests.

use attempt::{Malformed, malformed};
use catalog::{OwnerChange, OwnerFilter};
use ingestion::Cnpj;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

/// Maximum number of establishments that one request may change, or one page may list.
const MOST: usize = 1000;
/// Number of establishments on a page if the request has no `limit`.
const USUAL: u32 = 100;
/// Maximum length, in characters, of `by`: the name of the person or program that sent a request.
const LONGEST_NAME: usize = 100;
/// Reserved names that a request may not have in `by`, alone or before a colon: the database writes
/// them when a load or an upgrade assigns an owner.
const DATABASE_NAMES: [&str; 2] = ["first load", "upgrade"];

/// Action that an event requests, with its parameters.
#[derive(Debug, PartialEq)]
pub(crate) enum Request {
    /// List of establishments with their owners.
    List { filter: OwnerFilter, listing: Listing },
    /// List of establishments that have products and no owner.
    Unowned(Listing),
    /// Change of the owner of establishments.
    Change(Change),
}

/// Reason why an event is not a valid request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("the event has no `action`, or one that is none of list, unowned, assign, move and release")]
    Action,
    #[error(transparent)]
    Form(#[from] Malformed),
}

/// Position and size of the page of a list that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Listing {
    /// Last establishment of the previous page, after which this page begins; `None` for the first
    /// page.
    pub(crate) cursor: Option<Cnpj>,
    pub(crate) limit: u32,
}

/// Change of the owner of some establishments.
#[derive(Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) change: OwnerChange,
    pub(crate) cnpjs: Vec<Cnpj>,
    /// Name of the person or program that sent the request.
    pub(crate) by: String,
    pub(crate) dry_run: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListForm {
    tenant: Option<Uuid>,
    cnpj: Option<Cnpj>,
    cursor: Option<Cnpj>,
    #[serde(default)]
    limit: Limit,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnownedForm {
    cursor: Option<Cnpj>,
    #[serde(default)]
    limit: Limit,
}

/// Members of an event that assigns or releases establishments.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TenantForm {
    tenant: Uuid,
    cnpjs: Cnpjs,
    by: Name,
    #[serde(default)]
    dry_run: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MoveForm {
    from: Uuid,
    to: Uuid,
    cnpjs: Cnpjs,
    by: Name,
    #[serde(default)]
    dry_run: bool,
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "u32")]
struct Limit(u32);

#[derive(Debug, Deserialize)]
#[serde(try_from = "Vec<Cnpj>")]
struct Cnpjs(Vec<Cnpj>);

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Name(String);

impl Request {
    /// Parses an administrator's event as a request.
    ///
    /// # Errors
    /// If `action` is unknown or missing, or the other members are not those of the action.
    pub(crate) fn read(mut event: Value) -> Result<Self, RequestError> {
        let action = event.as_object_mut().and_then(|members| members.remove("action"));
        Ok(match action.as_ref().and_then(Value::as_str) {
            Some("list") => {
                let ListForm { tenant, cnpj, cursor, limit } = malformed::from_value(event)?;
                let filter = OwnerFilter { tenant, cnpj };
                Self::List { filter, listing: Listing { cursor, limit: limit.0 } }
            }
            Some("unowned") => {
                let UnownedForm { cursor, limit } = malformed::from_value(event)?;
                Self::Unowned(Listing { cursor, limit: limit.0 })
            }
            Some("assign") => Self::of_tenant(event, |tenant| OwnerChange::Assign { tenant })?,
            Some("release") => Self::of_tenant(event, |tenant| OwnerChange::Release { tenant })?,
            Some("move") => {
                let MoveForm { from, to, cnpjs, by, dry_run } = malformed::from_value(event)?;
                let change = OwnerChange::Move { from, to };
                Self::Change(Change { change, cnpjs: cnpjs.0, by: by.0, dry_run })
            }
            _ => return Err(RequestError::Action),
        })
    }

    fn of_tenant(event: Value, change: impl FnOnce(Uuid) -> OwnerChange) -> Result<Self, RequestError> {
        let TenantForm { tenant, cnpjs, by, dry_run } = malformed::from_value(event)?;
        Ok(Self::Change(Change { change: change(tenant), cnpjs: cnpjs.0, by: by.0, dry_run }))
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self(USUAL)
    }
}

impl TryFrom<u32> for Limit {
    type Error = String;

    fn try_from(limit: u32) -> Result<Self, String> {
        let fits = usize::try_from(limit).is_ok_and(|limit| (1..=MOST).contains(&limit));
        if fits { Ok(Self(limit)) } else { Err(format!("a page has 1 to {MOST} establishments")) }
    }
}

impl TryFrom<Vec<Cnpj>> for Cnpjs {
    type Error = String;

    fn try_from(cnpjs: Vec<Cnpj>) -> Result<Self, String> {
        if (1..=MOST).contains(&cnpjs.len()) {
            Ok(Self(cnpjs))
        } else {
            Err(format!("a request names 1 to {MOST} establishments"))
        }
    }
}

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let fits = (1..=LONGEST_NAME).contains(&name.chars().count()) && !name.chars().any(char::is_control);
        let before_colon = name.split(':').next().unwrap_or_default().trim();
        if DATABASE_NAMES.iter().any(|reserved| reserved.eq_ignore_ascii_case(before_colon)) {
            Err(format!("a name is not {}", DATABASE_NAMES.join(" or ")))
        } else if fits {
            Ok(Self(name))
        } else {
            Err(format!("a name has 1 to {LONGEST_NAME} characters"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const A: Uuid = Uuid::from_u128(0x1111_1111_1111_4111_8111_1111_1111_1111);
    const B: Uuid = Uuid::from_u128(0x2222_2222_2222_4222_8222_2222_2222_2222);

    fn sample(name: &str) -> Result<Request, RequestError> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../events/ingest/establishments");
        let text = std::fs::read(format!("{folder}/{name}.json")).unwrap();
        Request::read(serde_json::from_slice(&text).unwrap())
    }

    fn cnpjs() -> Vec<Cnpj> {
        ["33444555000181", "33444555000262"].map(|cnpj| cnpj.parse().unwrap()).to_vec()
    }

    fn change(change: OwnerChange) -> Request {
        Request::Change(Change { change, cnpjs: cnpjs(), by: "ana@example.com".to_owned(), dry_run: false })
    }

    #[test]
    fn sample_events_are_read_as_their_names_say() {
        let listing = Listing { cursor: None, limit: 100 };
        let second = Listing { cursor: Some("33444555000181".parse().unwrap()), limit: 2 };
        let filter = |tenant, cnpj| OwnerFilter { tenant, cnpj };
        for (name, expected) in [
            ("list", Request::List { filter: filter(None, None), listing }),
            ("list-of-tenant", Request::List { filter: filter(Some(A), None), listing: second }),
            ("list-one", Request::List { filter: filter(None, Some(cnpjs()[0])), listing }),
            ("unowned", Request::Unowned(listing)),
            ("assign", change(OwnerChange::Assign { tenant: A })),
            ("move", change(OwnerChange::Move { from: A, to: B })),
            ("release", change(OwnerChange::Release { tenant: B })),
        ] {
            assert_eq!(sample(name).unwrap(), expected, "{name}");
        }
        let Request::Change(Change { dry_run: true, .. }) = sample("assign-dry-run").unwrap() else {
            panic!("it would change something")
        };
    }

    #[test]
    fn an_event_with_a_fault_is_refused_with_its_place() {
        let full = json!({"action": "assign", "tenant": A, "cnpjs": ["33444555000181"], "by": "ana"});
        assert!(Request::read(full.clone()).is_ok());
        for (member, wrong, place) in [
            ("cnpjs", json!(["33444555000181", "33444555000182"]), "/cnpjs/1: the value is not allowed"),
            ("cnpjs", json!([]), "/cnpjs: the value is not allowed"),
            ("cnpjs", json!(vec!["33444555000181"; 1001]), "/cnpjs: the value is not allowed"),
            ("tenant", json!("acme"), "/tenant: the value is not allowed"),
            ("by", json!(""), "/by: the value is not allowed"),
            ("by", json!("a\nb"), "/by: the value is not allowed"),
            ("by", json!("x".repeat(101)), "/by: the value is not allowed"),
            ("by", json!("first load"), "/by: the value is not allowed"),
            ("by", json!("upgrade"), "/by: the value is not allowed"),
            ("by", json!(" Upgrade: several tenants loaded it"), "/by: the value is not allowed"),
            ("by", Value::Null, "/by: the value has the wrong type"),
            ("from", json!(A), "/from: the member is not known"),
        ] {
            let mut event = full.clone();
            event[member] = wrong;
            let RequestError::Form(fault) = Request::read(event).unwrap_err() else { panic!("{place}") };
            assert_eq!(fault.to_string(), place);
        }
        let zero = json!({"action": "list", "limit": 0});
        assert!(matches!(Request::read(zero), Err(RequestError::Form(_))));
        for event in [json!({}), json!([]), json!("list"), json!({"action": "drop"}), json!({"action": 1})] {
            assert!(matches!(Request::read(event), Err(RequestError::Action)));
        }
        assert!(matches!(sample("unknown-action"), Err(RequestError::Action)));
        assert!(matches!(sample("malformed"), Err(RequestError::Form(_))));
    }
}
