//! Hashes as the database compares them: the beginnings of those that chunks carry.
//!
//! A chunk keeps 13 bytes an item, to say long after which products a batch contained and with what content. 8 of them are of the key's hash, as one
//! number: two of a million keys of an establishment meet once in forty million such establishments. 5 are of the content's: it is only asked whether a
//! batch contained a product with the very content that the table has, so each comparison is with one other content of the same product, and takes it
//! for the same once in 10^12. Then a late item would count as outranked, and the table keep the content that a newer load replaces again.

/// The first eight bytes as the number that PostgreSQL makes of them.
pub(crate) const fn first_eight(hash: [u8; 16]) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = hash;
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// The first five bytes.
pub(crate) const fn first_five(hash: [u8; 16]) -> [u8; 5] {
    let [a, b, c, d, e, ..] = hash;
    [a, b, c, d, e]
}
