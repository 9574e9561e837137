//! Message bodies that are too large for a request. Clients upload such a body beforehand, and name
//! it in the request by its SHA-256.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bounded::bounded;

bounded!(
    /// Size in bytes of an uploaded body, at most 32 MiB. The uploaded bodies of a request together
    /// have the same limit.
    UploadSize: u32, 1..=33_554_432, default 1
);

/// Reference to an uploaded body by its SHA-256. The digest is part of the request's fingerprint,
/// so the same request always means the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BodyRef([u8; 32]);

impl BodyRef {
    /// Maximum number of `bodyRef` members in the messages of a request. Repeated references to the
    /// same body count again.
    pub const MOST: usize = 100;

    /// Creates the reference to the body with this digest.
    #[must_use]
    pub const fn new(sha256: [u8; 32]) -> Self {
        Self(sha256)
    }

    /// Returns the SHA-256 digest of the body.
    #[must_use]
    pub const fn sha256(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for BodyRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl From<BodyRef> for String {
    fn from(body: BodyRef) -> Self {
        body.to_string()
    }
}

impl TryFrom<String> for BodyRef {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let mut sha256 = [0; 32];
        let is_digest = hex::decode_to_slice(&text, &mut sha256).is_ok();
        let body = Self(sha256);
        if is_digest && body.to_string() == text {
            Ok(body)
        } else {
            Err("must be a SHA-256 of 64 hexadecimal digits in lower case")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_one_spelling() {
        let text = "0a".repeat(32);
        let body = BodyRef::try_from(text.clone()).unwrap();
        assert_eq!((body, String::from(body)), (BodyRef::new([10; 32]), text.clone()));
        for other in [text.to_uppercase(), "0a".repeat(31), "0a".repeat(33), "zz".repeat(32), String::new()] {
            assert!(BodyRef::try_from(other.clone()).is_err(), "{other}");
        }
    }
}
