//! Fingerprints, which distinguish requests under one key.

mod canonical;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// SHA-256, in hex, of the canonical form (RFC 8785) of a body as it was sent: order of members,
/// white space, escapes and spelling of numbers do not matter (`16.0` is the integer 16); values,
/// the order of items and the code points of text do, and `null` differs from absence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

/// Reason why a body has no fingerprint.
#[derive(Debug, thiserror::Error)]
pub enum FingerprintError {
    /// The body has an integer beyond ±(2^53-1). Beyond that, different integers have one canonical
    /// form, since its numbers are doubles.
    #[error("the integer {0} is beyond ±9007199254740991 (2^53-1)")]
    IntegerTooLarge(serde_json::Number),
    /// The canonical form could not be written.
    #[error("the body has no canonical form: {0}")]
    NotCanonical(serde_json::Error),
}

impl Fingerprint {
    /// Calculates the fingerprint of a body that was parsed strictly: of two members of one name a
    /// [`Value`] holds only the last, and integers beyond `u64` it holds as doubles, so a parser
    /// has to refuse both before.
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

/// Returns the canonical form (RFC 8785), in UTF-8.
fn canonical(body: &Value) -> Result<Vec<u8>, FingerprintError> {
    let mut form = Vec::new();
    canonical::write(body, &mut form)?;
    Ok(form)
}

#[cfg(test)]
mod tests;
