//! Tokens of an issuer (RFC 7519), which callers may send in place of an API key if a deployment
//! names the issuer.
//!
//! The issuer decides who the caller is: which tenant, and with which scopes. Otherwise a token is
//! treated like an API key. But it has no item in the access table, and is valid until it expires.

mod jwks;
mod keys;
mod provider;
mod settings;

pub use settings::{Audiences, JwksUrl, TokenSettingError, TokenSettings};

use std::collections::BTreeSet;

use api::{Problem, Reason};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation};
use serde_json::{Map, Value};

use crate::caller::Scope;
use crate::items::check_tenant_id;
use crate::token::jwks::{Jwks, NoKeys};

/// Maximum bytes of a token.
const LONGEST: usize = 8 * 1024;
/// Maximum number of characters of a token's subject in the caller's name.
const LONGEST_SUBJECT: usize = 64;
/// Seconds by which the clocks of the issuer and of this function may differ.
const LEEWAY: u64 = 60;
/// Seconds in `Retry-After` if no key of the issuer is known.
const RETRY: u32 = 5;

/// Verifier of the tokens of one issuer.
#[derive(Debug)]
pub(crate) struct Tokens {
    /// Validation rules for each signature algorithm.
    rules: Vec<(Algorithm, Validation)>,
    tenant_claim: String,
    scopes_claim: String,
    jwks: Jwks,
}

/// Caller that a verified token identifies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bearer {
    /// Id of the tenant. A UUID has its usual spelling; a token with another spelling is refused.
    pub(crate) tenant: String,
    /// Name of the caller in logs, idempotency records and usage counters: `token:` and the first
    /// printable characters of the token's subject.
    pub(crate) name: String,
    pub(crate) scopes: BTreeSet<Scope>,
}

/// Reason why a token is refused. Its text repeats nothing of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("send one token, as `Authorization: Bearer …`")]
    Several,
    #[error("send an API key or a token, and not both")]
    WithKey,
    #[error("the token has more than {LONGEST} bytes")]
    Long,
    #[error("the token is not a signed JWT of three parts")]
    Form,
    #[error("the token's header names no algorithm that is allowed here, or is malformed")]
    Algorithm,
    #[error("the token's header has no `kid`")]
    KeyId,
    #[error(
        "the issuer has no key for the token's `kid` and algorithm; a new key may take a minute to be known"
    )]
    Key,
    #[error("the token's signature is wrong")]
    Signature,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    Early,
    #[error("the token is of another issuer")]
    Issuer,
    #[error("the token is for another audience")]
    Audience,
    #[error("the token needs the claims iss, aud, sub and exp, each of its own type")]
    Claims,
    #[error("the token has no tenant, or one that is no tenant's id")]
    Tenant,
    #[error(
        "the token's tenant is unknown here; a tenant that was just created may take a minute to be known"
    )]
    TenantUnknown,
    #[error("the token's tenant is disabled")]
    TenantDisabled,
    #[error("the item of the token's tenant is malformed; an operator has to correct it")]
    TenantMalformed,
    #[error("the token's tenant is not a UUID, which the routes of the ingest need")]
    TenantForm,
    #[error("no key of the issuer is known, and its key set cannot be fetched")]
    Unavailable,
}

impl TokenError {
    /// Returns whether the issuer has signed the refused token. Only then is the refusal logged, so
    /// that nobody else can fill the log.
    const fn is_of_issuer(self) -> bool {
        match self {
            Self::Expired
            | Self::Early
            | Self::Issuer
            | Self::Audience
            | Self::Claims
            | Self::Tenant
            | Self::TenantUnknown
            | Self::TenantDisabled
            | Self::TenantMalformed
            | Self::TenantForm => true,
            Self::Several
            | Self::WithKey
            | Self::Long
            | Self::Form
            | Self::Algorithm
            | Self::KeyId
            | Self::Key
            | Self::Signature
            | Self::Unavailable => false,
        }
    }
}

impl From<TokenError> for Problem {
    fn from(error: TokenError) -> Self {
        if error.is_of_issuer() {
            tracing::warn!(event_type = "access.token_refused", why = %error, "a token is refused: {error}");
        }
        match error {
            TokenError::Unavailable => {
                Self::new(Reason::StoreUnavailable, error.to_string()).retry_after(RETRY)
            }
            _ => Self::new(Reason::TokenInvalid, error.to_string()),
        }
    }
}

impl From<&ErrorKind> for TokenError {
    fn from(kind: &ErrorKind) -> Self {
        match kind {
            ErrorKind::InvalidSignature => Self::Signature,
            ErrorKind::ExpiredSignature => Self::Expired,
            ErrorKind::ImmatureSignature => Self::Early,
            ErrorKind::InvalidIssuer => Self::Issuer,
            ErrorKind::InvalidAudience => Self::Audience,
            ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => Self::Claims,
            ErrorKind::InvalidAlgorithm | ErrorKind::InvalidAlgorithmName => Self::Algorithm,
            _ => Self::Form,
        }
    }
}

/// Returns the bearer token in a request's headers, if there is one.
///
/// # Errors
/// If there are several.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Option<&str>, TokenError> {
    let mut tokens = headers.get_all(AUTHORIZATION).iter().filter_map(|value| {
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    let token = tokens.next();
    if tokens.next().is_some() {
        return Err(TokenError::Several);
    }
    Ok(token)
}

impl Tokens {
    /// Creates a verifier of tokens. It fetches the issuer's keys when it verifies the first token.
    pub(crate) fn new(settings: TokenSettings) -> Self {
        provider::install();
        let TokenSettings { issuer, audiences, jwks_url, tenant_claim, scopes_claim } = settings;
        let rules = |algorithm: Algorithm| {
            let mut rules = Validation::new(algorithm);
            rules.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
            rules.set_issuer(&[&issuer]);
            rules.set_audience(&audiences.0);
            rules.validate_nbf = true;
            rules.leeway = LEEWAY;
            (algorithm, rules)
        };
        let rules = provider::ALGORITHMS.into_iter().map(rules).collect();
        Self { rules, tenant_claim, scopes_claim, jwks: Jwks::new(jwks_url) }
    }

    /// Verifies the signature and the claims of a token, and returns its caller.
    ///
    /// # Errors
    /// Returns the first check that failed, or that no key of the issuer is known.
    pub(crate) async fn read(&self, token: &str) -> Result<Bearer, TokenError> {
        if token.len() > LONGEST {
            return Err(TokenError::Long);
        }
        let header = jsonwebtoken::decode_header(token).map_err(|error| unreadable(error.kind()))?;
        // Members that the issuer wants understood, which none are (RFC 7515, 4.1.11).
        if header.crit.is_some() {
            return Err(TokenError::Form);
        }
        let rules = self.rules.iter().find(|(algorithm, _)| *algorithm == header.alg);
        let (algorithm, rules) = rules.ok_or(TokenError::Algorithm)?;
        let id = header.kid.ok_or(TokenError::KeyId)?;
        let key = self.jwks.key(&id, *algorithm).await.map_err(|NoKeys| TokenError::Unavailable)?;
        let key = key.ok_or(TokenError::Key)?;
        let read = jsonwebtoken::decode::<Map<String, Value>>(token, &key, rules);
        let claims = read.map_err(|error| TokenError::from(error.kind()))?.claims;
        let tenant = claims.get(&self.tenant_claim).and_then(Value::as_str).ok_or(TokenError::Tenant)?;
        check_tenant_id(tenant).map_err(|_| TokenError::Tenant)?;
        Ok(Bearer {
            tenant: tenant.to_owned(),
            name: name(claims.get("sub").and_then(Value::as_str).unwrap_or_default()),
            scopes: scopes(claims.get(&self.scopes_claim)),
        })
    }
}

/// Converts an error about a token's header to the reason why the token is refused. For an unknown
/// algorithm, such as `none`, `jsonwebtoken` reports invalid JSON.
fn unreadable(kind: &ErrorKind) -> TokenError {
    match kind {
        ErrorKind::Json(error) if error.is_data() => TokenError::Algorithm,
        _ => TokenError::Form,
    }
}

/// Returns the name of a token's caller: `token:` and the subject's first printable characters.
fn name(subject: &str) -> String {
    let is_printable =
        |character: &char| !character.is_control() && (*character == ' ' || !character.is_whitespace());
    let subject: String = subject.chars().filter(is_printable).take(LONGEST_SUBJECT).collect();
    format!("token:{subject}")
}

/// Parses the scopes in a token's claim: a text with spaces between them (RFC 8693, 4.2), or a
/// list. Unknown names permit nothing.
fn scopes(claim: Option<&Value>) -> BTreeSet<Scope> {
    let known = |text: &str| text.parse().ok();
    match claim {
        Some(Value::String(text)) => text.split_ascii_whitespace().filter_map(known).collect(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).filter_map(known).collect(),
        _ => BTreeSet::new(),
    }
}

#[cfg(test)]
mod tests;
