//! Headers of a message: names and values that the caller chooses, beside the properties that every
//! message has.

use std::borrow::{Borrow, Cow};
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::header_value::{HeaderValue, Weight};

/// Names of the headers that the gateway sets on every message. A caller must not set them.
const RESERVED: [&str; 2] = ["idempotencyKey", "sequence"];

/// Name of a header: 1 to 255 bytes, and neither `idempotencyKey` nor `sequence`, which the gateway
/// sets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct HeaderName(String);

impl HeaderName {
    /// Returns the header name as the caller gave it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for HeaderName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for HeaderName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if name.is_empty() || name.len() > HeaderValue::MAX_NAME {
            return Err(format!("a header's name must be 1 to 255 bytes long, not {}", name.len()));
        }
        if RESERVED.contains(&name.as_str()) {
            return Err(format!("the header `{name}` is set by the gateway on every message"));
        }
        Ok(Self(name))
    }
}

/// Headers that a caller gives a message. Names and values together have at most
/// [`Headers::MAX_BYTES`], because a broker sends them in one frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<HeaderName, HeaderValue>")]
pub struct Headers(BTreeMap<HeaderName, HeaderValue>);

impl Headers {
    /// Maximum number of bytes of all header names and values together.
    pub const MAX_BYTES: usize = 32 * 1024;
    /// Maximum number of header values, including values nested in tables and arrays.
    pub const MAX_COUNT: usize = 1000;

    /// True if there are no headers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the total number of bytes of all header names and values.
    pub(crate) fn bytes(&self) -> usize {
        weigh(&self.0).bytes
    }

    /// True if the headers stay within their bounds after `values` more values, with `bytes` bytes
    /// of names and values, are added.
    pub(crate) fn has_room(&self, values: usize, bytes: usize) -> bool {
        let weight = weigh(&self.0).plus(Weight { values, bytes });
        weight.values <= Self::MAX_COUNT && weight.bytes <= Self::MAX_BYTES
    }

    /// Sets the header `name` to `text`. The caller must have checked with [`Self::has_room`] that
    /// there is room.
    pub(crate) fn set(&mut self, name: &str, text: &str) {
        self.0.insert(HeaderName(name.to_owned()), HeaderValue::from(text));
    }

    /// Returns the header names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &HeaderValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// True if a header of this name exists.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns these headers with those of `more` added; on equal names, `more` wins.
    #[must_use]
    pub fn overlaid_with(&self, more: &Self) -> Cow<'_, Self> {
        if more.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut all = self.0.clone();
        all.extend(more.0.clone());
        Cow::Owned(Self(all))
    }
}

fn weigh(headers: &BTreeMap<HeaderName, HeaderValue>) -> Weight {
    headers
        .iter()
        .map(|(name, value)| value.weigh().plus(Weight { values: 0, bytes: name.as_str().len() }))
        .fold(Weight::default(), Weight::plus)
}

impl TryFrom<BTreeMap<HeaderName, HeaderValue>> for Headers {
    type Error = String;

    fn try_from(headers: BTreeMap<HeaderName, HeaderValue>) -> Result<Self, String> {
        let weight = weigh(&headers);
        if weight.values > Self::MAX_COUNT {
            return Err(format!("must have at most {} values, not {}", Self::MAX_COUNT, weight.values));
        }
        if weight.bytes > Self::MAX_BYTES {
            let (max, bytes) = (Self::MAX_BYTES, weight.bytes);
            return Err(format!("names and values must not exceed {max} bytes, not {bytes}"));
        }
        Ok(Self(headers))
    }
}
