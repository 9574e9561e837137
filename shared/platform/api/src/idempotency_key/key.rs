//! Parsing of the request headers `Idempotency-Key` and `Idempotency-Expiry-Seconds`.

use std::fmt;
use std::time::Duration;

use http::HeaderMap;
use sfv::{BareItem, Parser};
use uuid::{Uuid, Variant};

/// Form of the idempotency keys that a route accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// UUID with 36 characters.
    Uuid,
    /// Any text of 1 to [`IdempotencyKey::MAX_TEXT`] visible ASCII characters, so that senders can
    /// name their work. All spellings of a UUID are the same key.
    Text,
}

impl KeyForm {
    /// Returns the maximum bytes of the header's value, including quotation marks, escapes and
    /// parameters. It is bounded because the response repeats it.
    const fn max_length(self) -> usize {
        match self {
            Self::Uuid => 255,
            Self::Text => 1024,
        }
    }

    /// Returns the canonical spelling of a key: a UUID in lower case with hyphens, any other text
    /// unchanged.
    fn canonical(self, key: String) -> Result<String, MalformedKey> {
        match (uuid(&key), self) {
            (Some(uuid), _) => Ok(uuid.hyphenated().to_string()),
            (None, Self::Text) if is_visible(&key) => Ok(key),
            (None, _) => Err(MalformedKey(self)),
        }
    }
}

impl fmt::Display for KeyForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid => f.write_str("one UUID of the 36-character form (RFC 9562, versions 1 to 8)"),
            Self::Text => write!(f, "1 to {} visible ASCII characters", IdempotencyKey::MAX_TEXT),
        }
    }
}

/// Idempotency key in its canonical spelling, with the header's value as the client sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    canonical: String,
    as_sent: String,
}

/// Error for a text that is not an idempotency key of the form that the route accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct MalformedKey(pub KeyForm);

impl fmt::Display for MalformedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "must be {}, bare or quoted", self.0)?;
        match self.0 {
            KeyForm::Uuid => f.write_str("; only the routes of products take a name of your own"),
            KeyForm::Text => Ok(()),
        }
    }
}

/// Reason why a request has no usable idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum KeyError {
    #[error("send a key in the header Idempotency-Key: {0}")]
    Missing(KeyForm),
    #[error("{0}")]
    Malformed(MalformedKey),
}

impl IdempotencyKey {
    /// Name of the HTTP header that carries the idempotency key.
    pub const HEADER: &str = "idempotency-key";
    /// Maximum number of characters of a key of the form [`KeyForm::Text`].
    pub const MAX_TEXT: usize = 255;

    /// Reads the idempotency key from a request's headers.
    ///
    /// # Errors
    /// If the header is absent, is sent twice, or is not a key of this form.
    pub fn of(headers: &HeaderMap, form: KeyForm) -> Result<Self, KeyError> {
        let mut values = headers.get_all(Self::HEADER).iter();
        let value = values.next().ok_or(KeyError::Missing(form))?;
        if values.next().is_some() {
            return Err(KeyError::Malformed(MalformedKey(form)));
        }
        let value = value.to_str().map_err(|_| KeyError::Malformed(MalformedKey(form)))?;
        Self::parse(value, form).map_err(KeyError::Malformed)
    }

    /// Parses the header's value: a bare key without commas, or a structured-field string
    /// (RFC 9651) with or without parameters.
    ///
    /// # Errors
    /// If the value is neither, or not a key of this form.
    pub fn parse(value: &str, form: KeyForm) -> Result<Self, MalformedKey> {
        let value = value.trim_matches([' ', '\t']);
        if value.len() > form.max_length() {
            return Err(MalformedKey(form));
        }
        let key = if value.starts_with('"') {
            let item: sfv::Item = Parser::new(value).parse().map_err(|_| MalformedKey(form))?;
            match item.bare_item {
                BareItem::String(text) => text.as_str().to_owned(),
                _ => return Err(MalformedKey(form)),
            }
        } else if form == KeyForm::Text && value.contains(',') {
            // A front joins two headers in this way.
            return Err(MalformedKey(form));
        } else {
            value.to_owned()
        };
        Ok(Self { canonical: form.canonical(key)?, as_sent: value.to_owned() })
    }

    /// Parses a key in its canonical spelling, as records and events contain it.
    ///
    /// # Errors
    /// If the text is not a key of this form, or is spelled differently.
    pub fn parse_canonical(key: &str, form: KeyForm) -> Result<Self, MalformedKey> {
        let canonical = form.canonical(key.to_owned())?;
        if canonical != key {
            return Err(MalformedKey(form));
        }
        Ok(Self { as_sent: canonical.clone(), canonical })
    }

    /// Returns the canonical spelling of the key, under which records are stored. A UUID is in
    /// lower case.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.canonical
    }

    /// Returns the header's value as the client sent it, which the response repeats.
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

fn uuid(key: &str) -> Option<Uuid> {
    let uuid = Uuid::try_parse(key).ok().filter(|_| key.len() == 36)?;
    (uuid.get_variant() == Variant::RFC4122 && (1..=8).contains(&uuid.get_version_num())).then_some(uuid)
}

fn is_visible(key: &str) -> bool {
    (1..=IdempotencyKey::MAX_TEXT).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Bounds for the time that idempotency records are kept: the deployment's default and the maximum
/// that a client may ask for. The minimum is [`ExpiryBounds::MIN`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiryBounds {
    /// Time for which a record is kept if the client does not ask for another time.
    pub default: Duration,
    /// Maximum time that a client may ask for.
    pub max: Duration,
}

/// Error for a lifetime of a record that a client asked for and that is outside the bounds. `min`
/// and `max` are these bounds in seconds, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a number of seconds from {min} to {max}")]
pub struct ExpiryError {
    min: u64,
    max: u64,
}

impl ExpiryBounds {
    /// Name of the header with the seconds for which a client wants the record to be kept.
    pub const HEADER: &str = "idempotency-expiry-seconds";
    /// Minimum time that a client may ask for, as the company's standard demands.
    pub const MIN: Duration = Duration::from_hours(2);

    /// Returns the time for which the record of a request is kept.
    ///
    /// # Errors
    /// If the header `Idempotency-Expiry-Seconds` is not a number within the bounds.
    pub fn of(&self, headers: &HeaderMap) -> Result<Duration, ExpiryError> {
        let out_of_range = ExpiryError { min: Self::MIN.as_secs(), max: self.max.as_secs() };
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
            .filter(|asked| (Self::MIN..=self.max).contains(asked))
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
            for form in [KeyForm::Uuid, KeyForm::Text] {
                let key = IdempotencyKey::parse(&spelling, form).map(|key| key.canonical);
                assert_eq!(key, Ok(KEY.to_owned()), "{spelling} as {form:?}");
            }
        }
    }

    #[test]
    fn what_is_not_one_uuid_is_malformed() {
        let malformed = Err(MalformedKey(KeyForm::Uuid));
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
            assert_eq!(IdempotencyKey::parse(text, KeyForm::Uuid), malformed, "{text}");
        }
    }

    #[test]
    fn a_text_is_a_key_as_it_stands() {
        let longest = "x".repeat(IdempotencyKey::MAX_TEXT);
        for (sent, key) in [
            ("loja-12-2026-11-22", "loja-12-2026-11-22"),
            ("Loja-12", "Loja-12"),
            ("7", "7"),
            ("a#b;c=\"d\"", "a#b;c=\"d\""),
            ("\"a,b\"", "a,b"),
            ("\"loja-12\"", "loja-12"),
            ("\"a\\\"b\\\\\";v=1", "a\"b\\"),
            (
                "urn:uuid:5C1E0A56-4a58-4aaf-9359-83ec8f663f10",
                "urn:uuid:5C1E0A56-4a58-4aaf-9359-83ec8f663f10",
            ),
            (&longest, &longest),
            (&format!("\"{longest}\""), &longest),
        ] {
            let parsed = IdempotencyKey::parse(sent, KeyForm::Text).unwrap();
            assert_eq!((parsed.as_str(), parsed.as_sent()), (key, sent));
        }
        for refused in [
            "",
            " ",
            "x1,x1",
            "\"\"",
            "a b",
            "\"a b\"",
            "\"a",
            "\"a\"b",
            "é",
            "a\u{7f}",
            &(longest.clone() + "x"),
        ] {
            let parsed = IdempotencyKey::parse(refused, KeyForm::Text);
            assert_eq!(parsed, Err(MalformedKey(KeyForm::Text)), "{refused}");
        }
    }

    #[test]
    fn what_records_hold_is_read_as_it_stands() {
        for (key, is_canonical) in [(KEY, true), (&KEY.to_uppercase(), false), ("\"x", true), ("a b", false)]
        {
            let parsed = IdempotencyKey::parse_canonical(key, KeyForm::Text);
            assert_eq!(parsed.is_ok_and(|parsed| parsed.as_str() == key), is_canonical, "{key}");
        }
        assert!(IdempotencyKey::parse_canonical("x", KeyForm::Uuid).is_err());
    }

    #[test]
    fn two_headers_are_malformed_and_none_is_missing() {
        for form in [KeyForm::Uuid, KeyForm::Text] {
            let mut headers = HeaderMap::new();
            assert_eq!(IdempotencyKey::of(&headers, form), Err(KeyError::Missing(form)));
            headers.append(IdempotencyKey::HEADER, HeaderValue::from_static(KEY));
            assert!(IdempotencyKey::of(&headers, form).is_ok());
            headers.append(IdempotencyKey::HEADER, HeaderValue::from_static(KEY));
            let malformed = Err(KeyError::Malformed(MalformedKey(form)));
            assert_eq!(IdempotencyKey::of(&headers, form), malformed);
        }
    }

    #[test]
    fn the_expiry_is_a_number_within_the_bounds() {
        let day = Duration::from_secs(86_400);
        let bounds = ExpiryBounds { default: day, max: day };
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
            for form in [KeyForm::Uuid, KeyForm::Text] {
                let _ = IdempotencyKey::parse(&value, form);
            }
        }
    }
}
