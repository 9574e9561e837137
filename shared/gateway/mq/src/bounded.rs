//! Types of integers, texts and lists that check their bounds when a value is parsed.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, SeqAccess, Visitor};

/// Declares integer types with inclusive bounds and a default. Parsing a value out of bounds is an
/// error. A crate that uses the macro depends on `serde`.
///
/// Example: `bounded!(/** Docs. */ TxSize: u32, 1..=100_000, default 100);`
#[macro_export]
macro_rules! bounded {
    ($(
        $(#[$doc:meta])* $name:ident: $int:ty, $min:literal ..= $max:literal, default $default:literal
    );+ $(;)?) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
            #[serde(try_from = "i64")]
            pub struct $name($int);

            impl $name {
                /// The smallest value that the type accepts.
                pub const MIN: $int = $min;
                /// The largest value that the type accepts.
                pub const MAX: $int = $max;

                /// Returns the value, which is within the bounds.
                pub const fn get(self) -> $int {
                    self.0
                }
            }

            impl Default for $name {
                fn default() -> Self {
                    Self($default)
                }
            }

            impl TryFrom<i64> for $name {
                type Error = String;

                fn try_from(value: i64) -> Result<Self, String> {
                    <$int>::try_from(value)
                        .ok()
                        .filter(|value| ($min..=$max).contains(value))
                        .map(Self)
                        .ok_or_else(|| format!("must be between {} and {}, not {value}", Self::MIN, Self::MAX))
                }
            }
        )+
    };
}

/// Declares text types with inclusive bounds of their length in bytes, and a test for each
/// character. The last text is the error for a character that fails the test.
///
/// Example: `text!(/** Docs. */ Name, 1..=255, not_control, "must not …");`
macro_rules! text {
    ($(
        $(#[$doc:meta])* $name:ident, $min:literal ..= $max:literal, $allowed:expr, $rule:literal
    );+ $(;)?) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
            #[serde(try_from = "String", into = "String")]
            pub struct $name(String);

            impl $name {
                /// Maximum number of bytes of the text.
                pub const MAX_BYTES: usize = $max;

                /// Returns the text, which is within the bounds.
                pub fn as_str(&self) -> &str {
                    &self.0
                }
            }

            impl std::ops::Deref for $name {
                type Target = str;

                fn deref(&self) -> &str {
                    &self.0
                }
            }

            impl std::fmt::Display for $name {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str(&self.0)
                }
            }

            impl TryFrom<String> for $name {
                type Error = String;

                fn try_from(text: String) -> Result<Self, String> {
                    if !($min..=$max).contains(&text.len()) {
                        return Err(format!(
                            "must be {} to {} bytes long, not {}", $min, Self::MAX_BYTES, text.len()
                        ));
                    }
                    if !text.chars().all($allowed) {
                        return Err($rule.to_owned());
                    }
                    Ok(Self(text))
                }
            }

            impl From<$name> for String {
                fn from(text: $name) -> Self {
                    text.0
                }
            }
        )+
    };
}

/// True for a character that a name may contain: all but control characters, which have a meaning
/// in log lines, headers and SASL.
pub(crate) fn not_control(character: char) -> bool {
    !character.is_control()
}

/// List of `MIN` to `MAX` items. Deserializing stops with an error at the first item beyond `MAX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T, const MIN: usize, const MAX: usize>(Vec<T>);

impl<T, const MIN: usize, const MAX: usize> List<T, MIN, MAX> {
    /// Returns the items of the list as a slice.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        &self.0
    }

    /// Returns the items of the list as a vector.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.0
    }
}

impl<'de, T: Deserialize<'de>, const MIN: usize, const MAX: usize> Deserialize<'de> for List<T, MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Items(PhantomData))
    }
}

struct Items<T, const MIN: usize, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MIN: usize, const MAX: usize> Visitor<'de> for Items<T, MIN, MAX> {
    type Value = List<T, MIN, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let out_of_bounds = || A::Error::custom(format!("must have {MIN} to {MAX} items"));
        let mut list = Vec::new();
        while list.len() < MAX {
            match items.next_element()? {
                Some(item) => list.push(item),
                None if list.len() < MIN => return Err(out_of_bounds()),
                None => return Ok(List(list)),
            }
        }
        match items.next_element::<IgnoredAny>()? {
            None => Ok(List(list)),
            Some(_) => Err(out_of_bounds()),
        }
    }
}

pub(crate) use {bounded, text};
