//! Hashes that the database stores for each item of a chunk: only the first bytes.
//!
//! A chunk keeps 13 bytes an item, so that it can be asked long afterwards which products it
//! contained, and with what content.
//!
//! - 8 bytes are of the key's hash, as one number. Among a million keys of an establishment, two
//!   share a number once in forty million such establishments.
//! - 5 bytes are of the content's hash. The only question is whether a chunk contained a product
//!   with exactly the content that the table has, so each comparison is with one other content of
//!   the same product, and is wrong once in 10^12. Then a late item would count as outranked, and
//!   the table would keep the content that a newer load replaces again.

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
