//! A body as it is stored: gzip, with the checksum and the length of its inflated content. It is
//! never parsed, and never held inflated.

use std::io::{Read as _, Write as _};

use api::body::Compression;
use api::{Problem, Reason};
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use crate::uploads::UPLOADS;

/// Largest body as it is sent: 4.5 MB.
///
/// Lambda takes events of 6 MiB, in which a binary body is base64: 4 bytes for 3. The rest of them
/// beside 64 KiB of headers and context carries 4,669,440 bytes, in whichever form API Gateway or
/// another front passes a body on. Beyond that API Gateway answers by itself and cannot name the
/// route of uploads; so this limit lies below.
pub(crate) const MAX_BODY: usize = 4_500_000;

/// First bytes of each member of a gzip (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Bytes that are inflated at once.
const WINDOW: usize = 64 * 1024;

/// Payload of a request, checked and ready to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    /// The bytes that were sent if they were gzip, or else their gzip.
    pub(crate) gzip: Vec<u8>,
    /// SHA-256 of the decoded content, in hex.
    pub(crate) checksum: String,
    /// Number of bytes of the decoded content.
    pub(crate) bytes: u64,
}

impl Content {
    /// Reads a body. Its bytes decide whether it is gzip; a header that claims so must be right.
    ///
    /// # Errors
    /// 413 for a body too large for a request, or with more than `max_payload` bytes of content;
    /// 400 for a broken gzip, and for an empty body.
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

/// Inflates a gzip window by window, one member after the other, and keeps only the checksum and
/// the length.
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

/// Builds the problem of bytes after a gzip member that are not a further member.
fn continued(end: usize, rest: usize) -> Problem {
    let detail = format!(
        "the body is a gzip of {end} bytes, and {rest} more bytes follow it, which are no gzip; send the gzip alone"
    );
    Problem::new(Reason::ContentCorrupt, detail)
}

/// Builds the problem of more decoded content than the deployment accepts, on either route.
pub(crate) fn too_large(max_payload: u64) -> Problem {
    let detail = format!("a payload may have {max_payload} bytes, once inflated");
    Problem::new(Reason::MaxPayloadExceeded, detail)
}

#[cfg(test)]
mod tests;
