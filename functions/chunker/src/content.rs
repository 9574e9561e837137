use sha2::{Digest as _, Sha256};

use crate::decode::{Corrupt, Decoder};
use crate::unusable::{Unusable, UnusableCode};

/// Unpacks a payload: decodes its bytes as they come, counts and hashes its content.
#[derive(Debug)]
pub(crate) struct Content {
    decoder: Decoder,
    seen: Seen,
}

#[derive(Debug)]
struct Seen {
    bytes: u64,
    max_bytes: u64,
    hash: Sha256,
}

/// What the content was as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) bytes: u64,
    /// SHA-256 in hex.
    pub(crate) checksum: String,
}

impl Content {
    pub(crate) fn new(max_bytes: u64) -> Self {
        Self { decoder: Decoder::new(), seen: Seen { bytes: 0, max_bytes, hash: Sha256::new() } }
    }

    /// Takes some of the payload's next bytes, appends the content that comes of them, and says how many it took: at least one, where there is one, but never
    /// more than what a window of content comes from.
    pub(crate) fn take(&mut self, input: &[u8], content: &mut Vec<u8>) -> Result<usize, Unusable> {
        let seen = &mut self.seen;
        let (taken, fed) = self
            .decoder
            .step(input, |window| seen.take(window, content))
            .map_err(|error| corrupt(&error, self.seen.bytes))?;
        fed.map(|()| taken)
    }

    /// Says that the payload ends here, and appends what was left of its content.
    pub(crate) fn finish(self, content: &mut Vec<u8>) -> Result<Whole, Unusable> {
        let Self { decoder, mut seen } = self;
        let bytes = seen.bytes;
        decoder
            .finish(|window| seen.take(window, content))
            .map_err(|error| corrupt(&error, bytes))
            .and_then(std::convert::identity)?;
        Ok(Whole { bytes: seen.bytes, checksum: hex::encode(seen.hash.finalize()) })
    }
}

impl Seen {
    fn take(&mut self, window: &[u8], content: &mut Vec<u8>) -> Result<(), Unusable> {
        self.bytes = self.bytes.saturating_add(u64::try_from(window.len()).unwrap_or(u64::MAX));
        if self.bytes > self.max_bytes {
            return Err(Unusable {
                code: UnusableCode::MaxPayloadExceeded,
                detail: format!("the decoded payload has more than {} bytes", self.max_bytes),
                byte_offset: Some(self.max_bytes),
            });
        }
        self.hash.update(window);
        content.extend_from_slice(window);
        Ok(())
    }
}

fn corrupt(error: &Corrupt, decoded: u64) -> Unusable {
    Unusable { code: UnusableCode::ContentCorrupt, detail: error.to_string(), byte_offset: Some(decoded) }
}
