//! What stands between the broker's bytes and the client library's parser.

use std::sync::{Arc, OnceLock};

/// A frame's type, channel and size.
const FRAME_HEADER: usize = 7;

/// Follows the frames of an incoming AMQP stream.
pub(crate) struct FrameFilter {
    greeting: Arc<OnceLock<Vec<u8>>>,
    first: Option<Vec<u8>>,
    ready: Vec<u8>,
    taken: usize,
}

impl FrameFilter {
    pub(crate) fn new(greeting: Arc<OnceLock<Vec<u8>>>) -> Self {
        Self { greeting, first: Some(Vec::new()), ready: Vec::new(), taken: 0 }
    }

    /// Takes bytes that came from the broker.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if let Some(first) = &mut self.first {
            first.extend_from_slice(bytes);
            if let Some(length) = frame_length(first).filter(|length| first.len() >= *length) {
                let mut first = self.first.take().unwrap_or_default();
                first.truncate(length);
                let _ = self.greeting.set(first);
            }
        }
        self.ready.extend_from_slice(bytes);
    }

    /// Moves what is ready into `buf` and says how much that was.
    pub(crate) fn take(&mut self, buf: &mut [u8]) -> usize {
        let rest = self.ready.get(self.taken..).unwrap_or_default();
        let length = rest.len().min(buf.len());
        if let (Some(from), Some(to)) = (rest.get(..length), buf.get_mut(..length)) {
            to.copy_from_slice(from);
        }
        self.taken += length;
        if self.taken == self.ready.len() {
            self.ready.clear();
            self.taken = 0;
        }
        length
    }
}

/// The whole length of the frame that `bytes` begin with, its end octet included.
fn frame_length(bytes: &[u8]) -> Option<usize> {
    let [_, _, _, size @ ..] = bytes.first_chunk::<FRAME_HEADER>()?;
    usize::try_from(u32::from_be_bytes(*size)).ok()?.checked_add(FRAME_HEADER + 1)
}
