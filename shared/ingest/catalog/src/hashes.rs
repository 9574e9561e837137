//! Hashes that the database stores for each item of a chunk: only the first bytes.
//!
//! A chunk's row keeps 13 bytes for each item, so that queries can find out long afterwards which
//! products the chunk contained, and with what content.
//!
//! - 8 bytes are of the key's hash, as one number. Among a million keys of an establishment, two
//!   share a number once in forty million such establishments.
//! - 5 bytes are of the content's hash. They only have to show whether a chunk contained a product
//!   with exactly the content that the table has. So each comparison is with one other content of
//!   the same product, and is wrong once in 10^12. A late item then counts as outdated by mistake,
//!   and the table keeps the content that it has until a newer load replaces it.

/// Returns the first eight bytes of a hash, as a big-endian number.
pub(crate) const fn first_eight(hash: [u8; 16]) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = hash;
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Returns the first five bytes of a hash.
pub(crate) const fn first_five(hash: [u8; 16]) -> [u8; 5] {
    let [a, b, c, d, e, ..] = hash;
    [a, b, c, d, e]
}
