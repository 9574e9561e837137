//! The filter on its own, for a search for bytes that it handles wrongly.

use std::io;
use std::sync::Arc;

use super::{FrameFilter, Noticed};

/// Part of a broker's bytes that the client library gets.
#[derive(Debug)]
pub struct Passed {
    /// Bytes of the frames that passed.
    pub bytes: Vec<u8>,
    /// Whether a delivery exceeded the intake, so that it has no body and none follows it.
    pub is_exceeded: bool,
    /// Fault behind which nothing can be read.
    pub result: io::Result<()>,
}

/// Passes a broker's bytes through a filter of their own, window by window. It lets in deliveries
/// of `intake` bytes altogether, or all of them.
pub fn passed<'w>(windows: impl IntoIterator<Item = &'w [u8]>, intake: Option<usize>) -> Passed {
    let noticed = Arc::new(Noticed::default());
    if let Some(bytes) = intake {
        noticed.intake().bind(bytes);
    }
    let mut filter = FrameFilter::new(Arc::clone(&noticed));
    let (mut bytes, mut buf) = (Vec::new(), vec![0; 16 * 1024]);
    let result = windows.into_iter().try_for_each(|window| {
        let pushed = filter.push(window);
        loop {
            match filter.take(&mut buf) {
                0 => return pushed,
                length => bytes.extend_from_slice(buf.get(..length).unwrap_or_default()),
            }
        }
    });
    Passed { bytes, is_exceeded: noticed.intake().is_exceeded(), result }
}
