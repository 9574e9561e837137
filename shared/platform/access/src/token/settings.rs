//! Settings of the tokens that a deployment takes.

use std::net::IpAddr;
use std::str::FromStr;

use jsonwebtoken::Algorithm;
use url::{Host, Url};

use super::provider;

/// Settings of the tokens (RFC 7519) that callers may send in place of an API key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSettings {
    /// Value that the claim `iss` must have.
    pub issuer: String,
    /// Values of which the claim `aud` must have one.
    pub audiences: Audiences,
    /// Address of the issuer's key set.
    pub jwks_url: JwksUrl,
    /// Name of the claim that has the tenant's id.
    pub tenant_claim: String,
    /// Name of the claim that has the scopes.
    pub scopes_claim: String,
    /// Algorithms of signatures.
    pub algorithms: Algorithms,
}

/// Values of the claim `aud`, separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audiences(pub(super) Vec<String>);

/// Algorithms of signatures, separated by commas: RSA or elliptic curves alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Algorithms(pub(super) Vec<Algorithm>);

/// Address of a key set: `https`, or `http` on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwksUrl(pub(super) Url);

/// Fault of a setting of tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenSettingError {
    /// The list has no audience.
    #[error("it names no audience")]
    Audience,
    /// An algorithm is not known, or has a shared secret.
    #[error("`{0}` is none of RS256, RS384, RS512, PS256, PS384, PS512, ES256 and ES384")]
    Algorithm(String),
    /// The text is not an address.
    #[error("it is no URL")]
    Url(#[source] url::ParseError),
    /// The address is one that anybody on the way could answer for.
    #[error("it must be https; http is for a loopback address alone")]
    Scheme,
}

impl Default for Algorithms {
    /// Returns RS256 and ES256, which all issuers have one of.
    fn default() -> Self {
        Self(vec![Algorithm::RS256, Algorithm::ES256])
    }
}

impl JwksUrl {
    /// Returns the usual address of an issuer's key set.
    #[must_use]
    pub fn usual(issuer: &str) -> String {
        format!("{}/.well-known/jwks.json", issuer.trim_end_matches('/'))
    }
}

impl FromStr for Audiences {
    type Err = TokenSettingError;

    fn from_str(text: &str) -> Result<Self, TokenSettingError> {
        let audiences: Vec<_> = listed(text).map(str::to_owned).collect();
        if audiences.is_empty() { Err(TokenSettingError::Audience) } else { Ok(Self(audiences)) }
    }
}

impl FromStr for Algorithms {
    type Err = TokenSettingError;

    fn from_str(text: &str) -> Result<Self, TokenSettingError> {
        let known =
            |name: &str| name.parse::<Algorithm>().ok().filter(|algorithm| provider::checks(*algorithm));
        let algorithm = |name: &str| known(name).ok_or_else(|| TokenSettingError::Algorithm(name.to_owned()));
        let algorithms = listed(text).map(algorithm).collect::<Result<Vec<_>, _>>()?;
        if algorithms.is_empty() {
            return Err(TokenSettingError::Algorithm(String::new()));
        }
        Ok(Self(algorithms))
    }
}

impl FromStr for JwksUrl {
    type Err = TokenSettingError;

    fn from_str(text: &str) -> Result<Self, TokenSettingError> {
        let url: Url = text.parse().map_err(TokenSettingError::Url)?;
        let is_here = match url.host() {
            Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
            Some(Host::Ipv6(address)) => IpAddr::from(address).is_loopback(),
            Some(Host::Domain(_)) | None => false,
        };
        match url.scheme() {
            "https" => Ok(Self(url)),
            "http" if is_here => Ok(Self(url)),
            _ => Err(TokenSettingError::Scheme),
        }
    }
}

/// Returns the parts of a list that is separated by commas.
fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_algorithm_has_a_shared_secret_or_no_signature() {
        assert_eq!("RS256, ES256".parse(), Ok(Algorithms::default()));
        for name in ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384"] {
            assert_eq!(name.parse(), Ok(Algorithms(vec![name.parse().unwrap()])), "{name}");
        }
        for other in ["", ",", "HS256", "RS256,HS256", "none", "rs256", "EdDSA"] {
            assert!(other.parse::<Algorithms>().is_err(), "{other}");
        }
    }

    #[test]
    fn keys_come_by_https_or_from_this_machine() {
        let own = JwksUrl::usual("https://issuer.example.com/pool/");
        assert_eq!(own, "https://issuer.example.com/pool/.well-known/jwks.json");
        for fine in [own.as_str(), "http://127.0.0.1:80/keys", "http://[::1]/keys"] {
            assert!(fine.parse::<JwksUrl>().is_ok(), "{fine}");
        }
        for other in
            ["http://issuer.example.com/keys", "http://localhost/keys", "http://10.0.0.1/", "file:///keys"]
        {
            assert_eq!(other.parse::<JwksUrl>(), Err(TokenSettingError::Scheme), "{other}");
        }
        assert!(matches!("keys".parse::<JwksUrl>(), Err(TokenSettingError::Url(_))));
    }

    #[test]
    fn there_is_an_audience_at_least() {
        assert_eq!("a, b,".parse(), Ok(Audiences(vec!["a".to_owned(), "b".to_owned()])));
        assert_eq!(" ,".parse::<Audiences>(), Err(TokenSettingError::Audience));
    }
}
