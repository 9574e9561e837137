//! A request's body: its media type, its compression, and its limits.

use std::borrow::Cow;
use std::io::Read as _;

use flate2::read::MultiGzDecoder;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

use crate::problem::Problem;
use crate::reason::Reason;

/// Maximum bytes of a JSON body with messages, after it is inflated: 4 MiB.
pub const MAX_JSON: usize = 4 * 1024 * 1024;
/// Maximum bytes of a JSON body without messages, after it is inflated. Such a body fits even if
/// all of its members have their maximum length and every character is escaped. The limit keeps the
/// memory that a small function needs low.
pub const MAX_COMMAND: usize = 64 * 1024;

const GZIP: [u8; 2] = [0x1f, 0x8b];
/// First bytes of a gzip body that a proxy has decoded as UTF-8, which destroys it.
const MANGLED_GZIP: [u8; 4] = [0x1f, 0xef, 0xbf, 0xbd];

/// Compression of a body, recognized by its first bytes. The headers do not decide: API Gateway and
/// proxies may inflate a body, and may leave its headers as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// The body is not compressed.
    None,
    /// The body is gzip (RFC 1952).
    Gzip,
}

impl Compression {
    /// Recognizes the compression of a body by its first bytes.
    ///
    /// # Errors
    /// `CONTENT_CORRUPT` if a proxy destroyed the gzip by decoding it as UTF-8.
    pub fn of(body: &[u8]) -> Result<Self, Problem> {
        if body.starts_with(&MANGLED_GZIP) {
            let detail = "the body was a gzip, but something on the way read it as text and destroyed it";
            return Err(Problem::new(Reason::ContentCorrupt, detail));
        }
        Ok(if body.starts_with(&GZIP) { Self::Gzip } else { Self::None })
    }
}

/// Checks the media type of a body, and returns the body: inflated if it is gzip, and otherwise
/// without a copy.
///
/// # Errors
/// 415 for another media type or encoding, 413 if the body exceeds `limit`, and 400
/// `CONTENT_CORRUPT` for invalid gzip.
pub fn json<'a>(headers: &HeaderMap, body: &'a [u8], limit: usize) -> Result<Cow<'a, [u8]>, Problem> {
    let is_json = |essence: &str| essence.eq_ignore_ascii_case("application/json") || is_gzip(essence);
    media_type(headers, |essence| is_json(essence).then_some(())).ok_or_else(|| {
        let detail =
            "send the body as `Content-Type: application/json`, in UTF-8, or its gzip as `application/gzip`";
        Problem::new(Reason::ContentType, detail)
    })?;
    content_encoding(headers)?;
    if Compression::of(body)? == Compression::Gzip {
        return inflate(body, limit).map(Cow::Owned);
    }
    if body.len() > limit {
        return Err(too_large(limit));
    }
    Ok(Cow::Borrowed(body))
}

/// Returns the body's media type, converted by `known` from its name without parameters. `None` if
/// `known` does not recognize it, or if its charset is not UTF-8.
///
/// The crate `mime` is not used, because it refuses the white space before `;` that RFC 9110
/// (5.6.6) allows.
pub fn media_type<T>(headers: &HeaderMap, known: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (essence, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    let charset = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
    });
    if charset.is_some_and(|charset| !charset.eq_ignore_ascii_case("utf-8")) {
        return None;
    }
    known(essence.trim())
}

/// Returns whether a media type is `application/gzip`, by which a client sends compressed JSON. API
/// Gateway forwards such a body unchanged, but may alter gzip that is declared as
/// `application/json`.
#[must_use]
pub fn is_gzip(essence: &str) -> bool {
    essence.eq_ignore_ascii_case("application/gzip")
}

/// Returns the compression that `Content-Encoding` and `Content-Type` declare for the body.
///
/// # Errors
/// 415 for an encoding other than gzip and identity, or for several encodings.
pub fn content_encoding(headers: &HeaderMap) -> Result<Compression, Problem> {
    let is_gzip = media_type(headers, |essence| is_gzip(essence).then_some(())).is_some();
    let mut claimed = if is_gzip { Compression::Gzip } else { Compression::None };
    for (index, value) in headers.get_all(CONTENT_ENCODING).iter().enumerate() {
        let encoding = value.to_str().unwrap_or("?").trim();
        if encoding.eq_ignore_ascii_case("gzip") && index == 0 {
            claimed = Compression::Gzip;
        } else if !(encoding.is_empty() || encoding.eq_ignore_ascii_case("identity")) {
            return Err(Problem::new(Reason::ContentEncoding, "the body may be sent as it is or as gzip")
                .header("accept-encoding", "gzip"));
        }
    }
    Ok(claimed)
}

fn inflate(body: &[u8], limit: usize) -> Result<Vec<u8>, Problem> {
    let enough = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut decoded = Vec::new();
    let mut capped = MultiGzDecoder::new(body).take(enough);
    #[expect(clippy::disallowed_methods, reason = "capped by the line above")]
    let inflated = capped.read_to_end(&mut decoded);
    if decoded.len() > limit {
        return Err(too_large(limit));
    }
    inflated.map_err(|_| {
        Problem::new(Reason::ContentCorrupt, "the body starts like a gzip but cannot be inflated")
    })?;
    Ok(decoded)
}

fn too_large(limit: usize) -> Problem {
    Problem::new(Reason::MaxPayloadExceeded, format!("a body may have {limit} bytes here, once inflated"))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::write::GzEncoder;
    use http::HeaderValue;

    use super::*;

    fn headers(content_type: &'static str, encoding: Option<&'static str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let Some(encoding) = encoding {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        headers
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn reason(headers: &HeaderMap, body: &[u8]) -> Reason {
        json(headers, body, MAX_JSON).unwrap_err().reason
    }

    #[test]
    fn the_bytes_decide_whether_a_body_is_compressed() {
        let plain: &[u8] = b"{\"a\":1}";
        for encoding in [None, Some("gzip"), Some("identity")] {
            let headers = headers("application/json ; charset=\"UTF-8\"", encoding);
            assert_eq!(json(&headers, plain, MAX_JSON).unwrap(), plain);
            assert_eq!(json(&headers, &gzip(plain), MAX_JSON).unwrap(), plain);
        }
    }

    #[test]
    fn other_media_types_and_encodings_are_415() {
        assert_eq!(reason(&HeaderMap::new(), b"{}"), Reason::ContentType);
        assert_eq!(reason(&headers("text/plain", None), b"{}"), Reason::ContentType);
        assert_eq!(reason(&headers("application/json; charset=latin1", None), b"{}"), Reason::ContentType);
        assert_eq!(reason(&headers("application/json", Some("br")), b"{}"), Reason::ContentEncoding);
    }

    #[test]
    fn broken_and_mangled_gzip_is_corrupt() {
        let headers = headers("application/json", Some("gzip"));
        let whole = gzip(&[b'x'; 1000]);
        assert_eq!(reason(&headers, &whole[..whole.len() - 5]), Reason::ContentCorrupt);
        let mangled = String::from_utf8_lossy(&whole).into_owned();
        assert_eq!(reason(&headers, mangled.as_bytes()), Reason::ContentCorrupt);
    }

    #[test]
    fn the_limit_holds_for_the_inflated_body() {
        let headers = headers("application/json", None);
        let limit = vec![b' '; MAX_JSON];
        let beyond = vec![b' '; MAX_JSON + 1];
        assert_eq!(json(&headers, &gzip(&limit), MAX_JSON).unwrap().len(), MAX_JSON);
        assert_eq!(json(&headers, &limit, MAX_JSON).unwrap().len(), MAX_JSON);
        assert_eq!(json(&headers, &limit, MAX_COMMAND).unwrap_err().reason, Reason::MaxPayloadExceeded);
        assert_eq!(reason(&headers, &beyond), Reason::MaxPayloadExceeded);
        assert_eq!(reason(&headers, &gzip(&beyond)), Reason::MaxPayloadExceeded);
    }
}
