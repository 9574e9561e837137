//! Headers of both ingest routes: `POST …/products` and `POST …/products/uploads`.

use std::str::FromStr;

use api::{Problem, Reason};
use endpoint::from_key;
use http::{HeaderMap, HeaderValue};
use idempotency::{ExpiryBounds, IdempotencyKey, KeyForm};
use ingestion::UnknownWord;
use ingestion::payload::LoadType;
use ingestion::product::PartialPolicy;

const LOAD_TYPE: &str = "x-inova-load-type";
const PARTIAL_ITEMS: &str = "x-inova-partial-items";

/// Parsed request headers that both ingest routes need.
#[derive(Debug)]
pub(crate) struct IngestHeaders {
    pub(crate) key: IdempotencyKey,
    pub(crate) load_type: LoadType,
    /// Policy for items that lack members; `None` if the request does not name one, so that the
    /// deployment's default applies.
    pub(crate) partial: Option<PartialPolicy>,
}

impl IngestHeaders {
    /// Parses and checks the headers of a request.
    ///
    /// # Errors
    /// If a header is missing or invalid, or is not allowed on these routes: 400 for the first such
    /// header.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let key = IdempotencyKey::of(headers, KeyForm::Text).map_err(from_key)?;
        if ingestion::drops::may_be_of(key.as_str()) {
            let detail = "a key that begins with drop: is that of a dropped file; send another one";
            return Err(Problem::new(Reason::IdempotencyKeyMalformed, detail));
        }
        if headers.contains_key(ExpiryBounds::HEADER) {
            let detail =
                "leave the header Idempotency-Expiry-Seconds away: keys of batches are kept for good";
            return Err(Problem::new(Reason::IdempotencyExpiryOutOfRange, detail));
        }
        let load_type = word(headers, LOAD_TYPE, Reason::LoadTypeInvalid)?.ok_or_else(|| {
            let detail = "send delta or full in the header X-Inova-Load-Type";
            Problem::new(Reason::LoadTypeRequired, detail)
        })?;
        Ok(Self { key, load_type, partial: word(headers, PARTIAL_ITEMS, Reason::PartialItemsInvalid)? })
    }
}

/// Parses a header whose value must be a word of the enum `T`; `None` if the header is missing.
/// Fails with `reason` if the value is another one, or the header is sent twice.
fn word<T>(headers: &HeaderMap, name: &str, reason: Reason) -> Result<Option<T>, Problem>
where
    T: FromStr<Err = UnknownWord>,
{
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    // Of two values it is unknown which one was meant.
    let text = if values.next().is_some() { "" } else { value.to_str().unwrap_or_default().trim() };
    let parsed = text.parse::<T>();
    parsed.map(Some).map_err(|error| Problem::new(reason, format!("{error}{}", other_than(value))))
}

/// Describes a refused header value for the end of an error text; empty if the value is long or not
/// text.
fn other_than(value: &HeaderValue) -> String {
    match value.to_str().unwrap_or_default().trim() {
        text if text.is_empty() || text.len() > 40 => String::new(),
        text if text.bytes().any(|byte| byte.is_ascii_uppercase()) => {
            format!(", in lower case, not `{text}`")
        }
        text => format!(", not `{text}`"),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const KEY: (&str, &str) = ("idempotency-key", "5c1e0a56-4a58-4aaf-9359-83ec8f663f10");

    #[test]
    fn a_key_of_a_dropped_file_is_refused_in_each_spelling() {
        for key in ["drop:0f:loja.json", "\"drop:0f:loja.json\""] {
            let sent = [("idempotency-key", key), ("x-inova-load-type", "delta")];
            assert_eq!(of(&sent), Err(Reason::IdempotencyKeyMalformed), "{key}");
        }
        assert_eq!(of(&[("idempotency-key", "drops"), ("x-inova-load-type", "delta")]), Ok(LoadType::Delta));
    }

    fn of(sent: &[(&'static str, &'static str)]) -> Result<LoadType, Reason> {
        let mut headers = HeaderMap::new();
        for (name, value) in sent {
            headers.append(*name, HeaderValue::from_static(value));
        }
        IngestHeaders::of(&headers).map(|headers| headers.load_type).map_err(|problem| problem.reason)
    }

    #[test]
    fn the_first_fault_is_named() {
        for (sent, reason) in [
            (&[][..], Reason::IdempotencyKeyRequired),
            (&[("idempotency-key", "a b"), (LOAD_TYPE, "full")], Reason::IdempotencyKeyMalformed),
            (
                &[KEY, (LOAD_TYPE, "full"), (ExpiryBounds::HEADER, "7200")],
                Reason::IdempotencyExpiryOutOfRange,
            ),
            (&[KEY], Reason::LoadTypeRequired),
            (&[KEY, (LOAD_TYPE, "")], Reason::LoadTypeInvalid),
            (&[KEY, (LOAD_TYPE, "FULL")], Reason::LoadTypeInvalid),
            (&[KEY, (LOAD_TYPE, "full,delta")], Reason::LoadTypeInvalid),
            (&[KEY, (LOAD_TYPE, "full"), (LOAD_TYPE, "full")], Reason::LoadTypeInvalid),
            (&[KEY, (LOAD_TYPE, "full"), (PARTIAL_ITEMS, "")], Reason::PartialItemsInvalid),
            (&[KEY, (LOAD_TYPE, "full"), (PARTIAL_ITEMS, "Refuse")], Reason::PartialItemsInvalid),
            (
                &[KEY, (LOAD_TYPE, "full"), (PARTIAL_ITEMS, "warn"), (PARTIAL_ITEMS, "warn")],
                Reason::PartialItemsInvalid,
            ),
        ] {
            assert_eq!(of(sent), Err(reason), "{sent:?}");
        }
    }

    #[test]
    fn the_load_type_is_delta_or_full() {
        assert_eq!(of(&[KEY, (LOAD_TYPE, " delta ")]), Ok(LoadType::Delta));
        assert_eq!(of(&[KEY, (LOAD_TYPE, "full")]), Ok(LoadType::Full));
    }
}
