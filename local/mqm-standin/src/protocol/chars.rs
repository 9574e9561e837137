//! Text in the fixed, padded fields of MQ's structures.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Text of a fixed-length character field (MQCHARn), without its padding. It is kept as bytes,
/// because IBM MQ does not check its character set.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Chars(#[serde(with = "serde_bytes")] Vec<u8>);

impl Chars {
    /// Reads a fixed-length field. The text ends at the first NUL, and trailing blanks are removed.
    pub fn from_field(field: &[u8]) -> Self {
        let text = field.split(|&byte| byte == 0).next().unwrap_or_default();
        Self(text.trim_ascii_end().to_vec())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn is_blank(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the text, cut or padded with blanks to `length` bytes.
    pub fn padded(&self, length: usize) -> Vec<u8> {
        let mut field = self.0.clone();
        field.resize(length, b' ');
        field
    }
}

impl From<&str> for Chars {
    fn from(text: &str) -> Self {
        Self::from_field(text.as_bytes())
    }
}

impl From<&std::ffi::CStr> for Chars {
    fn from(text: &std::ffi::CStr) -> Self {
        Self::from_field(text.to_bytes())
    }
}

impl fmt::Display for Chars {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(&self.0).fmt(formatter)
    }
}

impl fmt::Debug for Chars {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", String::from_utf8_lossy(&self.0))
    }
}
