use sha2::{Digest as _, Sha256};

use crate::decode::{Corrupt, Decoder};
use crate::unusable::{PayloadFault, UnusableCode};

/// Unpacks a payload as its bytes arrive: decodes gzip, and counts and hashes the decoded content.
#[derive(Debug)]
pub(crate) struct Content {
    decoder: Decoder,
    meter: ContentMeter,
}

#[derive(Debug)]
struct ContentMeter {
    bytes: u64,
    max_bytes: u64,
    hash: Sha256,
}

/// Size and SHA-256 of a payload's decoded content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContentDigest {
    pub(crate) bytes: u64,
    /// SHA-256 of the decoded content, in hex.
    pub(crate) checksum: String,
}

impl Content {
    pub(crate) fn new(max_bytes: u64) -> Self {
        Self { decoder: Decoder::new(), meter: ContentMeter { bytes: 0, max_bytes, hash: Sha256::new() } }
    }

    /// Decodes some bytes of `input`, appends at most 64 KiB to `content`, and returns the number
    /// of input bytes consumed.
    pub(crate) fn take(&mut self, input: &[u8], content: &mut Vec<u8>) -> Result<usize, PayloadFault> {
        let before = content.len();
        let taken = self.decoder.step(input, content).map_err(|error| corrupt(&error, self.meter.bytes))?;
        self.meter.take(content, before)?;
        Ok(taken)
    }

    /// Ends the payload, appends its remaining content, and returns the size and the checksum of
    /// the whole content.
    pub(crate) fn finish(self, content: &mut Vec<u8>) -> Result<ContentDigest, PayloadFault> {
        let Self { decoder, mut meter } = self;
        let before = content.len();
        decoder.finish(content).map_err(|error| corrupt(&error, meter.bytes))?;
        meter.take(content, before)?;
        Ok(ContentDigest { bytes: meter.bytes, checksum: hex::encode(meter.hash.finalize()) })
    }
}

impl ContentMeter {
    /// Counts and hashes the bytes of `content` from index `before` on. If the payload's content
    /// exceeds its limit, removes these bytes and fails.
    fn take(&mut self, content: &mut Vec<u8>, before: usize) -> Result<(), PayloadFault> {
        let new = content.get(before..).unwrap_or_default();
        self.bytes = self.bytes.saturating_add(u64::try_from(new.len()).unwrap_or(u64::MAX));
        if self.bytes > self.max_bytes {
            content.truncate(before);
            return Err(PayloadFault {
                code: UnusableCode::MaxPayloadExceeded,
                detail: format!("the decoded payload has more than {} bytes", self.max_bytes),
                byte_offset: Some(self.max_bytes),
            });
        }
        self.hash.update(new);
        Ok(())
    }
}

fn corrupt(error: &Corrupt, decoded: u64) -> PayloadFault {
    PayloadFault { code: UnusableCode::ContentCorrupt, detail: error.to_string(), byte_offset: Some(decoded) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the bytes of a payload's decoded content. Each call of the decoder gets an empty
    /// buffer.
    fn bytes(payload: &[u8], max_bytes: u64) -> Result<u64, UnusableCode> {
        let mut content = Content::new(max_bytes);
        for frame in payload.chunks(64) {
            let mut rest = frame;
            while !rest.is_empty() {
                let mut window = Vec::new();
                let taken = content.take(rest, &mut window).map_err(|unusable| unusable.code)?;
                rest = rest.get(taken..).unwrap_or_default();
            }
        }
        content.finish(&mut Vec::new()).map(|whole| whole.bytes).map_err(|unusable| unusable.code)
    }

    #[test]
    fn a_window_that_begins_empty_counts_towards_the_limit() {
        let payload = vec![b'x'; 1000];
        assert_eq!(bytes(&payload, 1000), Ok(1000));
        for max_bytes in [999, 500, 63, 1, 0] {
            assert_eq!(bytes(&payload, max_bytes), Err(UnusableCode::MaxPayloadExceeded), "{max_bytes}");
        }
    }
}
