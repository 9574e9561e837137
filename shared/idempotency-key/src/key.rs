//! The headers `Idempotency-Key` and `Idempotency-Expiry-Seconds`.

use std::fmt;
use std::time::Duration;

use http::HeaderMap;
use sfv::{BareItem, Parser};
use uuid::{Uuid, Variant};

/// A key in its one spelling, and as the client sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    canonical: String,
    as_sent: String,
}

/// A value that is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one UUID of the 36-character form (RFC 9562, versions 1 to 8), bare or quoted")]
pub struct MalformedKey;

/// Why a request has no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum KeyError {
    #[error("send one UUID in the header Idempotency-Key")]
    Missing,
    #[error("{0}")]
    Malformed(MalformedKey),
}

impl IdempotencyKey {
    /// The header's name.
    pub const HEADER: &str = "idempotency-key";
    /// The longest value, parameters included. The response repeats it.
    pub const MAX_LENGTH: usize = 255;

    /// # Errors
    /// When the header is absent, there twice, or not a UUID.
    pub fn of(headers: &HeaderMap) -> Result<Self, KeyError> {
        let mut values = headers.get_all(Self::HEADER).iter();
        let value = values.next().ok_or(KeyError::Missing)?;
        if values.next().is_some() {
            return Err(KeyError::Malformed(MalformedKey));
        }
        let value = value.to_str().map_err(|_| KeyError::Malformed(MalformedKey))?;
        Self::parse(value).map_err(KeyError::Malformed)
    }

    /// Reads a bare UUID, or a structured-field string (RFC 9651) with or without parameters.
    ///
    /// # Errors
    /// When it is neither.
    pub fn parse(value: &str) -> Result<Self, MalformedKey> {
        let value = value.trim_matches([' ', '\t']);
        if value.len() > Self::MAX_LENGTH {
            return Err(MalformedKey);
        }
        let uuid = if value.starts_with('"') {
            let item: sfv::Item = Parser::new(value).parse().map_err(|_| MalformedKey)?;
            match item.bare_item {
                BareItem::String(text) => text.as_str().to_owned(),
                _ => return Err(MalformedKey),
            }
        } else {
            value.to_owned()
        };
        if uuid.len() != 36 {
            return Err(MalformedKey);
        }
        let parsed = Uuid::try_parse(&uuid).map_err(|_| MalformedKey)?;
        if parsed.get_variant() != Variant::RFC4122 || !(1..=8).contains(&parsed.get_version_num()) {
            return Err(MalformedKey);
        }
        Ok(Self { canonical: parsed.hyphenated().to_string(), as_sent: value.to_owned() })
    }

    /// Lower case; the spelling under which records are kept.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.canonical
    }

    /// The header's value, as the response carries it.
    #[must_use]
    pub fn as_sent(&self) -> &str {
        &self.as_sent
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.canonical)
    }
}

/// How long records are kept: the deployment's default, and the bounds within which a client may
/// choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiryBounds {
    /// If the client does not ask.
    pub default: Duration,
    /// The shortest that a client may ask for.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
}

/// A retention that no client may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a number of seconds from {min} to {max}")]
pub struct ExpiryError {
    min: u64,
    max: u64,
}

impl ExpiryBounds {
    /// The header's name.
    pub const HEADER: &str = "idempotency-expiry-seconds";

    /// The retention that a request asks for.
    ///
    /// # Errors
    /// When the header is there and not a number within the bounds.
    pub fn of(&self, headers: &HeaderMap) -> Result<Duration, ExpiryError> {
        let out_of_range = ExpiryError { min: self.min.as_secs(), max: self.max.as_secs() };
        let mut values = headers.get_all(Self::HEADER).iter();
        let Some(value) = values.next() else {
            return Ok(self.default);
        };
        let digits = value
            .to_str()
            .ok()
            .map(str::trim)
            .filter(|value| value.bytes().all(|byte| byte.is_ascii_digit()));
        digits
            .filter(|_| values.next().is_none())
            .and_then(|digits| digits.parse().ok())
            .map(Duration::from_secs)
            .filter(|asked| (self.min..=self.max).contains(asked))
            .ok_or(out_of_range)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    const KEY: &str = "5c1e0a56-4a58-4aaf-9359-83ec8f663f10";

    #[test]
    fn every_spelling_is_one_key() {
        for spelling in [
            KEY.to_owned(),
            KEY.to_uppercase(),
            format!(" {KEY}\t"),
            format!("\"{KEY}\""),
            format!("\"{}\";v=1;region=\"sp\"", KEY.to_uppercase()),
        ] {
            assert_eq!(
                IdempotencyKey::parse(&spelling).map(|key| key.canonical),
                Ok(KEY.to_owned()),
                "{spelling}"
            );
        }
    }

    #[test]
    fn what_is_not_one_uuid_is_malformed() {
        for text in [
            "",
            "order-17",
            "5c1e0a564a584aaf935983ec8f663f10",
            "{5c1e0a56-4a58-4aaf-9359-83ec8f663f10}",
            "urn:uuid:5c1e0a56-4a58-4aaf-9359-83ec8f663f10",
            "5c1e0a56-4a58-0aaf-9359-83ec8f663f10",
            "5c1e0a56-4a58-9aaf-9359-83ec8f663f10",
            "5c1e0a56-4a58-4aaf-c359-83ec8f663f10",
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "5c1e0a56-4a58-4aaf-9359-83ec8f663f10,5c1e0a56-4a58-4aaf-9359-83ec8f663f10",
            "\"5c1e0a56-4a58-4aaf-9359-83ec8f663f10",
        ] {
            assert_eq!(IdempotencyKey::parse(text), Err(MalformedKey), "{text}");
        }
    }

    #[test]
    fn two_headers_are_malformed_and_none_is_missing() {
        let mut headers = HeaderMap::new();
        assert_eq!(IdempotencyKey::of(&headers), Err(KeyError::Missing));
        headers.append(IdempotencyKey::HEADER, HeaderValue::from_static(KEY));
        assert!(IdempotencyKey::of(&headers).is_ok());
        headers.append(IdempotencyKey::HEADER, HeaderValue::from_static(KEY));
        assert_eq!(IdempotencyKey::of(&headers), Err(KeyError::Malformed(MalformedKey)));
    }

    #[test]
    fn the_expiry_is_a_number_within_the_bounds() {
        let bounds = ExpiryBounds {
            default: Duration::from_secs(86_400),
            min: Duration::from_secs(7_200),
            max: Duration::from_secs(86_400),
        };
        let asked = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ExpiryBounds::HEADER, HeaderValue::from_static(value));
            bounds.of(&headers).ok().map(|retention| retention.as_secs())
        };
        assert_eq!(bounds.of(&HeaderMap::new()).unwrap().as_secs(), 86_400);
        assert_eq!(asked("7200"), Some(7_200));
        for refused in ["7199", "86401", "-1", "1e4", "", "+7200", "99999999999999999999999"] {
            assert_eq!(asked(refused), None, "{refused}");
        }
    }

    proptest! {
        #[test]
        fn no_header_makes_the_parser_panic(value in "\\PC{0,60}") {
            let _ = IdempotencyKey::parse(&value);
        }
    }
}
