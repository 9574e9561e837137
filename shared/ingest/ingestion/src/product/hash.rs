use sha2::{Digest as _, Sha256};

use super::{Attributes, ProductKey, RowHasher};

/// Hash of a product's key: 16 bytes of a SHA-256. The database stores the first 8 with each chunk,
/// to tell later which products the chunk contained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub [u8; 16]);

/// Hash of a product's content: 16 bytes of a SHA-256 over the typed attributes, so that neither
/// the spelling of values nor the order of members matters. [`RowHasher`] calculates many of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowHash(pub [u8; 16]);

impl KeyHash {
    /// Calculates the hash of a product's key. The calculation never changes, because hashes are
    /// stored with chunks.
    #[must_use]
    pub fn of(key: &ProductKey) -> Self {
        let mut hash = Sha256::new();
        hash.update(key.cnpj.as_bytes());
        hash.update(key.shop_id.to_be_bytes());
        hash.update(key.product_id.as_bytes());
        Self(first_half(hash.finalize()))
    }
}

impl RowHash {
    /// Calculates the hash of a product's content, which is stored with the product. `canonical.rs`
    /// describes its input.
    #[must_use]
    pub fn of(attributes: &Attributes<'_>) -> Self {
        RowHasher::default().hash(attributes)
    }
}

pub(super) fn first_half(digest: impl Into<[u8; 32]>) -> [u8; 16] {
    let [half @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = digest.into();
    half
}
