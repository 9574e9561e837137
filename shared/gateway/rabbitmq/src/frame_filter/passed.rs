//! The frame filter as a function, for fuzzing.

use std::io;
use std::sync::Arc;

use super::{FrameFilter, Noticed};

/// Result of [`passed`]: the bytes that the filter passes on to the client library.
#[derive(Debug)]
pub struct Passed {
    /// Frames that were passed on, including rewritten ones.
    pub bytes: Vec<u8>,
    /// True if a delivery exceeded the limit given to [`passed`]: it was passed on without a body,
    /// and later deliveries were dropped.
    pub is_exceeded: bool,
    /// Error that ended the filtering, if there was one.
    pub result: io::Result<()>,
}

/// Filters the bytes that a broker sends on one connection. `windows` are consecutive pieces of
/// these bytes, of any length. `intake` limits the bytes of all deliveries together; `None` sets no
/// limit.
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
