//! Request body in the form in which it is stored: gzip, with the checksum and the length of its
//! inflated content. The content is not parsed, and only a part of it is inflated at a time.

use std::io::{Read as _, Write as _};

use api::body::Compression;
use api::{Problem, Reason};
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use crate::uploads::UPLOADS;

/// Maximum size of a request body as sent: 4.5 MB.
///
/// Lambda limits an event to 6 MiB, and carries a binary body in base64: 4 bytes for every 3. Less
/// 64 KiB for headers and context, that leaves 4,669,440 bytes, in whichever form API Gateway or
/// another front passes a body on. API Gateway itself refuses a larger body, and cannot point to
/// the route of uploads, so this limit lies below.
pub(crate) const MAX_BODY: usize = 4_500_000;

/// First bytes of every gzip member (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Number of bytes of a gzip body's content that are inflated at a time.
const WINDOW: usize = 64 * 1024;

/// Payload from a request body, checked and ready to be stored as gzip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    /// Payload as gzip: the body as sent, or compressed here if it was not gzip.
    pub(crate) gzip: Vec<u8>,
    /// SHA-256 of the decoded content, in hex.
    pub(crate) checksum: String,
    /// Size of the decoded content in bytes.
    pub(crate) bytes: u64,
}

impl Content {
    /// Checks a request body, and compresses it if it is not gzip. Gzip is recognized by the first
    /// bytes. `claimed` is the compression that the headers state, and is only checked.
    ///
    /// # Errors
    /// If the body is too large for a request, or its content has more than `max_payload` bytes:
    /// 413. If the body is damaged gzip, is not gzip although the headers state it, or has no
    /// content: 400.
    pub(crate) fn read(body: &[u8], claimed: Compression, max_payload: u64) -> Result<Self, Problem> {
        check_size(body, max_payload)?;
        let compression = Compression::of(body)?;
        if (claimed, compression) == (Compression::Gzip, Compression::None) && !body.is_empty() {
            let detail = "the headers say gzip, but the body does not begin like one (1f 8b); was it decoded on the way?";
            return Err(Problem::new(Reason::ContentCorrupt, detail));
        }
        let content = match compression {
            Compression::Gzip => inflated(body, max_payload)?,
            Compression::None => compressed(body)?,
        };
        if content.bytes == 0 {
            let detail = "the body is empty; a catalogue without products is `[]`";
            return Err(Problem::new(Reason::MalformedJson, detail));
        }
        Ok(content)
    }
}

fn check_size(body: &[u8], max_payload: u64) -> Result<(), Problem> {
    let plain_and_too_large = Compression::of(body) == Ok(Compression::None) && length(body) > max_payload;
    if plain_and_too_large {
        return Err(too_large(max_payload));
    }
    if body.len() > MAX_BODY {
        let detail = format!(
            "a body of {} bytes is more than the {MAX_BODY} that one request takes; ask {} {} for a URL and put it there",
            body.len(),
            UPLOADS.method,
            UPLOADS.path,
        );
        return Err(Problem::new(Reason::UseUpload, detail));
    }
    Ok(())
}

/// Checks a gzip body by inflating all of its members, a part at a time; only the checksum and the
/// length of its content are kept.
fn inflated(body: &[u8], max_payload: u64) -> Result<Content, Problem> {
    let mut hash = Sha256::new();
    let mut bytes: u64 = 0;
    let mut window = vec![0; WINDOW];
    // One for all members: each new one would clear tens of kilobytes, for as few as 20 bytes.
    let mut decoder = GzDecoder::new(body);
    loop {
        let read = decoder.read(&mut window).map_err(|error| corrupt(&error))?;
        let part = window.get(..read).unwrap_or_default();
        if part.is_empty() {
            let rest = *decoder.get_ref();
            if rest.is_empty() {
                break;
            }
            if !rest.starts_with(&GZIP) {
                return Err(continued(body.len().saturating_sub(rest.len()), rest.len()));
            }
            decoder.reset(rest);
            continue;
        }
        bytes = bytes.saturating_add(length(part));
        if bytes > max_payload {
            return Err(too_large(max_payload));
        }
        hash.update(part);
    }
    Ok(Content { gzip: body.to_vec(), checksum: hex::encode(hash.finalize()), bytes })
}

fn compressed(body: &[u8]) -> Result<Content, Problem> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let gzip = encoder.write_all(body).and_then(|()| encoder.finish());
    Ok(Content {
        gzip: gzip.map_err(|error| crate::unavailable(&error))?,
        checksum: hex::encode(Sha256::digest(body)),
        bytes: length(body),
    })
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

fn corrupt(error: &std::io::Error) -> Problem {
    let detail = match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "the body is a gzip that breaks off",
        _ => "the body begins like a gzip but cannot be inflated to its end",
    };
    Problem::new(Reason::ContentCorrupt, detail)
}

/// Builds the problem of a body in which a gzip of `end` bytes is followed by `rest` bytes that are
/// no gzip.
fn continued(end: usize, rest: usize) -> Problem {
    let detail = format!(
        "the body is a gzip of {end} bytes, and {rest} more bytes follow it, which are no gzip; send the gzip alone"
    );
    Problem::new(Reason::ContentCorrupt, detail)
}

/// Builds the problem of a payload whose decoded content exceeds the deployment's limit, whether it
/// is in the request or is to be uploaded.
pub(crate) fn too_large(max_payload: u64) -> Problem {
    let detail = format!("a payload may have {max_payload} bytes, once inflated");
    Problem::new(Reason::MaxPayloadExceeded, detail)
}

#[cfg(test)]
mod tests;
