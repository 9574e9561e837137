use std::fmt;

use sha2::{Digest, Sha256};

use super::ProductKey;

/// Identifies a product's key in little space: 16 bytes of a SHA-256. It stands for the key where
/// chunks say which products they contained.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub [u8; 16]);

/// Identifies a product's content: 16 bytes of a SHA-256 over the typed attributes, so neither
/// spelling nor order matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowHash(pub [u8; 16]);

impl KeyHash {
    /// The hash of a key. Stored with chunks, so it never changes.
    #[must_use]
    pub fn of(key: &ProductKey) -> Self {
        let mut hash = Sha256::new();
        hash.update(key.cnpj.as_bytes());
        hash.update(key.shop_id.to_be_bytes());
        hash.update(key.product_id.as_bytes());
        Self(first_half(hash))
    }
}

impl RowHash {
    pub(super) fn of(encoded: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(encoded);
        Self(first_half(hash))
    }
}

fn first_half(hash: Sha256) -> [u8; 16] {
    let [half @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _]: [u8; 32] = hash.finalize().into();
    half
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "KeyHash({})", hex::encode(self.0))
    }
}

impl fmt::Debug for RowHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RowHash({})", hex::encode(self.0))
    }
}
