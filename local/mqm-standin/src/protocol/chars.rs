//! Text in the fixed, padded fields of MQ's structures.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Text of an MQCHARn field without padding. Bytes, since MQ checks no character set.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Chars(#[serde(with = "serde_bytes")] Vec<u8>);

impl Chars {
    /// Reads a field: a NUL ends it, blanks at the end are padding.
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

    /// Returns the field, cut or padded with blanks to `length`.
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
