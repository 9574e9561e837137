use std::str::FromStr;

use crate::words::words;

words! {
    /// Meaning of a payload for the products that are not in it.
    LoadType {
        /// Products that are not in the payload stay as they are.
        Delta = "delta",
        /// Products that are not in the payload are no longer in the catalogue.
        Full = "full",
    }
}

/// Error of a text that is neither `delta` nor `full`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be delta or full")]
pub struct UnknownLoadType;

impl FromStr for LoadType {
    type Err = UnknownLoadType;

    fn from_str(text: &str) -> Result<Self, UnknownLoadType> {
        Self::ALL.into_iter().find(|known| known.as_str() == text).ok_or(UnknownLoadType)
    }
}

words! {
    /// Framing of the items of a payload.
    MediaType {
        /// The payload is one array of items.
        Json = "application/json",
        /// The payload has an item a line.
        NdJson = "application/x-ndjson",
    }
}

/// Error of a media type that no payload has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be application/json or application/x-ndjson")]
pub struct UnknownMediaType;

impl FromStr for MediaType {
    type Err = UnknownMediaType;

    /// Reads a type without parameters, in any case.
    fn from_str(text: &str) -> Result<Self, UnknownMediaType> {
        Self::ALL.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(text)).ok_or(UnknownMediaType)
    }
}
