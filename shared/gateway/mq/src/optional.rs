//! Deserialization of members that a request may leave out.

use serde::{Deserialize, Deserializer};

/// Deserializes a member for which `null` means the same as its absence: the default.
///
/// # Errors
/// If the value is neither `null` nor of the member's type.
pub fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
