//! Fingerprints of request bodies, which distinguish the requests that have the same idempotency
//! key.

mod canonical;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Fingerprint of a request body: the SHA-256, in hex, of its canonical form (RFC 8785). Order of
/// members, white space, escapes and spelling of numbers do not change it; values, the order of
/// items, code points of strings, and `null` in place of absence do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

/// Reason why a body has no fingerprint.
#[derive(Debug, thiserror::Error)]
pub enum FingerprintError {
    /// The body has an integer beyond ±(2^53-1). Two such integers may have the same canonical
    /// form, in which numbers are doubles.
    #[error("the integer {0} is beyond ±9007199254740991 (2^53-1)")]
    IntegerTooLarge(serde_json::Number),
    /// The canonical form could not be written.
    #[error("the body has no canonical form: {0}")]
    NotCanonical(serde_json::Error),
}

impl Fingerprint {
    /// Computes the fingerprint of a body. The parser must have refused repeated members, of which
    /// a [`Value`] keeps only the last, and integers beyond `u64`, which it keeps as doubles.
    ///
    /// # Errors
    /// [`FingerprintError::IntegerTooLarge`] for an integer beyond ±(2^53-1).
    pub fn of(body: &Value) -> Result<Self, FingerprintError> {
        canonical(body).map(|canonical| Self(hex::encode(Sha256::digest(canonical))))
    }

    /// Returns the fingerprint in lower-case hex, 64 characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the canonical form of a JSON value (RFC 8785), in UTF-8.
fn canonical(body: &Value) -> Result<Vec<u8>, FingerprintError> {
    let mut form = Vec::new();
    canonical::write(body, &mut form)?;
    Ok(form)
}

#[cfg(test)]
mod tests;
