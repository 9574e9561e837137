//! Authenticated callers, and their permissions.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use api::{Problem, Reason};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tracing::Span;
use uuid::Uuid;

use crate::api_key::{ApiKey, KeyHash};
use crate::items::{KeyItem, TenantItem};
use crate::pk;
use crate::store::{AccessStore, AccessTableError};
use crate::token::{self, Bearer, TokenError, Tokens};

/// Permission of an API key or a token.
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
    /// All scopes, in the order of `openapi.yaml`.
    pub const ALL: [Self; 6] =
        [Self::MqRead, Self::MqWrite, Self::MqAdmin, Self::ProductsRead, Self::ProductsWrite, Self::OpsRead];

    /// Returns the scope's name in items of API keys and in problems, such as `mq:read`.
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

/// Error for a text that is not the name of a scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no such scope; the scopes are mq:read, mq:write, mq:admin, products:read, products:write and ops:read"
)]
pub struct ScopeError;

impl FromStr for Scope {
    type Err = ScopeError;

    fn from_str(text: &str) -> Result<Self, ScopeError> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or(ScopeError)
    }
}

/// Authenticated caller: tenant, key or token, and scopes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Id of the caller's tenant, from the item of the API key or from the token.
    pub tenant: String,
    credential: Credential,
    key_name: String,
    key_id: String,
    scopes: BTreeSet<Scope>,
    cnpjs: Option<BTreeSet<String>>,
}

/// Credential with which a caller was authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Credential {
    /// The caller sent the API key with this hash.
    Key(KeyHash),
    /// The caller sent a token of the issuer that the deployment accepts.
    Token,
    /// No credential: the caller is another function, or a test.
    None,
}

impl Principal {
    /// Creates a caller without a credential, whose scopes apply to every establishment of the
    /// tenant.
    pub fn new(tenant: impl Into<String>, scopes: impl IntoIterator<Item = Scope>) -> Self {
        Self {
            tenant: tenant.into(),
            credential: Credential::None,
            key_name: String::new(),
            key_id: String::new(),
            scopes: scopes.into_iter().collect(),
            cnpjs: None,
        }
    }

    fn of(key: KeyHash, item: KeyItem) -> Self {
        Self {
            tenant: item.tenant_id,
            credential: Credential::Key(key),
            key_name: item.name,
            key_id: key.id(),
            scopes: item.scopes.iter().filter_map(|name| name.parse().ok()).collect(),
            cnpjs: item.establishments.only().cloned(),
        }
    }

    /// Creates the caller that a token identifies. It may load every establishment of its tenant.
    fn of_token(bearer: Bearer) -> Self {
        let Bearer { tenant, name: key_name, scopes } = bearer;
        Self { tenant, credential: Credential::Token, key_name, key_id: String::new(), scopes, cnpjs: None }
    }

    /// Returns the name that people gave the caller's API key, or `token:` and the token's subject.
    #[must_use]
    pub fn key_name(&self) -> &str {
        &self.key_name
    }

    /// Returns the first eight digits of the hash of the caller's key, which distinguish it from
    /// other keys of the same name; empty for a token.
    #[must_use]
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// Returns the tenant's id as a UUID, which the ingest requires.
    ///
    /// # Errors
    /// `API_KEY_INVALID` if the key's item has an id that is not a UUID, and `TOKEN_INVALID` if the
    /// token has.
    pub fn tenant_id(&self) -> Result<Uuid, Problem> {
        self.tenant.parse().map_err(|error: uuid::Error| match self.credential {
            Credential::Token => challenged(TokenError::TenantForm.into()),
            Credential::Key(_) | Credential::None => self.refused("tenantId", &error),
        })
    }

    /// Returns the CNPJs (registration numbers), as the access table has them, of the
    /// establishments to which the caller is limited; `None` if it is not limited.
    #[must_use]
    pub const fn cnpjs(&self) -> Option<&BTreeSet<String>> {
        self.cnpjs.as_ref()
    }

    /// Logs that `member` of the API key's item cannot be parsed, and returns the problem that
    /// refuses the caller: a default value might permit more than the operator intended.
    #[must_use]
    pub fn refused(&self, member: &str, error: &(dyn std::error::Error + 'static)) -> Problem {
        let pk = match &self.credential {
            Credential::Key(hash) => pk::key(hash),
            Credential::Token | Credential::None => String::new(),
        };
        tracing::error!(
            event_type = "access.item_malformed",
            pk,
            member,
            error,
            "item `{pk}` of an API key is refused: its `{member}` cannot be used"
        );
        invalid()
    }

    /// Checks that the caller has at least one of these scopes.
    ///
    /// # Errors
    /// `SCOPE_REQUIRED` unless the caller has one of `scopes`.
    pub fn require_any(&self, scopes: &[Scope]) -> Result<(), Problem> {
        if scopes.iter().any(|scope| self.scopes.contains(scope)) {
            return Ok(());
        }
        let names: Vec<_> = scopes.iter().map(|scope| scope.as_str()).collect();
        let is_token = self.credential == Credential::Token;
        let what = if is_token { "token" } else { "API key" };
        let detail = format!("the {what} needs the scope {}", names.join(" or "));
        let problem = Problem::new(Reason::ScopeRequired, detail);
        // RFC 6750, 3.1.
        Err(if is_token { problem.header(WWW_AUTHENTICATE, SCOPE_CHALLENGE) } else { problem })
    }
}

/// Name of the header that carries the API key.
pub const API_KEY: &str = "x-api-key";
/// Names of the headers that carry the API key on the routes of the product ingest.
pub const PRODUCTS_API_KEYS: &[&str] = &[PRODUCTS_API_KEY, API_KEY];
const PRODUCTS_API_KEY: &str = "x-inova-api-key";
const WWW_AUTHENTICATE: &str = "www-authenticate";
const SCOPE_CHALLENGE: &str = r#"Bearer realm="integrahub", error="insufficient_scope""#;

/// Finds the caller by the header `X-Api-Key`, or by a token in the header `Authorization` if the
/// deployment accepts tokens. Records the caller in the fields `tenant`, `key_name` and `key_id` of
/// the current span.
///
/// # Errors
/// `API_KEY_REQUIRED`, `API_KEY_INVALID`, `TOKEN_INVALID`, or `STORE_UNAVAILABLE`.
pub async fn authenticate(store: &AccessStore, headers: &HeaderMap) -> Result<Principal, Problem> {
    authenticate_by(store, headers, &[API_KEY]).await
}

/// Finds the caller as [`authenticate`] does, with the API key in any of the headers `names`. If
/// several of them are sent, they must have the same key.
///
/// # Errors
/// `API_KEY_REQUIRED`, `API_KEY_INVALID`, `TOKEN_INVALID`, or `STORE_UNAVAILABLE`.
pub async fn authenticate_by(
    store: &AccessStore,
    headers: &HeaderMap,
    names: &[&str],
) -> Result<Principal, Problem> {
    let Some(tokens) = store.tokens() else {
        return by_key(store, api_key(headers, names, NoKey::AuthorizationUnread)?).await;
    };
    let found = match token::bearer(headers) {
        Ok(None) => match api_key(headers, names, NoKey::TokenPossible) {
            Ok(key) => by_key(store, key).await,
            Err(problem) => Err(problem),
        },
        Ok(Some(_)) if PRODUCTS_API_KEYS.iter().any(|name| headers.contains_key(*name)) => {
            Err(TokenError::WithKey.into())
        }
        Ok(Some(token)) => Box::pin(by_token(store, tokens, token)).await,
        Err(error) => Err(error.into()),
    };
    found.map_err(challenged)
}

/// Adds the header `WWW-Authenticate: Bearer` (RFC 6750, 3) to a problem about missing or invalid
/// credentials.
fn challenged(problem: Problem) -> Problem {
    match problem.reason {
        Reason::TokenInvalid => {
            problem.header(WWW_AUTHENTICATE, r#"Bearer realm="integrahub", error="invalid_token""#)
        }
        Reason::ApiKeyRequired | Reason::ApiKeyInvalid => {
            problem.header(WWW_AUTHENTICATE, r#"Bearer realm="integrahub""#)
        }
        _ => problem,
    }
}

/// Finds the caller of a token. The tenant must have an item and be enabled. The item is required
/// because otherwise tokens of a removed tenant would still work.
async fn by_token(store: &AccessStore, tokens: &Tokens, token: &str) -> Result<Principal, Problem> {
    let bearer = tokens.read(token).await?;
    Span::current().record("tenant", &bearer.tenant).record("key_name", &bearer.name);
    match store.known_tenant(&bearer.tenant).await {
        Ok(Some(tenant)) if tenant.enabled => Ok(Principal::of_token(bearer)),
        Ok(Some(_)) => Err(TokenError::TenantDisabled.into()),
        Ok(None) => Err(TokenError::TenantUnknown.into()),
        Err(AccessTableError::Malformed) => Err(TokenError::TenantMalformed.into()),
        Err(error @ AccessTableError::Unavailable) => Err(error.into()),
    }
}

async fn by_key(store: &AccessStore, api_key: &str) -> Result<Principal, Problem> {
    let api_key = ApiKey::from(api_key);
    let hash = api_key.hash();
    Span::current().record("key_id", hash.id());
    if api_key.is_damaged() {
        return Err(invalid());
    }
    let item = match store.key(&hash).await {
        Ok(Some(item)) => item,
        Ok(None) => return Err(invalid()),
        Err(error) => return Err(unread(&hash, error)),
    };
    Span::current().record("tenant", &item.tenant_id).record("key_name", &item.name);
    find(store, hash, item, Timestamp::now()).await
}

/// Returns the caller of an API key, if the key and its tenant are enabled and the key has not
/// expired. Records the key's use.
async fn find(
    store: &AccessStore,
    hash: KeyHash,
    item: KeyItem,
    now: Timestamp,
) -> Result<Principal, Problem> {
    if let Some(refusal) = item.refusal(&TenantItem::default(), now) {
        return Err(refuse(&hash, &refusal.to_string()));
    }
    let tenant = store.tenant(&item.tenant_id).await.map_err(|error| unread(&hash, error))?;
    if let Some(refusal) = item.refusal(&tenant, now) {
        return Err(refuse(&hash, &refusal.to_string()));
    }
    store.note_use(&hash, now.to_zoned(TimeZone::UTC).date()).await;
    Ok(Principal::of(hash, item))
}

/// Returns the problem for an API key whose item, or whose tenant's item, cannot be read.
fn unread(hash: &KeyHash, error: AccessTableError) -> Problem {
    match error {
        AccessTableError::Unavailable => error.into(),
        AccessTableError::Malformed => refuse(hash, "its item, or its tenant's, is malformed"),
    }
}

/// Logs why an existing API key is refused, and returns a problem that does not say why, because
/// the caller may have guessed the key. A key that does not exist is not logged here, so that
/// guessing does not fill the log.
fn refuse(hash: &KeyHash, why: &str) -> Problem {
    let key_id = hash.id();
    tracing::warn!(event_type = "access.key_refused", key_id, why, "key `{key_id}` is refused: {why}");
    invalid()
}

/// Hint about the header `Authorization` in the problem of a request without an API key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NoKey {
    /// The route accepts tokens, so the hint suggests one.
    TokenPossible,
    /// The header is not read, because the deployment accepts no tokens.
    AuthorizationUnread,
}

fn api_key<'a>(headers: &'a HeaderMap, names: &[&str], no_key: NoKey) -> Result<&'a str, Problem> {
    let mut values = names.iter().flat_map(|name| headers.get_all(*name));
    let Some(value) = values.next() else {
        return Err(Problem::new(Reason::ApiKeyRequired, missing(headers, names, no_key)));
    };
    if values.any(|other| other != value) {
        return Err(Problem::new(Reason::ApiKeyInvalid, "different API keys were sent"));
    }
    value.to_str().ok().filter(|key| !key.is_empty() && key.len() <= 256).ok_or_else(invalid)
}

/// Returns a sentence that names the headers for the API key, and the wrong header if the caller
/// seems to have used one.
fn missing(headers: &HeaderMap, names: &[&str], no_key: NoKey) -> String {
    let shown = |name: &&str| if *name == API_KEY { "X-Api-Key" } else { "X-Inova-Api-Key" };
    let names: Vec<&str> = names.iter().map(shown).collect();
    let hint = if headers.contains_key(PRODUCTS_API_KEY) {
        "; X-Inova-Api-Key is for the routes of products only"
    } else if no_key == NoKey::TokenPossible {
        ", or a token as `Authorization: Bearer …`"
    } else if headers.contains_key(AUTHORIZATION) {
        "; Authorization is not read"
    } else {
        ""
    };
    format!("send the API key in the header {}{hint}", names.join(" or "))
}

fn invalid() -> Problem {
    let detail = "the API key does not work here: is it complete, of this deployment, and neither expired nor disabled? A new key works after a minute at most";
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
        api_key(&headers, NAMES, NoKey::AuthorizationUnread)
            .map(str::to_owned)
            .map_err(|problem| problem.reason)
    }

    #[test]
    fn any_of_the_headers_carries_the_key() {
        assert_eq!(reason(&[(API_KEY, "a")]), Ok("a".to_owned()));
        assert_eq!(reason(&[("x-inova-api-key", "a")]), Ok("a".to_owned()));
        assert_eq!(reason(&[("x-inova-api-key", "a"), (API_KEY, "a")]), Ok("a".to_owned()));
        assert_eq!(reason(&[("x-other", "a")]), Err(Reason::ApiKeyRequired));
    }

    #[test]
    fn a_key_without_the_scope_is_sent_no_challenge() {
        let problem = Principal::new("a", [Scope::MqRead]).require_any(&[Scope::MqWrite]).unwrap_err();
        assert_eq!((problem.reason, problem.headers.len()), (Reason::ScopeRequired, 0));
    }

    #[test]
    fn nobody_is_two_callers_at_once() {
        assert_eq!(reason(&[("x-inova-api-key", "a"), (API_KEY, "b")]), Err(Reason::ApiKeyInvalid));
        assert_eq!(reason(&[(API_KEY, "a"), (API_KEY, "b")]), Err(Reason::ApiKeyInvalid));
        assert_eq!(reason(&[(API_KEY, "")]), Err(Reason::ApiKeyInvalid));
    }
}
