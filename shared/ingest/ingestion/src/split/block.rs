/// Positions of the quotation marks and brackets in a block of 64 bytes, as bit masks: bit `i`
/// stands for byte `i`.
pub(super) struct Block {
    quotes: u64,
    /// Mask of the opening and closing brackets, including those within strings.
    pub(super) brackets: u64,
}

impl Block {
    pub(super) const LENGTH: usize = 64;

    /// Reads a block of 64 bytes; `None` if it contains a backslash, after which a quotation mark
    /// may not end a string.
    pub(super) fn of(bytes: &[u8; Self::LENGTH], open: u8, close: u8) -> Option<Self> {
        // Without an early way out, so that many bytes are compared at once.
        if bytes.iter().fold(0, |found, byte| found | u8::from(*byte == b'\\')) != 0 {
            return None;
        }
        let quotes = places(bytes, |byte| byte == b'"');
        let brackets = places(bytes, |byte| (byte == open) | (byte == close));
        Some(Self { quotes, brackets })
    }

    /// Returns the mask of the bytes within strings. An opening quotation mark counts as inside, a
    /// closing one as outside. `inside` is true if the block begins within a string.
    pub(super) const fn inside_strings(&self, inside: bool) -> u64 {
        // Each bit becomes the parity of the quotation marks up to it.
        let mut parity = self.quotes;
        parity ^= parity << 1;
        parity ^= parity << 2;
        parity ^= parity << 4;
        parity ^= parity << 8;
        parity ^= parity << 16;
        parity ^= parity << 32;
        if inside { !parity } else { parity }
    }
}

/// Returns the mask of the bytes that `wanted` accepts. It is written so that the compiler compares
/// many bytes at once.
fn places(bytes: &[u8; Block::LENGTH], wanted: impl Fn(u8) -> bool) -> u64 {
    // Eight bytes of 0 or 1, the first in the lowest place, times this have them as bits in the
    // highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let mut found = [0_u8; Block::LENGTH];
    for (found, byte) in found.iter_mut().zip(bytes) {
        *found = u8::from(wanted(*byte));
    }
    let (words, _) = found.as_chunks::<8>();
    words
        .iter()
        .rev()
        .fold(0, |mask, word| (mask << 8) | (u64::from_le_bytes(*word).wrapping_mul(GATHER) >> 56))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_block_says_what_its_bytes_are(text in "[a\"{}]{64}", inside: bool) {
            let bytes: [u8; 64] = text.as_bytes().try_into().unwrap();
            let block = Block::of(&bytes, b'{', b'}').unwrap();
            let strings = block.inside_strings(inside);
            let mut within = inside;
            for (place, byte) in bytes.iter().enumerate() {
                within ^= *byte == b'"';
                prop_assert_eq!(strings >> place & 1 == 1, within);
                prop_assert_eq!(block.brackets >> place & 1 == 1, matches!(byte, b'{' | b'}'));
            }
        }
    }

    #[test]
    fn a_backslash_is_left_to_others() {
        let mut bytes = [b'a'; 64];
        bytes[63] = b'\\';
        assert!(Block::of(&bytes, b'{', b'}').is_none());
    }
}
