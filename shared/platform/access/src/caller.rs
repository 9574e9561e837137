//! Callers, and their permissions.

use std::collections::BTreeSet;
use std::fmt;

use api::{Problem, Reason};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use uuid::Uuid;

use crate::store::AccessStore;

/// Permission of an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "`ApiKey` in openapi.yaml says what each scope permits")]
pub enum Scope {
    MqRead,
    MqWrite,
    MqAdmin,
    ProductsRead,
    ProductsWrite,
    OpsRead,
}

impl Scope {
    const ALL: [Self; 6] =
        [Self::MqRead, Self::MqWrite, Self::MqAdmin, Self::ProductsRead, Self::ProductsWrite, Self::OpsRead];

    /// Returns the scope's name in key items and problems.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MqRead => "mq:read",
            Self::MqWrite => "mq:write",
            Self::MqAdmin => "mq:admin",
            Self::ProductsRead => "products:read",
            Self::ProductsWrite => "products:write",
            Self::OpsRead => "ops:read",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Id of the tenant, as the key's item has it.
    pub tenant: String,
    /// The key of the API key's item, for logs. It holds the API key's hash.
    item: String,
    scopes: BTreeSet<Scope>,
    cnpjs: Option<BTreeSet<String>>,
}

impl Principal {
    /// Makes a caller whose scopes hold for every establishment.
    pub fn new(tenant: impl Into<String>, scopes: impl IntoIterator<Item = Scope>) -> Self {
        let scopes = scopes.into_iter().collect();
        Self { tenant: tenant.into(), item: String::new(), scopes, cnpjs: None }
    }

    /// Returns the tenant as a UUID, as the ingest needs it.
    ///
    /// # Errors
    /// `API_KEY_INVALID` if the key's item has something else.
    pub fn tenant_id(&self) -> Result<Uuid, Problem> {
        self.tenant.parse().map_err(|error: uuid::Error| self.refused("tenantId", &error))
    }

    /// Establishments to which the caller is limited, as the access table has them; `None` if it is
    /// not limited.
    #[must_use]
    pub const fn cnpjs(&self) -> Option<&BTreeSet<String>> {
        self.cnpjs.as_ref()
    }

    /// Refuses a key whose item has a member that cannot be read: a guess might permit more than
    /// the operator meant.
    #[must_use]
    pub fn refused(&self, member: &str, error: &(dyn std::error::Error + 'static)) -> Problem {
        let pk = self.item.as_str();
        tracing::error!(
            event_type = "access.item_malformed",
            pk,
            member,
            error,
            "item `{pk}` of an API key is refused: its `{member}` cannot be used"
        );
        invalid()
    }

    /// Checks the caller's scopes.
    ///
    /// # Errors
    /// `SCOPE_REQUIRED` unless the caller has one of `scopes`.
    pub fn require_any(&self, scopes: &[Scope]) -> Result<(), Problem> {
        if scopes.iter().any(|scope| self.scopes.contains(scope)) {
            return Ok(());
        }
        let names: Vec<_> = scopes.iter().map(|scope| scope.as_str()).collect();
        Err(Problem::new(
            Reason::ScopeRequired,
            format!("the API key needs the scope {}", names.join(" or ")),
        ))
    }
}

/// Name of the header that carries the API key.
pub const API_KEY: &str = "x-api-key";
/// Names of the headers that carry the API key on the routes of the product ingest.
pub const PRODUCTS_API_KEYS: &[&str] = &[PRODUCTS_API_KEY, API_KEY];
const PRODUCTS_API_KEY: &str = "x-inova-api-key";

/// Finds the caller by the header `X-Api-Key`.
///
/// # Errors
/// `API_KEY_REQUIRED`, `API_KEY_INVALID`, or `STORE_UNAVAILABLE`.
pub async fn authenticate(store: &AccessStore, headers: &HeaderMap) -> Result<Principal, Problem> {
    authenticate_by(store, headers, &[API_KEY]).await
}

/// Finds the caller by any of the headers `names`. Where several are sent they must be the same
/// key.
///
/// # Errors
/// `API_KEY_REQUIRED`, `API_KEY_INVALID`, or `STORE_UNAVAILABLE`.
pub async fn authenticate_by(
    store: &AccessStore,
    headers: &HeaderMap,
    names: &[&str],
) -> Result<Principal, Problem> {
    let pk = AccessStore::pk(api_key(headers, names)?);
    let item = store.key(&pk).await?.ok_or_else(invalid)?;
    let scopes = Scope::ALL.into_iter().filter(|scope| item.scopes.contains(scope.as_str()));
    Ok(Principal { cnpjs: item.cnpjs, item: pk, ..Principal::new(item.tenant_id, scopes) })
}

fn api_key<'a>(headers: &'a HeaderMap, names: &[&str]) -> Result<&'a str, Problem> {
    let mut values = names.iter().flat_map(|name| headers.get_all(*name));
    let Some(value) = values.next() else {
        return Err(Problem::new(Reason::ApiKeyRequired, missing(headers, names)));
    };
    if values.any(|other| other != value) {
        return Err(Problem::new(Reason::ApiKeyInvalid, "different API keys were sent"));
    }
    value.to_str().ok().filter(|key| !key.is_empty() && key.len() <= 256).ok_or_else(invalid)
}

/// Describes the header that the key belongs in, and the one that it may have been sent in instead.
fn missing(headers: &HeaderMap, names: &[&str]) -> String {
    let shown = |name: &&str| if *name == API_KEY { "X-Api-Key" } else { "X-Inova-Api-Key" };
    let names: Vec<&str> = names.iter().map(shown).collect();
    let hint = if headers.contains_key(PRODUCTS_API_KEY) {
        "; X-Inova-Api-Key is for the routes of products only"
    } else if headers.contains_key(AUTHORIZATION) {
        "; Authorization is not read"
    } else {
        ""
    };
    format!("send the API key in the header {}{hint}", names.join(" or "))
}

fn invalid() -> Problem {
    let detail = "the API key is not known here: is it complete, and of this deployment? A new key works after a minute at most";
    Problem::new(Reason::ApiKeyInvalid, detail)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const NAMES: &[&str] = PRODUCTS_API_KEYS;

    fn reason(sent: &[(&'static str, &'static str)]) -> Result<String, Reason> {
        let mut headers = HeaderMap::new();
        for (name, value) in sent {
            headers.append(*name, HeaderValue::from_static(value));
        }
        api_key(&headers, NAMES).map(str::to_owned).map_err(|problem| problem.reason)
    }

    #[test]
    fn any_of_the_headers_carries_the_key() {
        assert_eq!(reason(&[(API_KEY, "a")]), Ok("a".to_owned()));
        assert_eq!(reason(&[("x-inova-api-key", "a")]), Ok("a".to_owned()));
        assert_eq!(reason(&[("x-inova-api-key", "a"), (API_KEY, "a")]), Ok("a".to_owned()));
        assert_eq!(reason(&[("x-other", "a")]), Err(Reason::ApiKeyRequired));
    }

    #[test]
    fn nobody_is_two_callers_at_once() {
        assert_eq!(reason(&[("x-inova-api-key", "a"), (API_KEY, "b")]), Err(Reason::ApiKeyInvalid));
        assert_eq!(reason(&[(API_KEY, "a"), (API_KEY, "b")]), Err(Reason::ApiKeyInvalid));
        assert_eq!(reason(&[(API_KEY, "")]), Err(Reason::ApiKeyInvalid));
    }
}
