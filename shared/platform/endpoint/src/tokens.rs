//! Settings of the tokens that callers may send in place of an API key.

use access::{Audiences, JwksUrl, TokenSettings};
use runtime::Environment;

/// Reads the token settings from environment variables; `None` if they name no issuer, so that the
/// function accepts API keys only.
pub fn token_settings<F: Fn(&str) -> Option<String>>(
    environment: &mut Environment<F>,
) -> Option<TokenSettings> {
    let issuer: String = environment.given("JWT_ISSUER")?;
    let audiences: Audiences = environment.required("JWT_AUDIENCE");
    let tenant_claim = environment.optional("JWT_TENANT_CLAIM", "tenant".to_owned());
    let scopes_claim = environment.optional("JWT_SCOPES_CLAIM", "scope".to_owned());
    let url = environment.optional("JWT_JWKS_URL", JwksUrl::usual(&issuer));
    match url.parse::<JwksUrl>() {
        Ok(jwks_url) => Some(TokenSettings { issuer, audiences, jwks_url, tenant_claim, scopes_claim }),
        Err(error) => {
            environment.refuse(format!("JWT_JWKS_URL: {error}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUER: (&str, &str) = ("JWT_ISSUER", "https://issuer.example.com/");
    const AUDIENCE: (&str, &str) = ("JWT_AUDIENCE", "integrahub");

    fn read(variables: &[(&str, &str)]) -> Result<Option<TokenSettings>, String> {
        let value = |name: &str| variables.iter().find(|(known, _)| *known == name);
        let mut environment = Environment::of(|name| value(name).map(|(_, value)| (*value).to_owned()));
        let settings = token_settings(&mut environment);
        environment.check().map(|()| settings).map_err(|error| error.to_string())
    }

    #[test]
    fn without_an_issuer_no_token_is_taken() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("JWT_ISSUER", ""), AUDIENCE, ("JWT_JWKS_URL", "nonsense")]), Ok(None));
    }

    #[test]
    fn an_issuer_needs_an_audience_and_has_defaults_for_the_rest() {
        let settings = read(&[ISSUER, AUDIENCE]).unwrap().unwrap();
        let expected = TokenSettings {
            issuer: ISSUER.1.to_owned(),
            audiences: "integrahub".parse().unwrap(),
            jwks_url: "https://issuer.example.com/.well-known/jwks.json".parse().unwrap(),
            tenant_claim: "tenant".to_owned(),
            scopes_claim: "scope".to_owned(),
        };
        assert_eq!(settings, expected);
        assert!(read(&[ISSUER]).unwrap_err().contains("JWT_AUDIENCE is missing"));
    }

    #[test]
    fn everything_wrong_is_reported_together() {
        let wrong = [ISSUER, ("JWT_JWKS_URL", "http://issuer.example.com")];
        let faults = read(&wrong).unwrap_err();
        for name in ["JWT_AUDIENCE", "JWT_JWKS_URL"] {
            assert!(faults.contains(name), "{name}: {faults}");
        }
    }
}
