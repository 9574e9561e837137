//! Settings of the tokens that a deployment accepts.

use std::net::IpAddr;
use std::str::FromStr;

use url::{Host, Url};

/// Settings of the tokens (RFC 7519) that callers may send in place of an API key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSettings {
    /// Required value of the claim `iss`.
    pub issuer: String,
    /// Accepted values of the claim `aud`, of which a token must have one.
    pub audiences: Audiences,
    /// URL of the issuer's key set (JWKS).
    pub jwks_url: JwksUrl,
    /// Name of the claim that contains the tenant's id.
    pub tenant_claim: String,
    /// Name of the claim that contains the scopes.
    pub scopes_claim: String,
}

/// Accepted values of the claim `aud`, parsed from a list separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audiences(pub(super) Vec<String>);

/// URL of a key set (JWKS): `https`, or `http` with a loopback address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwksUrl(pub(super) Url);

/// Fault of a token setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenSettingError {
    /// The list of accepted audiences is empty.
    #[error("it names no audience")]
    Audience,
    /// The text for the key set's URL is not a URL.
    #[error("it is no URL")]
    Url(#[source] url::ParseError),
    /// The URL is neither `https` nor `http` with a loopback address. Another host on the network
    /// could impersonate the issuer.
    #[error("it must be https; http is for a loopback address alone")]
    Scheme,
}

impl JwksUrl {
    /// Returns the usual URL of an issuer's key set: `<issuer>/.well-known/jwks.json`.
    #[must_use]
    pub fn usual(issuer: &str) -> String {
        format!("{}/.well-known/jwks.json", issuer.trim_end_matches('/'))
    }
}

impl FromStr for Audiences {
    type Err = TokenSettingError;

    fn from_str(text: &str) -> Result<Self, TokenSettingError> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let audiences: Vec<_> = parts.map(str::to_owned).collect();
        if audiences.is_empty() { Err(TokenSettingError::Audience) } else { Ok(Self(audiences)) }
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

#[cfg(test)]
mod tests {
    use super::*;

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
