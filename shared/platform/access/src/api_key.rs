//! API keys, and the hashes under which the access table stores them.

use std::fmt;
use std::str::FromStr;

use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

/// Prefix of generated API keys, by which secret scanners recognize them.
pub const PREFIX: &str = "ihub_";
/// Number of base-62 characters for 256 random bits: 62^43 is more than 2^256.
const RANDOM_LENGTH: usize = 43;
/// Number of base-62 characters for a CRC-32: 62^6 is more than 2^32.
const CHECKSUM_LENGTH: usize = 6;
const BASE_62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// API key: `ihub_`, 43 characters of 256 random bits, and 6 characters of their CRC-32, all in
/// base 62. An old key that an operator chose may be any text.
#[derive(Clone, Debug)]
pub struct ApiKey(SecretString);

/// SHA-256 of an API key, by which the access table identifies the key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash([u8; 32]);

/// Error if the operating system returns no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gives no random numbers")]
pub struct RandomnessError;

/// Error for a text that is not the hash of an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key's hash is 64 lower-case hexadecimal digits")]
pub struct KeyHashError;

impl ApiKey {
    /// Generates an API key from random bytes.
    ///
    /// # Errors
    /// If the operating system provides no random numbers.
    pub fn generate() -> Result<Self, RandomnessError> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|_| RandomnessError)?;
        Ok(Self::of_random(random))
    }

    fn of_random(random: [u8; 32]) -> Self {
        let random = base_62(random, RANDOM_LENGTH);
        Self(format!("{PREFIX}{random}{}", checksum(&random)).into())
    }

    /// Returns the API key in plain text.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Returns the hash under which the access table stores the key.
    #[must_use]
    pub fn hash(&self) -> KeyHash {
        KeyHash(Sha256::digest(self.expose().as_bytes()).into())
    }

    /// Returns whether the key has the prefix of a generated key, but a wrong length or checksum,
    /// like a key that was copied incompletely.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        let Some(rest) = self.expose().strip_prefix(PREFIX) else { return false };
        rest.len() != RANDOM_LENGTH + CHECKSUM_LENGTH
            || rest.split_at_checked(RANDOM_LENGTH).is_none_or(|(random, end)| checksum(random) != end)
    }
}

impl From<String> for ApiKey {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&str> for ApiKey {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl KeyHash {
    /// Returns the first eight digits of the hash, which identify a key to people together with its
    /// name.
    #[must_use]
    pub fn id(&self) -> String {
        hex::encode(self.0).chars().take(8).collect()
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyHash({self})")
    }
}

impl FromStr for KeyHash {
    type Err = KeyHashError;

    fn from_str(text: &str) -> Result<Self, KeyHashError> {
        let mut hash = [0; 32];
        let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        match hex::decode_to_slice(text, &mut hash) {
            Ok(()) if is_lower => Ok(Self(hash)),
            _ => Err(KeyHashError),
        }
    }
}

fn checksum(random: &str) -> String {
    base_62(crc32fast::hash(random.as_bytes()).to_be_bytes(), CHECKSUM_LENGTH)
}

/// Writes a big-endian number in base 62, with `length` digits.
fn base_62<const N: usize>(mut number: [u8; N], length: usize) -> String {
    let mut digits: Vec<char> = (0..length)
        .map(|_| {
            let mut rest = 0_u16;
            for byte in &mut number {
                let value = (rest << 8) | u16::from(*byte);
                // A remainder is below 62, so the quotient is below 256.
                *byte = u8::try_from(value / 62).unwrap_or_default();
                rest = value % 62;
            }
            BASE_62.get(usize::from(rest)).map_or('0', |&digit| char::from(digit))
        })
        .collect();
    digits.reverse();
    digits.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_key_has_a_prefix_and_a_checksum() {
        let key = ApiKey::of_random([0; 32]);
        // As Python's divmod and zlib.crc32 have them.
        assert_eq!(key.expose(), format!("ihub_{}2CZclj", "0".repeat(43)));
        let longest = ApiKey::of_random([0xff; 32]);
        assert_eq!(longest.expose(), "ihub_yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp13sRzl1");
        assert!(!key.is_damaged() && !longest.is_damaged());
        let first = ApiKey::generate().unwrap();
        assert!(!first.is_damaged());
        assert_ne!(first.expose(), ApiKey::generate().unwrap().expose());
    }

    #[test]
    fn the_digits_are_those_of_the_number() {
        assert_eq!(base_62(61_u32.to_be_bytes(), 6), "00000z");
        assert_eq!(base_62(62_u32.to_be_bytes(), 6), "000010");
        assert_eq!(base_62(u32::MAX.to_be_bytes(), 6), "4gfFC3");
    }

    #[test]
    fn a_key_that_was_copied_wrongly_is_damaged_and_one_of_one_s_own_is_not() {
        let key = ApiKey::of_random([7; 32]).expose().to_owned();
        let (head, last) = key.split_at(key.len() - 1);
        let other = if last == "0" { "1" } else { "0" };
        for damaged in [head.to_owned(), format!("{key}x"), format!("{head}{other}"), "ihub_".to_owned()] {
            assert!(ApiKey::from(damaged.as_str()).is_damaged(), "{damaged}");
        }
        assert!(ApiKey::from(format!("ihub_{}", "é".repeat(25))).is_damaged());
        assert!(!ApiKey::from("local-dev-key-a").is_damaged());
    }

    #[test]
    fn a_key_is_known_by_its_hash_alone() {
        let key = ApiKey::from("local-dev-key-a");
        let hash = key.hash();
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert_eq!(hash.to_string().get(..8), Some(hash.id().as_str()));
        assert!(!format!("{key:?}{hash:?}").contains("local-dev-key-a"));
        for wrong in ["", "00", &"0".repeat(63), &"A".repeat(64), &"g".repeat(64)] {
            assert_eq!(wrong.parse::<KeyHash>(), Err(KeyHashError), "{wrong}");
        }
    }
}
