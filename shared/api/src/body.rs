//! A request's body: its media type, its compression, and its limits.

use std::io::Read as _;

use flate2::read::MultiGzDecoder;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

use crate::problem::Problem;
use crate::reason::Reason;

/// The largest JSON body, decoded: 4 MB.
pub const MAX_JSON: usize = 4 * 1024 * 1024;

const GZIP: [u8; 2] = [0x1f, 0x8b];
/// What a gzip header becomes when something on the way took it for UTF-8.
const MANGLED_GZIP: [u8; 4] = [0x1f, 0xef, 0xbf, 0xbd];

/// Checks the media type and returns the decoded body.
///
/// Whether a body is compressed is decided by its bytes: fronts differ in whether they inflate a body, and in whether
/// they tell.
///
/// # Errors
/// 415 for another media type or encoding, 413 beyond [`MAX_JSON`], 400 `CONTENT_CORRUPT` for a broken gzip.
pub fn json(headers: &HeaderMap, body: &[u8]) -> Result<Vec<u8>, Problem> {
    check_content_type(headers)?;
    check_content_encoding(headers)?;
    if body.starts_with(&GZIP) {
        return inflate(body);
    }
    if body.starts_with(&MANGLED_GZIP) {
        let detail = "the body was a gzip, but something on the way read it as text and destroyed it";
        return Err(Problem::new(Reason::ContentCorrupt, detail));
    }
    if body.len() > MAX_JSON {
        return Err(too_large());
    }
    Ok(body.to_vec())
}

fn check_content_type(headers: &HeaderMap) -> Result<(), Problem> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (essence, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    if !essence.trim().eq_ignore_ascii_case("application/json") {
        return Err(Problem::new(Reason::ContentType, "send the body as `Content-Type: application/json`"));
    }
    let charset = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
    });
    match charset {
        Some(charset) if !charset.eq_ignore_ascii_case("utf-8") => {
            Err(Problem::new(Reason::ContentType, "JSON is UTF-8; no other charset is supported"))
        }
        _ => Ok(()),
    }
}

fn check_content_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    let supported = headers.get_all(CONTENT_ENCODING).iter().all(|value| {
        let encoding = value.to_str().unwrap_or_default().trim();
        encoding.is_empty()
            || encoding.eq_ignore_ascii_case("gzip")
            || encoding.eq_ignore_ascii_case("identity")
    });
    if supported {
        Ok(())
    } else {
        Err(Problem::new(Reason::ContentEncoding, "the body may be sent as it is or as gzip")
            .header("accept-encoding", "gzip"))
    }
}

fn inflate(body: &[u8]) -> Result<Vec<u8>, Problem> {
    let limit = u64::try_from(MAX_JSON).unwrap_or(u64::MAX);
    let mut decoded = Vec::new();
    let mut capped = MultiGzDecoder::new(body).take(limit + 1);
    #[expect(clippy::disallowed_methods, reason = "capped by the line above")]
    let inflated = capped.read_to_end(&mut decoded);
    if decoded.len() > MAX_JSON {
        return Err(too_large());
    }
    inflated.map_err(|_| {
        Problem::new(Reason::ContentCorrupt, "the body starts like a gzip but cannot be inflated")
    })?;
    Ok(decoded)
}

fn too_large() -> Problem {
    Problem::new(Reason::MaxPayloadExceeded, format!("a body may have {MAX_JSON} bytes, once inflated"))
}
