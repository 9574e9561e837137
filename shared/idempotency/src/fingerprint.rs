//! What tells one request under a key from another.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The SHA-256, in hex, of the canonical form (RFC 8785) of a body as it was sent: order, white space and spelling of
/// numbers do not matter, and `null` is not absence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// # Errors
    /// When the body has no canonical form; a strictly parsed one always does.
    pub fn of(body: &Value) -> Result<Self, serde_json::Error> {
        serde_json_canonicalizer::to_vec(body).map(|canonical| Self(hex::encode(Sha256::digest(canonical))))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> Fingerprint {
        Fingerprint::of(&serde_json::from_str(json).unwrap()).unwrap()
    }

    #[test]
    fn order_and_white_space_do_not_matter() {
        assert_eq!(of(r#"{"a":1,"b":[true,null]}"#), of("{ \"b\" : [ true, null ],\n \"a\" : 1 }"));
    }

    #[test]
    fn values_null_and_the_order_of_items_do() {
        let base = of(r#"{"a":[1,2]}"#);
        for other in [r#"{"a":[2,1]}"#, r#"{"a":[1,2],"b":null}"#, r#"{"a":["1",2]}"#, r#"{"A":[1,2]}"#] {
            assert_ne!(base, of(other), "{other}");
        }
    }

    /// The digest that any other implementation of RFC 8785 and SHA-256 gets: `printf '{"a":1,"b":"x"}' | sha256sum`.
    #[test]
    fn the_fingerprint_is_plain_sha_256_of_the_canonical_form() {
        let expected = hex::encode(Sha256::digest(br#"{"a":1,"b":"x"}"#));
        assert_eq!(of(r#"{"b":"x", "a":1.0}"#).as_str(), expected);
    }
}
