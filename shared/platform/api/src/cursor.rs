//! Cursors, which encode the position at which the next page of a list begins.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// Length in bytes of the hash in a cursor, which binds the cursor to its list.
const TAG: usize = 8;

/// Identity of a list of results: a hash of the tenant and its query. A cursor of another list is
/// refused, because it would skip items.
#[derive(Clone, Debug)]
pub struct ListOf(Sha256);

impl ListOf {
    /// Creates the identity of a tenant's list. `asked` has the texts that determine its content,
    /// such as the kind of list and its filters.
    #[must_use]
    pub fn new(tenant: impl AsRef<[u8]>, asked: &[&str]) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"integrahub.cursor.1");
        hash.update(tenant);
        for text in asked {
            hash.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(text.as_bytes());
        }
        Self(hash)
    }

    /// Encodes a position in the list as a cursor for the next page.
    #[must_use]
    pub fn cursor<const N: usize>(&self, position: [u8; N]) -> String {
        let mut bytes = position.to_vec();
        bytes.extend(self.tag(&position));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Decodes the position in a cursor; `None` if the text is not a cursor of this list.
    #[must_use]
    pub fn position<const N: usize>(&self, cursor: &str) -> Option<[u8; N]> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let (position, tag) = bytes.split_first_chunk::<N>()?;
        (tag == self.tag(position)).then_some(*position)
    }

    fn tag(&self, position: &[u8]) -> [u8; TAG] {
        let hash: [u8; 32] = self.0.clone().chain_update(position).finalize().into();
        hash.first_chunk().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cursor_is_of_one_list() {
        let list = ListOf::new("one", &["batches", "FAILED", ""]);
        let cursor = list.cursor([7; 16]);
        assert_eq!(list.position(&cursor), Some([7; 16]));
        for other in [
            ListOf::new("two", &["batches", "FAILED", ""]),
            ListOf::new("one", &["batches", "", ""]),
            ListOf::new("one", &["batches", "", "FAILED"]),
        ] {
            assert_eq!(other.position::<16>(&cursor), None);
        }
        assert_eq!(list.position::<8>(&cursor), None);
    }

    proptest! {
        #[test]
        fn what_is_no_cursor_has_no_position(text in "\\PC{0,40}") {
            prop_assert_eq!(ListOf::new("one", &[]).position::<16>(&text), None);
        }
    }
}
