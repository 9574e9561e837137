//! Hashes as the database compares them: eight bytes, one number.
//!
//! A chunk keeps 16 bytes an item: the first half of its key's hash and of its content's. That is enough to say, long after, which products a batch
//! contained and with what content; two of a million keys of an establishment meet once in forty million such establishments.

/// The first eight bytes as the number that PostgreSQL makes of them.
pub(crate) const fn first_eight(hash: [u8; 16]) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = hash;
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}
