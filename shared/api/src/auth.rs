//! Who calls, and what they may do.

use std::collections::BTreeSet;
use std::fmt;

use http::HeaderMap;

use crate::access::AccessStore;
use crate::problem::Problem;
use crate::reason::Reason;

/// What an API key may be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    pub tenant: String,
    scopes: BTreeSet<Scope>,
}

impl Principal {
    pub fn new(tenant: impl Into<String>, scopes: impl IntoIterator<Item = Scope>) -> Self {
        Self { tenant: tenant.into(), scopes: scopes.into_iter().collect() }
    }

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

/// Finds the caller by the header `X-Api-Key`.
///
/// # Errors
/// `API_KEY_REQUIRED`, `API_KEY_INVALID`, or `STORE_UNAVAILABLE`.
pub async fn authenticate(store: &AccessStore, headers: &HeaderMap) -> Result<Principal, Problem> {
    let Some(value) = headers.get("x-api-key") else {
        return Err(Problem::new(Reason::ApiKeyRequired, "send the API key in the header X-Api-Key"));
    };
    let invalid = || Problem::new(Reason::ApiKeyInvalid, "the API key is not known");
    let api_key =
        value.to_str().ok().filter(|key| !key.is_empty() && key.len() <= 256).ok_or_else(invalid)?;
    let item = store.key(api_key).await?.ok_or_else(invalid)?;
    let scopes = Scope::ALL.into_iter().filter(|scope| item.scopes.contains(scope.as_str()));
    Ok(Principal::new(item.tenant_id, scopes))
}
