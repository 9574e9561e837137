use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Meaning of a payload for the products that are not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadType {
    /// Products that are not in the payload stay as they are.
    Delta,
    /// Products that are not in the payload are no longer in the catalogue.
    Full,
}

/// Error of a text that is neither `delta` nor `full`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be delta or full")]
pub struct UnknownLoadType;

impl LoadType {
    /// Returns the type's name in requests, metadata and the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delta => "delta",
            Self::Full => "full",
        }
    }
}

impl FromStr for LoadType {
    type Err = UnknownLoadType;

    fn from_str(text: &str) -> Result<Self, UnknownLoadType> {
        [Self::Delta, Self::Full].into_iter().find(|known| known.as_str() == text).ok_or(UnknownLoadType)
    }
}

impl fmt::Display for LoadType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Framing of the items of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MediaType {
    /// The payload is one array of items.
    #[serde(rename = "application/json")]
    Json,
    /// The payload has an item a line.
    #[serde(rename = "application/x-ndjson")]
    NdJson,
}

/// Error of a media type that no payload has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be application/json or application/x-ndjson")]
pub struct UnknownMediaType;

impl MediaType {
    /// Returns the type without parameters.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::NdJson => "application/x-ndjson",
        }
    }
}

impl FromStr for MediaType {
    type Err = UnknownMediaType;

    /// Reads a type without parameters, in any case.
    fn from_str(text: &str) -> Result<Self, UnknownMediaType> {
        [Self::Json, Self::NdJson]
            .into_iter()
            .find(|known| known.as_str().eq_ignore_ascii_case(text))
            .ok_or(UnknownMediaType)
    }
}

impl fmt::Display for MediaType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
